"""LLVM: compile the text of a module, cache its object code, load it into the process.

The only room that imports llvmlite. It knows nothing of tracing, plans or NumPy: the input is LLVM
IR text and a table of addresses for external names, the output machine code at an address.
`engine.py` compiles and loads; `object_cache.py` is `compile_module` with object files on disk and
in memory; `size_parameters.py` replaces numbers in a text by loads from a table, so that another
shape of arrays finds the object code; `fast_isel.py` rewrites what LLVM's fast code generator
handles badly; `loop_widening.py` makes vector code of loops, so that LLVM need not, with
`vector_code.py` for the instructions of a body; `function_writer.py` writes functions with loops
and conditions as text, on top of the lines and names of `text_writer.py`; `lock.py` serialises
LLVM and defers signals meanwhile; `perf_map.py` and `gdb.py` tell these tools the names of what was
loaded.

Start at `engine.compile_module`.
"""
