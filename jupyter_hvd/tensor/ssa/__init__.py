"""Normal forms (Figs. 7-12): from a program to Tensor SSA, simplified."""
