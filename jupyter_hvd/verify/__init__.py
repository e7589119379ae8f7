"""Does a program give on N ranks what it gives in one process? Both are run, and compared.

Start reading at `exact/verification.py`. The ranks import this package too, and nothing of the converter with it.
"""
