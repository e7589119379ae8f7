"""Forward and adjoint derivatives (Figs. 13, 15, 16), program to program."""
