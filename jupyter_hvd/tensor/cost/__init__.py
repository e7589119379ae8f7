"""The cost model (Fig. 6): the oracle, formulas in the sizes, and fast counts at given sizes."""
