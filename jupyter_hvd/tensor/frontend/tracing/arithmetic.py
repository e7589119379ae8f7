"""Arithmetic: of data, of numbers, and of indices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, cast

from ...derivative.elementary import REALS, Interval, find_elementary
from ...language.affine import Affine
from ...language.errors import TensorError
from ...language.function import find_function
from ...language.predicates import TRUE, conj
from ...language.terms import Add, Call, Const, Guard, Mul, Term
from ..tracers import (
    Condition,
    Nature,
    Value,
    affine_of,
    as_truth,
    is_index_array,
    lists_of,
    numbers_of,
    several_cases,
    sought_of,
)
from .arrays import Range, range_of
from .loops import Loops
from .packing import guarded


class Arithmetic(Loops):
    """`+`, `*`, `/`, `**`; `(i < j) * e` is Iverson's bracket."""

    # What classes that extend this one define
    joined_lists: Callable[[Any, Any], Any]
    repeated_list: Callable[[Any, Any], Any]

    def minus(self, k: int, value: Any) -> Any:
        """Return `-x` of a number, an index, or the entries of an array; called by rewritten code."""
        self.at(k)
        if isinstance(value, int | float | Fraction):
            return -value
        if self.cases_of(value) is not None:
            return self.of_cases((value,), lambda a: [(TRUE, a * -1)])
        value = self.integers_as_numbers(value)
        made = self.negative(value)
        if numbers_of(value) != "int":
            return made
        return made.of_nature(
            Nature(numbers="int", within=_range_of_result("-", range_of(0), range_of(value)))
        )

    def negative(self, value: Any) -> Value:
        """Return `-1·x` of numbers and of the entries of arrays."""
        if self.is_array(value):
            return self.spread((value,), self.negative)
        return Value(self, Mul(Const(-1), self.scalar(value, "`-`")))

    def plus(self, k: int, value: Any) -> Any:
        """Return `+x`, which is x; called by rewritten code."""
        self.at(k)
        return value

    def binary(self, k: int, op: str, left: Any, right: Any) -> Any:
        """Return `left op right` of operands of any kind; called by rewritten code.

        Raises:
            TensorError: the operator is not defined for these, or the result is no value of the language.
        """
        self.at(k)
        plain = int | float | Fraction
        if isinstance(left, plain) and isinstance(right, plain):
            if op not in _PYTHON:
                raise self._unknown_operator(op)
            return _PYTHON[op](left, right)
        if op in ("&", "|", "^", "<<", ">>"):
            return self._bit_operation(k, op, left, right)
        if op in "+*" and (lists_of(left) or lists_of(right)):
            left, right = (self._list_as_numbers(x) for x in (left, right))
        if op == "+" and is_index_array(right):
            left, right = right, left
        offset = affine_of(right)
        if op in ("+", "-") and is_index_array(left) and offset is not None:
            return left.data.moved(offset * (1 if op == "+" else -1)).array
        if (integer := self._integer_arithmetic(op, left, right)) is not None:
            return integer
        left, right = self.integers_as_numbers(left), self.integers_as_numbers(right)
        if op in "+*" and (lists_of(left) or lists_of(right)):
            if op == "+" and lists_of(left) and lists_of(right):
                return self.joined_lists(left, right)
            if op == "*" and affine_of(left) is not None:
                left, right = right, left
            if op == "*" and affine_of(right) is not None:
                return self.repeated_list(left, right)
        if isinstance(left, tuple) and op in "+*" and isinstance(right, tuple | int):
            return _PYTHON[op](left, right)
        numbers = numbers_of(left), numbers_of(right)
        pythons = isinstance(left, Condition | bool) and isinstance(right, Condition | bool)
        if numbers == ("bool", "bool") and op in "+-@" and not pythons:
            raise self.error(
                f"`{op}` of two conditions is logic in NumPy, and a number elsewhere",
                "write `p | q`, or make numbers of them: `1.0 * p + 1.0 * q`",
            )
        if op == "@":
            return self.built("matmul", left, right)
        made = self.computed(op, left, right)
        whole = op in ("+", "-", "*", "%", "//") and (
            op not in ("%", "//") or "bool" not in numbers
        )
        if whole and all(numbers):
            kept = "bool" if numbers == ("bool", "bool") else "int"
            within = (
                _range_of_result(op, range_of(left), range_of(right)) if kept == "int" else None
            )
            made.of_nature(replace(made.nature, numbers=kept, within=within))
        return made

    def _bit_operation(self, k: int, op: str, left: Any, right: Any) -> Any:
        """Return `left & right` and the like for conditions; for integers, those bit operations that are quotients or
        remainders, `k & 1`.
        """
        if "int" in (numbers_of(left), numbers_of(right)):
            whole = isinstance(right, int) and right >= 0
            if op in ("<<", ">>") and whole:
                return self.binary(k, "*" if op == "<<" else "//", left, 2**right)
            if op == "&" and whole and right & (right + 1) == 0:
                return self.binary(k, "%", left, right + 1)
            raise self.error(f"`{op}` of bits", "write `k % 2`, `k // 2` and the like")
        if op == "^" and "bool" == numbers_of(left) == numbers_of(right):
            return self.compare(k, ("!=",), left, right)
        if op in ("&", "|"):
            return self.both(k, left, right) if op == "&" else self.either(k, left, right)
        raise self._unknown_operator(op)

    def _list_as_numbers(self, value: Any) -> Any:
        """Return an argument that is a list of integers as a list of numbers; other values unchanged."""
        if not is_index_array(value):
            return value
        return self.whole(value).of_nature(Nature(lists_of(value), "int"))

    def computed(self, op: str, left: Any, right: Any) -> Value:
        """Return an operation on numbers, entry by entry on arrays."""
        bracketed = op == "*" and (isinstance(left, Condition) or isinstance(right, Condition))
        if not bracketed and (self.is_array(left) or self.is_array(right)):
            return self.spread((left, right), lambda a, b: self.computed(op, a, b))
        if op == "*":
            return self._product(left, right)
        a, b = self.scalar(left, f"`{op}`"), self.scalar(right, f"`{op}`")
        match op:
            case "+":
                return Value(self, Add(a, b))
            case "//" | "%":
                return Value(self, Call(find_function(_DIVISIONS[op]), (a, b)))
            case "-":
                return Value(self, Add(a, _negate(b)))
            case "/":
                return Value(self, self._quotient(a, b))
            case "**":
                return self._power(a, b)
            case "&" | "|" | "^":  # of entries of arrays of conditions
                truths = (as_truth(Value(self, e)) for e in (a, b))
                return cast("Value", self._bit_operation(self.here, op, *truths))
        raise self._unknown_operator(op)

    def chain(self, first: Any, *rest: Any) -> Any:
        """Return `a + b - c + …` or `a * b * …` as a balanced tree, because Python cannot recurse deeply.

        Args:
            rest: alternately the source location and operator of each operation, and its right operand.
        """
        steps, operands = rest[::2], (first, *rest[1::2])
        signed = [first]
        for (k, op), operand in zip(steps, operands[1:], strict=True):
            signed.append(self.minus(k, operand) if op == "-" else operand)

        def combined(low: int, high: int) -> Any:
            if high - low == 1:
                return signed[low]
            middle = (low + high) // 2
            k, op = steps[middle - 1]
            return self.binary(
                k, "*" if op == "*" else "+", combined(low, middle), combined(middle, high)
            )

        return combined(0, len(signed))

    def _unknown_operator(self, op: str) -> TensorError:
        """Return the error for an operator that the language does not have."""
        return self.error(f"`{op}` is not in the tensor language", "use +, -, *, / and **")

    def _product(self, left: Any, right: Any) -> Value:
        """Return `e·e`; of a condition and a value, Iverson's bracket."""
        if isinstance(left, Condition) and isinstance(right, Condition):
            return Value(self, Guard(conj(left.predicate, right.predicate), Const(1)))
        for test, other in ((left, right), (right, left)):
            if isinstance(test, Condition):
                term, layout = self.pack(other)
                return Value(self, guarded(test.predicate, term), layout)
        return Value(self, self.times(self.scalar(left, "`*`"), self.scalar(right, "`*`")))

    def _quotient(self, a: Term, b: Term) -> Term:
        """Return `a / b` as a product, with the inverse of a constant, or the primitive `recip`."""
        if isinstance(b, Const) and isinstance(b.value, int | Fraction):
            if b.value == 0:
                raise self.error("this divides by zero")
            return Mul(Const(Fraction(1, 1) / b.value), a)
        inverse = self.primitive("recip", b).term
        return inverse if a is Const(1) else Mul(a, inverse)

    def _power(self, a: Term, b: Term) -> Value:
        """Return a power: small constant ones by multiplication, others by the primitive `pow`."""
        inner = self.inside_of_abs(a)
        if inner is not None and isinstance(b, Const) and is_even(b.value):
            a = inner
        if isinstance(b, Const) and isinstance(b.value, int) and 0 <= b.value <= 4:
            base = self._bind("base", Value(self, a)).term
            if b.value == 0:
                return Value(self, Const(1))
            squares = {1: base}
            if b.value > 1:
                squares[2] = self.times(base, base)
            if b.value == 4:
                square = self._bind("square", Value(self, squares[2])).term
                return Value(self, Mul(square, square))
            return Value(self, Mul(squares[2], base) if b.value == 3 else squares[b.value])
        if b is Const(0.5):
            return self.primitive("sqrt", a)
        if b is Const(-1):
            return self.primitive("recip", a)
        return self.primitive("pow", a, b)

    def primitive(self, name: str, *arguments: Term) -> Value:
        """Return an elementary function of scalars.

        Under conditions on data, arguments outside the function's domain are replaced by a number in it. Otherwise the infinite
        derivative there would be multiplied by zero.
        """
        known = find_elementary(name) if self.holding else None
        domain = known.domain if known is not None else ()
        given = [
            self._within_domain(a, interval) if interval != REALS else a
            for a, interval in zip(arguments, domain or [REALS] * len(arguments), strict=True)
        ]
        return Value(self, Call(find_function(name), tuple(given)))

    def _within_domain(self, argument: Term, interval: Interval) -> Term:
        """Replace an argument by a number in the domain wherever the conditions on data around do not hold."""
        if isinstance(argument, Const):
            return argument
        low, high = interval
        inside = 1 if low < 1 < high else 0 if low < 0 < high else 2
        value = Value(self, argument)
        for mask in self.holding:
            value = self.chosen(mask(), value, inside)
        return value.term

    def _integer_arithmetic(self, op: str, left: Any, right: Any) -> Any:
        """Return the result of arithmetic on integers if it is an integer again, or a number if both operands are affine; else
        None.
        """
        if op == "+" and sought_of(right) is not None:
            left, right = right, left
        a, b, sought = affine_of(left), affine_of(right), sought_of(left)
        if sought is not None and sought.entry is not None and b is not None and op in ("+", "-"):
            relation, at, offset = sought.entry
            return self.looked_up(relation, at, offset + b if op == "+" else offset - b)
        if self.cases_of(left) is None or self.cases_of(right) is None:
            return None
        factor = next((x for x in (a, b) if x is not None and x.is_constant), None)
        if op in ("+", "-") or (op == "*" and factor is not None):

            def combined(x: Affine, y: Affine) -> Affine:
                if op == "*" and factor is not None:
                    return (y if factor is a else x) * factor.constant
                return x + y if op == "+" else x - y

            made = self.of_cases((left, right), lambda x, y: [(TRUE, combined(x, y))])
            moved, by = (left, b) if several_cases(left) else (right, a)
            grows = op == "+" or (op == "-" and moved is left)
            if several_cases(made) and moved.extreme and by is not None and grows:
                made.extreme = moved.extreme
                made.ends = tuple(combined(end, by) for end in moved.ends)
            return made
        if a is None or b is None:
            return None
        inner = {i for i, _ in self.binders}
        x, y = self.index_term(a), self.index_term(b)
        match op:
            case "/":
                return Value(self, self._quotient(x, y))
            case "**":
                return self._power(x, y)
            case "*":
                return Value(self, self.times(x, y))
            case "//" | "%" if not (a.names | b.names) & inner:
                if divisor := self.number(b):
                    return _PYTHON[op](self.number(a), divisor)
                raise self.error("this divides by zero")
            case "//" | "%" if not b.names & inner:
                if b == Affine.of(0):
                    raise self.error("this divides by zero")
                return self.divided(op, a, b)
        raise self.error(
            f"`{op}` makes this index not affine",
            "use i, n, constants, +, - and constant multiples; for anything else pass an index array",
        )


def _range_of_result(op: str, left: Range | None, right: Range | None) -> Range | None:
    """Return between which sizes a sum, a difference, a multiple or a remainder lies; None if unknown."""
    if right is None or (left is None and op != "%"):
        return None
    (low, below), (first, end) = left or right, right
    if op == "+":
        return low + first, below + end - 1
    if op == "-":
        return low - end + 1, below - first
    if op == "%":
        known = first + 1 == end and first.constant >= 0 and all(c > 0 for _, c in first.terms)
        return (Affine.of(0), first) if known and first != Affine.of(0) else None
    if op == "//":
        known = first + 1 == end and first.is_constant and first.constant > 0
        return (Affine.of(0), below) if known and low == Affine.of(0) else None
    if first + 1 != end or not first.is_constant:
        (low, below), (first, end) = (first, end), (low, below)
    if first + 1 != end or not first.is_constant or first.constant < 0:
        return None
    return low * first.constant, (below - 1) * first.constant + 1


def is_even(x: Any) -> bool:
    """Whether a number is an even integer, of whatever type."""
    return isinstance(x, int | float | Fraction) and x % 2 == 0


def _negate(e: Term) -> Term:
    """Return the negative of a term."""
    if isinstance(e, Const) and not isinstance(e.value, Affine):
        return Const(-e.value)
    return Mul(Const(-1), e)


_DIVISIONS = {"//": "floor_divide", "%": "mod"}
_PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: Fraction(a, b) if isinstance(a, int) and isinstance(b, int) else a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
}
