"""How SciPy's functions are differentiated: drop-ins, fallbacks, host callbacks, the implicit
function theorem.
"""
