"""Ops that reduce over axes: sums, products, extremes, predicates, softmax."""
