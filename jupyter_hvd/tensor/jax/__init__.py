"""Lowered programs run by JAX. Nothing outside this package imports it."""
