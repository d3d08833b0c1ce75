"""The intermediate representation; start reading at `graph.py`."""
