"""Writes the edit that converts a number to another unit."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

import libcst as cst

from .scale_exponents import Coercion

#: Operators whose results need no parentheses as a factor: `a * b` in `a * b * n`.
_FACTORS = (cst.Multiply, cst.Divide, cst.FloorDivide, cst.Modulo, cst.Power)
#: Operators whose right operand a factor behind it does not belong to: `a / b * n` is `(a / b) * n`.
_NOT_ASSOCIATIVE = (cst.Divide, cst.FloorDivide, cst.Modulo, cst.MatrixMultiply)


def edit_around(
    node: cst.BaseExpression, parent: cst.CSTNode | None, coercion: Coercion, size: str
) -> tuple[str, str]:
    """Return the text before and after an expression that converts it.

    Args:
        parent: the node around it. size: how the program writes the number of ranks.
    """
    power_of = operand_parentheses(node, "**")
    inner = operand_parentheses(node, "*")
    if coercion.kind == "remainder" and coercion.power == -1:
        period = coercion.bound
        last = f"max(1, {period} // {size})" if period.isdecimal() else period
        return f"min({inner[0]}", f"{inner[1]} // {size}, {last} - 1)"
    if coercion.kind == "last":
        return "max(1, (", f" - 1) // {size}) + 1"
    if coercion.kind == "list":
        factor = (
            f"* {size}" if coercion.power == 1 else f"* {size} ** {_format_power(coercion.power)}"
        )
        each = f"each {factor}"
        if coercion.power == -1:
            each = f"-(-each // {size})" if coercion.is_whole else f"each / {size}"
        return f"[{each} for each in ", "]"
    if coercion.kind == "keys":
        key = f"each * {size} ** {_format_power(coercion.power)}"
        if coercion.power == -1:
            key = f"-(-each // {size})" if coercion.is_whole else f"each / {size}"
        return f"{{{key}: value for each, value in {inner[0]}", f"{inner[1]}.items()}}"
    if coercion.kind == "rest":
        power = size if coercion.power == 1 else f"({size} ** {_format_power(coercion.power)})"
        before, after = f"(1 - (1 - {power_of[0]}", f"{power_of[1]}) ** {power})"
        return before, after
    if coercion.kind == "repeated":
        power = size if coercion.power == 1 else f"({size} ** {_format_power(coercion.power)})"
        before, after = power_of[0], f"{power_of[1]} ** {power}"
    elif coercion.is_whole and coercion.power == -1:
        return f"max(1, {inner[0]}", f"{inner[1]} // {size})"
    elif coercion.power == -1:
        before, after = inner[0], f"{inner[1]} / {size}"
    elif coercion.kind == "lookup" and coercion.bound:
        return f"min({inner[0]}", f"{inner[1]} * {size}, {coercion.bound} - 1)"
    elif coercion.kind == "restored":
        return f"({inner[0]}", f"{inner[1]} * {size} + {size} - 1)"
    elif coercion.power == 1:
        return product_around(node, parent, size)
    else:
        before, after = inner[0], f"{inner[1]} * {size} ** {_format_power(coercion.power)}"
    operators = (cst.BinaryOperation, cst.UnaryOperation, cst.Attribute)
    return (f"({before}", f"{after})") if isinstance(parent, operators) else (before, after)


def product_around(
    node: cst.BaseExpression, parent: cst.CSTNode | None, size: str
) -> tuple[str, str]:
    """Return the text before and after an expression that multiplies it by the number of ranks."""
    opening, closing = operand_parentheses(node, "*")
    after = f"{closing} * {size}"
    return (f"({opening}", f"{after})") if splits_product(node, parent) else (opening, after)


def without_factor_of_one(text: str, before: str, after: str) -> str:
    """Return `n` for `1 * n` and `(1 * n)`; "" if nothing or another number is multiplied."""
    closing = ")" * len(before)
    is_factor = before in ("", "(") and after.startswith(" * ") and after.endswith(closing)
    if text != "1" or not is_factor:
        return ""
    return after.removeprefix(" * ").removesuffix(closing)


def changes_nothing(coercion: Coercion) -> bool:
    """Whether a conversion gives the same number for all N: `1 ** n`, and `max(1, 1 // n)`."""
    match coercion.node:
        case cst.Integer("1"):
            is_divided = coercion.is_whole and coercion.power == -1
            return coercion.kind == "repeated" or is_divided
        case cst.Float(value=value):
            return coercion.kind == "repeated" and float(value) == 1
    return False


def operand_parentheses(node: cst.BaseExpression, operator: Literal["*", "**"]) -> tuple[str, str]:
    """Return the parentheses that an expression needs as the left operand of a product, quotient or power."""
    atoms = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.Integer, cst.Float)
    binds = (
        operator == "*"
        and isinstance(node, cst.BinaryOperation)
        and isinstance(node.operator, _FACTORS)
    )
    return ("", "") if isinstance(node, atoms) or node.lpar or binds else ("(", ")")


def splits_product(node: cst.BaseExpression, parent: cst.CSTNode | None) -> bool:
    """Whether the operator around an expression would separate it from a factor written behind it."""
    match parent:
        case cst.BinaryOperation(operator=cst.Power()) | cst.Attribute():
            return True
        case cst.BinaryOperation(operator=operator, right=right):
            return right is node and isinstance(operator, _NOT_ASSOCIATIVE)
        case cst.UnaryOperation(operator=cst.BitInvert()):
            return True
    return False


def _format_power(power: Fraction) -> str:
    """Return a power as Python source."""
    if power.denominator == 1:
        return str(power)
    return str(float(power)) if power.denominator in (2, 4, 8) else f"({power})"
