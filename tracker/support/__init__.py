"""Small utilities that know nothing of differentiation: records, weak tables, copies of arrays,
attributes of users' objects, NumPy's error settings, the user's line of code.

Knows `errors` only. Start at `structs.record`, which most classes of the package are made by.
"""
