"""Functions along one axis: sorting, searching, cumulative sums, quantiles, differences, editing.

`sort.py` and `partition.py` put elements in order, compiled by way of integer keys; `cumulative.py`
has scans; `quantiles.py`, `statistics.py`, `nan_reductions.py`, `calculus.py`, `edit.py` and
`search_and_sets.py` are mostly composed of them and of indexing: integer results have no
derivative, the values are then picked by an index, which has one.
"""
