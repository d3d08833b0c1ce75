"""Small utilities that know nothing of differentiation.

    structs.py          `record`, a light dataclass: most classes of the package are made by it
    weakrefs.py         tables keyed by object identity, without callbacks in Python
    array_copies.py     private copies of arrays
    array_likes.py      foreign objects that hold numbers
    instances.py        attributes of objects of the user's own classes
    shown_text.py       texts and functions as prompts and notebooks show them
    pickling.py         how pickle and copy find drop-ins, and what transforms make
    frames/             running frames, and what objects hold
    deferred_signals.py signals wait while code runs that must not be interrupted
    errstate.py         NumPy's error settings, and its warnings at the user's line
    library_hooks.py    what other libraries' classes need for tracked operands
    type_variables.py   annotations of public functions
    forks.py, numpy_version.py

May know `errors` only.
"""
