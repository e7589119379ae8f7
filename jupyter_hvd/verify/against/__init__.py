"""Does another program, which distributes its training itself, train as the original does in one process?

`steps.py` arranges what was observed by training steps, `faults.py` finds the first one at which the programs differ and what
kind of error that looks like, and `verification.py` runs the programs and shows what was found.
"""
