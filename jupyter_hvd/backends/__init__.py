"""How a converted program speaks to its other ranks: one package a library."""
