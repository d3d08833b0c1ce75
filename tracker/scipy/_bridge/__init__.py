"""How SciPy's functions are differentiated. Each module of `tracker.scipy` uses one of these ways:

    dropin      a reimplementation in NumPy, which plain arguments bypass
    rebound     SciPy's own Python code with other globals: NumPy's names are `tracker.numpy`'s
    classes     classes that stand for SciPy's; attributes that they lack are SciPy's or refused
    fallback    SciPy's own function or object, for what has no reimplementation; it refuses tracked
                values, or is given their plain numbers where results have no derivative
    callback    SciPy's own function, called back out of compiled code
    implicit    a solver's result, differentiated by the implicit function theorem
    linear_map  a linear map that SciPy computes, as one op with its adjoint
    checks      SciPy's checks of values, and its errors

Knows the tape, the derivatives, `transforms`, and of the compiler only what
`tracker/jit/tracing/__init__.py` offers. Knows none of the modules of `tracker.scipy`. Start at
`dropin.py`.
"""
