"""From a Python function to a program: rewriting, tracing, the parameters' types, reads in range."""
