"""How each statement of Tensor SSA runs at the sizes of a call, before any array is touched.

The cost of a kernel follows the support of its predicate, not its index space.
"""
