"""Compares the results of a program on N ranks with those in one process. Both are run, and compared.

Start reading at `exact/verification.py`. The ranks import this package too, and nothing of the converter with it.
"""
