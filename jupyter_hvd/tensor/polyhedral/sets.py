"""Integer sets by isl: emptiness, implication, projection and simplification of predicates.

Relations are data, which isl cannot see: a set made from a predicate with relations is the
superset where they all hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..language.affine import Affine
from ..language.predicates import (
    FALSE,
    TRUE,
    And,
    Compare,
    Exists,
    Or,
    Predicate,
    Related,
    compare,
    conj,
    conjuncts,
    disj,
    exists,
    fresh,
    in_range,
    substitute,
)
from ..language.terms import Binder, Binders, index_names

if TYPE_CHECKING:
    import islpy


@lru_cache(maxsize=8192)
def integer_set(binders: Binders, p: Predicate) -> islpy.Set:
    """Return the isl set `{binders | p}`, with the other names as parameters; relations count as true."""
    spelt = isl_names(binders, p)
    variables = [*index_names(binders)]
    parameters = ",".join(text for name, text in spelt.items() if name not in variables)
    parts = {_predicate_text(part, spelt) for part in (*_ranges_text(binders), *conjuncts(p))}
    body = " and ".join(sorted(parts))
    return _read_set(f"[{parameters}] -> {{ [{','.join(spelt[i] for i in variables)}] : {body} }}")


@lru_cache(maxsize=8192)
def _ranges_text(binders: Binders) -> frozenset[Predicate]:
    """Print the ranges of the binders as constraints."""
    return frozenset(
        q for index, size in binders for q in conjuncts(in_range(Affine.of(index), size))
    )


@lru_cache(maxsize=8192)
def _read_set(spelt: str) -> islpy.Set:
    """Parse a set in isl's notation.

    Parsing takes longer than most queries, and many predicates have the same text: only their binders' names, or the order
    of
    their conjuncts, differ.
    """
    import islpy

    return islpy.Set(spelt)


def isl_names(binders: Binders, p: Predicate) -> dict[str, str]:
    """Return isl's name for each name: binders by position, parameters by name, the same in every set."""
    spelt = {index: f"v{k}" for k, (index, _) in enumerate(binders)}
    used = p.names.union(*(size.names for _, size in binders))
    for name in sorted(used - set(spelt)):
        plain = name.isascii() and name.isidentifier()
        spelt[name] = f"p_{name}" if plain else "q_" + name.encode().hex()
    return spelt


def _name_from_isl(text: str) -> str:
    """Convert isl's name of a parameter back."""
    return text[2:] if text.startswith("p_") else bytes.fromhex(text[2:]).decode()


def _predicate_text(p: Predicate, spelt: dict[str, str], depth: int = 0) -> str:
    """Return a predicate in isl's syntax; relations are taken as true."""
    match p:
        case Compare(op, left, right):
            return f"{affine_text(left, spelt)} {'<=' if op == '≤' else op} {affine_text(right, spelt)}"
        case Related():
            return "true"
        case And(parts):
            return " and ".join(_predicate_text(part, spelt, depth) for part in parts) or "true"
        case Or(parts):
            return (
                "("
                + " or ".join(f"({_predicate_text(part, spelt, depth)})" for part in parts)
                + ")"
                if parts
                else "false"
            )
        case Exists(index, size, body):
            bound, upper = f"e{depth}", affine_text(size, spelt)
            inside = _predicate_text(body, {**spelt, index: bound}, depth + 1)
            inside = f"0 <= {bound} < {upper} and {inside}"
            return f"(exists {bound} : {inside})"
    raise TypeError(p)


def affine_text(a: Affine, spelt: Mapping[str, str]) -> str:
    """Return an affine expression in isl's syntax."""
    terms = [spelt[name] if k == 1 else f"{k}*{spelt[name]}" for name, k in a.terms]
    return " + ".join([*terms, str(a.constant)] if a.constant or not terms else terms)


@lru_cache(maxsize=8192)
def is_impossible(binders: Binders, p: Predicate) -> bool:
    """Whether `p` holds nowhere in the ranges, whatever the sizes and relations."""
    return p is FALSE or bool(integer_set(binders, p).is_empty())


def implies(context: Predicate, p: Predicate, binders: Binders) -> bool:
    """Whether an affine `p` holds wherever `context` does in the ranges; False if `p` has relations."""
    return not p.relations and bool(
        integer_set(binders, context).is_subset(integer_set(binders, p))
    )


@lru_cache(maxsize=16384)
def simplify(p: Predicate, binders: Binders) -> Predicate:
    """Drop the parts of `p` that the binders' ranges or its other parts imply; `false` where it contradicts the ranges (§6).

    Quantifiers over affine conditions are projected out where that needs no remainders. The result agrees with `p` on the
    ranges.
    """
    if p is FALSE:
        return p
    if _ranges_text(binders).issuperset(conjuncts(p)):
        return TRUE
    if not p.relations:
        return _restate_by_isl(p, binders)
    # Relations count as true: without them the set is one that is made below, or was before.
    if is_impossible(binders, conj(*(q for q in conjuncts(p) if not isinstance(q, Related)))):
        return FALSE
    match p:
        case And(parts):
            affine = simplify(conj(*(part for part in parts if not part.relations)), binders)
            others = [simplify(part, binders) for part in parts if part.relations]
            return conj(affine, *others)
        case Or(parts):
            return disj(*(simplify(part, binders) for part in parts))
        case Exists(index, size, body):
            own = fresh(index, {*index_names(binders)} | (body.names - {index}))
            meant = substitute(body, {index: Affine.of(own)} if own != index else {})
            inner = simplify(meant, (Binder(own, size), *binders))
            return exists(own, size, inner)
    return p


def _restate_by_isl(p: Predicate, binders: Binders) -> Predicate:
    """Let isl restate an affine predicate, unless that would take remainders or grow it."""
    ranges = integer_set(binders, TRUE)
    whole = integer_set(binders, p)
    if whole.is_empty():
        return FALSE
    if ranges.is_subset(whole):
        return TRUE
    restated = set_to_predicate(whole.coalesce().gist(ranges), isl_names(binders, p))
    if restated is None or (
        _predicate_size(restated) > _predicate_size(p) and not _is_quantified(p)
    ):
        return p
    return restated


def _predicate_size(p: Predicate) -> int:
    """Return the number of atoms in a predicate."""
    match p:
        case And(parts) | Or(parts):
            return sum(map(_predicate_size, parts))
    return 1


def _is_quantified(p: Predicate) -> bool:
    """Whether a predicate has a quantifier."""
    match p:
        case And(parts) | Or(parts):
            return any(map(_is_quantified, parts))
    return isinstance(p, Exists)


def set_to_predicate(set_: Any, spelt: dict[str, str]) -> Predicate | None:
    """Convert an isl set to a predicate; None where it needs remainders, which the grammar can express only with `∃`."""
    cases = []
    for basic in set_.get_basic_sets() if hasattr(set_, "get_basic_sets") else [set_]:
        if basic.dim(dimension_kinds().div):
            return None
        cases.append(
            conj(
                *_order_constraints(
                    _constraint_predicate(c, spelt) for c in basic.get_constraints()
                )
            )
        )
    return disj(*_order_constraints(cases))


def dimension_kinds() -> Any:
    """Return isl's enumeration of the kinds of dimensions."""
    from islpy import dim_type

    return dim_type


def _order_constraints(parts: Iterable[Predicate]) -> list[Predicate]:
    """Sort constraints, equalities first and then by text, so that the order is the same in each run."""
    return sorted(
        parts, key=lambda p: (not (isinstance(p, Compare) and p.op == "="), _constraint_key(p))
    )


def _constraint_key(p: Predicate) -> str:
    """Return the sort key of a constraint."""
    match p:
        case Compare(op, left, right):
            return f"{left}{op}{right}"
        case And(parts) | Or(parts):
            return f"{type(p).__name__}({','.join(map(_constraint_key, parts))})"
    return ""


def _constraint_predicate(constraint: Any, spelt: dict[str, str]) -> Predicate:
    """Convert `a ≥ 0` or `a = 0`, with the negative terms moved to the other side for readability."""
    meant = {text: name for name, text in spelt.items()}
    left, right = Affine.of(0), Affine.of(0)
    for key, value in constraint.get_coefficients_by_name().items():
        if key == 1:
            continue
        k = value.to_python()
        if k > 0:
            right = right + Affine.of(meant[key]) * k
        elif k < 0:
            left = left + Affine.of(meant[key]) * -k
    constant = constraint.get_constant_val().to_python()
    if constraint.is_equality():
        if constant > 0:
            return compare("=", left, right + constant)
        return compare("=", right, left + -constant)
    if constant == -1 and right.terms:
        return compare("<", left, right)
    if constant > 0:
        return compare("≤", left, right + constant)
    return compare("≤", left + -constant, right)


def simplify_under(p: Predicate, context: Predicate) -> Predicate:
    """Drop the parts of an affine predicate over sizes that the context and `size ≥ 1` imply."""
    positive = conj(context, *(compare("≤", 1, name) for name in sorted(p.names | context.names)))
    both = conj(p, positive)
    whole = integer_set((), both)
    if whole.is_empty():
        return FALSE
    ranges = integer_set((), positive)
    if ranges.is_subset(whole):
        return TRUE
    restated = set_to_predicate(whole.coalesce().gist(ranges), isl_names((), both))
    return p if restated is None else restated


def complement(p: Predicate, binders: Binders) -> Predicate | None:
    """Return `¬p` over the binders' ranges for an affine `p`; None where it has relations or needs remainders."""
    if p.relations:
        return None
    whole = integer_set(binders, TRUE).subtract(integer_set(binders, p))
    return set_to_predicate(
        whole.coalesce().gist(integer_set(binders, TRUE)), isl_names(binders, p)
    )


def determined_value(binders: Binders, set_: islpy.Set, index: str) -> Affine | None:
    """Return the value of an index in a set as an affine expression of other indices and sizes; None if it is not determined."""
    kind = dimension_kinds().param
    spelt = isl_names(binders, TRUE)
    for k in range(set_.dim(kind)):
        text = set_.get_dim_name(kind, k)
        spelt.setdefault(_name_from_isl(text), text)
    hull = set_to_predicate(set_.affine_hull(), spelt)
    parts = () if hull is None else conjuncts(hull)
    equations = (p.difference for p in parts if isinstance(p, Compare) and p.op == "=")
    return next((a for e in equations if (a := e.solve(index)) is not None), None)


def upper_bounds(binders: Binders, p: Predicate, a: Affine) -> tuple[Affine, ...]:
    """Return affine expressions of the sizes that bound `a` where `p` holds, and that it reaches at some sizes."""
    import islpy

    spelt = isl_names(binders, conj(p, Compare("=", a, Affine.of(0))))
    meant = {text: name for name, text in spelt.items()}
    variables = [spelt[i] for i in index_names(binders)]
    parameters = ",".join(x for x in meant if x not in variables)
    value = f"[{parameters}] -> {{ [{','.join(variables)}] -> [{affine_text(a, spelt)}] }}"
    values = integer_set(binders, p).apply(islpy.Map(value))
    if values.is_empty() or not values.dim_has_any_upper_bound(dimension_kinds().set, 0):
        return ()
    pieces: list[islpy.Aff] = []
    values.dim_max(0).foreach_piece(lambda _, piece: pieces.append(piece))
    found = [_affine_from_isl(piece, meant) for piece in pieces]
    return tuple([b for b in found if b and is_impossible(binders, conj(p, compare("<", b, a)))])


def _affine_from_isl(value: islpy.Aff, meant: Mapping[str, str]) -> Affine | None:
    """Return an isl expression of parameters as an affine one; None if it has fractions."""
    kind = dimension_kinds().param
    count = value.dim(kind)
    numbers = [value.get_coefficient_val(kind, k) for k in range(count)]
    constant = value.get_constant_val()
    if value.dim(dimension_kinds().div) or not all(x.is_int() for x in (*numbers, constant)):
        return None
    terms = [Affine.of(meant[value.get_dim_name(kind, k)]) for k in range(count)]
    scaled = (x * int(k.to_python()) for x, k in zip(terms, numbers, strict=True))
    return sum(scaled, Affine.of(int(constant.to_python())))


def sample_point(binders: Binders, p: Predicate, sizes: dict[str, int]) -> dict[str, int] | None:
    """Return the lexicographically smallest point of `{binders | p}` at the given sizes; None where there is none."""
    fixed = {name: Affine.of(value) for name, value in sizes.items()}
    concrete = tuple((index, size.substitute(fixed)) for index, size in binders)
    set_ = integer_set(concrete, substitute(p, fixed))
    if set_.is_empty():
        return None
    point = set_.lexmin().sample_point()
    values = [
        point.get_coordinate_val(dimension_kinds().set, k).to_python() for k in range(len(binders))
    ]
    return {index: int(value) for (index, _), value in zip(binders, values, strict=True)}
