"""What a program may hold, call and change, read from its text. Start reading at `values.py`."""
