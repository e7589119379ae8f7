"""Static analysis: the values that a program may hold, its calls, and what it changes. Start reading at `values.py`."""
