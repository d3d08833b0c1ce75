"""Function transforms above derivatives: `vmap`, `jacobian`, `hessian`."""
