"""The meaning of programs (Figs. 4, 5), straight from the paper: slow, exact, the oracle of the tests."""
