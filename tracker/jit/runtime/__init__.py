"""What compiled code needs from the process: memory, threads, BLAS, C functions, struct offsets.

Small modules in IR text that are compiled once for a process and called by generated code:
`allocator.py` (large blocks), `thread_pool.py` (parallel loops), `interrupt_checks.py`, and
`native_helpers.py` (what entries share). `cpython_layout.py` has struct offsets; `c_symbols.py` and
`blas.py` find addresses of C functions; `ufunc_loops.py` calls the inner loops of foreign ufuncs.
`entry_writer.py` is the text builder for call entries. `compile_queue.py` compiles in a background
thread, `progress.py` shows what long compilations are at; `availability.py` says whether this
interpreter is supported at all.

Knows `llvm` and the data of `guards`; never traces, plans or kernels.
"""
