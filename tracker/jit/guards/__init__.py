"""What a specialisation is keyed by: where captured values are read, the arguments' signature,
constants, class attributes. Data and comparisons; no user code runs.

Start at `source.py` and `signature.py`.
"""
