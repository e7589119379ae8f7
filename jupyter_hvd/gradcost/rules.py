"""The rules of the paper by number: what each does, for readers without the paper."""

from __future__ import annotations

NORMAL_FORM = {
    "5.29": "a constant array",
    "5.30": "a read of another tensor",
    "5.31": "a guarded addition",
    "5.32": "a product, entry by entry",
    "5.33": "a black-box function, entry by entry",
    "5.34": "a sum, as one contraction",
}

FORWARD = {
    "6.4": "D⟦e+e′⟧ = D⟦e⟧ + D⟦e′⟧",
    "6.5": "product rule: D⟦e·e′⟧ = D⟦e⟧·e′ + e·D⟦e′⟧",
    "6.6": "chain rule: D⟦f(e)⟧ = Df(e; D⟦e⟧)",
    "6.10": "a sum's differential is the sum of the differentials",
    "6.11": "a read's differential is read at the same place",
}

ADJOINT = {
    "6.33": "the cotangent of an input, zero outside its predicate",
    "6.34": "what does not depend on the input has cotangent zero",
    "6.39": "merging: cotangents from several uses add up, where both are live",
    "6.44": "addition: the cotangent goes to both sides, under their guards",
    "6.47": "map: the cotangent times the function's derivative",
    "6.48": "product: the cotangent contracted with the other factor",
    "6.49": "sum or read: the cotangent is sent back along the indices",
}

LOOPS = {"loop": "a loop that carries values, or what it takes and gives (docs/recurrences.md)"}

RULES = {**NORMAL_FORM, **FORWARD, **ADJOINT, **LOOPS}
