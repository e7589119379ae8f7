"""How a conversion of a number to another unit is written."""

from __future__ import annotations

from fractions import Fraction

import libcst as cst

from .scale_exponents import Coercion


def edit_around(
    node: cst.BaseExpression, parent: cst.CSTNode | None, coercion: Coercion, size: str
) -> tuple[str, str]:
    """What to write before and behind an expression to convert it.

    Args:
        parent: the node around it. size: how the program writes the number of ranks.
    """
    inner = ("", "") if is_atom(node) else ("(", ")")
    if coercion.kind == "remainder" and coercion.power == -1:
        period = coercion.modulus
        scaled = f"max(1, {period} // {size})" if period.isdecimal() else period
        return inner[0], f"{inner[1]} // {size} % {scaled}"
    if coercion.kind == "rest":
        power = size if coercion.power == 1 else f"({size} ** {_number(coercion.power)})"
        before, after = f"(1 - (1 - {inner[0]}", f"{inner[1]}) ** {power})"
        return before, after
    if coercion.kind == "repeated":
        power = size if coercion.power == 1 else f"({size} ** {_number(coercion.power)})"
        before, after = inner[0], f"{inner[1]} ** {power}"
    elif coercion.is_whole and coercion.power == -1:
        return f"max(1, {inner[0]}", f"{inner[1]} // {size})"
    elif coercion.power == -1:
        before, after = inner[0], f"{inner[1]} / {size}"
    elif coercion.power == 1:
        before, after = inner[0], f"{inner[1]} * {size}"
    else:
        before, after = inner[0], f"{inner[1]} * {size} ** {_number(coercion.power)}"
    operators = (cst.BinaryOperation, cst.UnaryOperation, cst.Attribute)
    return (f"({before}", f"{after})") if isinstance(parent, operators) else (before, after)


def is_atom(node: cst.BaseExpression) -> bool:
    """Whether an expression needs no parentheses as an operand."""
    atoms = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.Integer, cst.Float)
    return isinstance(node, atoms) or bool(node.lpar)


def _number(power: Fraction) -> str:
    """A power as Python writes it."""
    if power.denominator == 1:
        return str(power)
    return str(float(power)) if power.denominator in (2, 4, 8) else f"({power})"
