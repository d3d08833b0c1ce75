"""SciPy's functions on tracked values: drop-ins for those that convert their arguments.

Each submodule stands for SciPy's of the same name: names that it does not define are SciPy's own,
and plain arguments go to SciPy. SciPy is needed here, and nowhere else in this package.
"""
