"""Dense linear algebra in machine code: what the lowering kind `Routine` names.

`write` writes loops as text; `factors`, `spectra` hold the routines; `routines` is the table of
them, compiled when they are first needed; `planning` and `calls` make them part of a plan and of
its driver. Start at `routines`.
"""
