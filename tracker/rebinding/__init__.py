"""Plain NumPy code under a derivative or a trace: the user's names for NumPy hold our drop-ins.

While a function is differentiated or traced, `np` in the user's modules holds `tracker.numpy`,
`math` a module of ours, `stats` `tracker.scipy.stats`, whichever way they were imported
(`call_exchanged`). NumPy, SciPy and all other packages are left as they are: only names in
namespaces of user code change (`user_code.py`).

`drop_in_lookup.py`     the drop-in for an object
`bindings.py`           the names, cells and items by which user code has an object of NumPy's
`reachable_objects.py`  the functions, classes and bindings that objects lead to
`namespaces.py`         the globals of user code
`rebind_call.py`        the plan of a call, the exchange around it, and imports meanwhile
`class_shims.py`        `type`, `hasattr` and `getattr`, which answer for the data of tracked values
`numba_compile.py`      numba, which compiles what it finds in the same namespaces

Drop-ins act like NumPy in threads that differentiate and trace nothing. What drop-in an object has
is handed in from above (`set_drop_ins`).

Invariants: nothing is exchanged while no derivative or trace runs in any thread; a binding gets its
original back unless somebody else has written there.
"""

from tracker.rebinding.drop_in_lookup import original_of, set_drop_ins
from tracker.rebinding.rebind_call import call_exchanged, exchange_suspended, prepare_exchange

__all__ = [
    "call_exchanged",
    "exchange_suspended",
    "original_of",
    "prepare_exchange",
    "set_drop_ins",
]
