"""NumPy's functions, defined by NumPy's functions.

A definition is ordinary Python that runs on NumPy's arrays as it stands, which is how `tests/tensor/test_prelude.py` compares it
with the function that it defines. In a tensor function it runs on the operands of `frontend/operands`, so that its operators and
the functions that it calls are traced. What no definition can say is a primitive, in `frontend/forms` (docs/architecture.md).
"""
