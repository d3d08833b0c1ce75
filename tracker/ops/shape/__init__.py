"""Ops that create, reshape, transpose and join arrays."""
