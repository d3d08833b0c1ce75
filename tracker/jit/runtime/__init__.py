"""What compiled code needs of the process: memory, threads, BLAS, C functions, CPython's structs,
and the queue that compiles in the background.
"""
