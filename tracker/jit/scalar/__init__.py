"""LLVM text of scalar operations: real, complex, integer, bits."""
