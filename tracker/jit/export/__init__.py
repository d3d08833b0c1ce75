"""Export: jitted functions as an object file and a C header, for programs without Python.

Start at `export` in `object_file.py`, which traces and plans a function for each choice of sizes.
`c_functions.py` writes the code around these plans, `c_header.py` the header.
"""
