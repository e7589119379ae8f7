"""Does a distributed training do what the original does in one process? Both are observed, and compared.

Three parts that know nothing of one another: `observer.py` watches a process and leaves a record of it, `compare.py` finds
where two records differ, and `verification.py` runs the programs and shows what was found.
"""
