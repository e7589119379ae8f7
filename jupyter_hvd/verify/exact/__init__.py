"""Verifies our own conversions: compares records of the original and the distributed run. Both are observed, and compared.

Three parts that know nothing of one another: `observer.py` watches a process and leaves a record of it, `compare.py` finds
where two records differ, and `verification.py` runs the programs and shows what was found.
"""
