"""How an op is declared: value, result type, derivatives and lowering.

All families of ops import this folder; it imports the IR and the tape, never a family. `declare.py`
has the factories, start there. An op file states what NumPy computes (`evaluate`), the result type
(`infer`), the derivative rules (`vjp`, `jvp`, or `partials` of an elementwise op) and the kind of
loop (`lower`); everything else in this folder is shared detail of these four:

- `arguments.py`, `casting.py`: NumPy's arguments, `out=` and stores, with NumPy's errors
- `dtypes.py`: result types; `operators.py`: Python's operators of tracked arrays
- `rule_helpers.py`: cotangents and tangents in the right shape and dtype
- `numpy_code.py`: functions that run as NumPy wrote them
- `bundle.py`: ops with several results; `foreign_ufuncs.py`: inner loops of other packages
"""
