"""How calls scale that have a signature in a library's table."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from .exponents import Exponent, Unknown, exponent_of
from .scale_findings import Scale, pair_with_index
from .scale_signatures import Signature
from .scale_walk import ScaleWalk
from .syntax import argument

#: Parameters that may be given a shape, the number of rows first.
_SHAPES = frozenset({"shape", "size"})


def apply_signature(walk: ScaleWalk, call: cst.Call, signature: Signature) -> Scale:
    """Return how a call's result scales by its signature, and record what the signature expects of the arguments."""
    receiver: Scale | None = None
    if isinstance(call.func, cst.Attribute) and not walk.qualified(call):
        receiver = walk.scale(call.func.value)
    letters: dict[str, Exponent] = {}
    given = [
        (name, term, arg.value)
        for place, (name, term) in enumerate(signature.parameters)
        if (arg := argument(call, name, place)) is not None
    ]
    first = _scale_of_numbers(walk, given[0][0], given[0][2]) if given else None
    # Where a number is looked up in a sequence, it is the number that is converted.
    for name, term, value in sorted(given, key=lambda each: walk.scale(each[2]).length is None):
        if term is None:
            continue
        scale = _scale_of_numbers(walk, name, value)
        if term.letter is not None and term.letter not in letters:
            letters[term.letter] = scale.value
            if scale.length is not None and len(signature.parameters) == 1:
                letters.setdefault("l", scale.length)
            continue
        reason = f"takes it as `{name}`"
        expected = term.at(letters)
        if isinstance(value, cst.List | cst.Tuple):
            for element in value.elements:
                walk.note_sink(element.value, expected, reason)
        else:
            walk.note_sink(value, expected, reason, term.is_epochs)
    return scale_by_signature(walk, signature, letters, receiver or first, call)


def _scale_of_numbers(walk: ScaleWalk, name: str, value: cst.BaseExpression) -> Scale:
    """Return how the numbers in an argument scale; for a shape, the number of rows."""
    rows = walk.scale(value).item(0) if name in _SHAPES else None
    return rows or walk.numbers(value)


def scale_by_signature(
    walk: ScaleWalk,
    signature: Signature,
    letters: dict[str, Exponent],
    receiver: Scale | None,
    node: cst.BaseExpression,
) -> Scale:
    """Return how the result of a signature scales.

    Args:
        letters: the exponents of the signature's letters.
        receiver: how the receiver of a method, else the first argument, scales.
    """
    unknown = Unknown(node, "length")
    letters.setdefault("u", exponent_of(unknown))
    walk.found.counts.append((unknown, True))
    if receiver is not None:
        letters.setdefault("v", receiver.value)
        if receiver.length is not None:
            letters.setdefault("l", receiver.length)
        if receiver.element is not None and receiver.element.length is not None:
            letters.setdefault("m", receiver.element.length)
    lengths = signature.lengths
    if lengths and lengths[0].letter == "l" and "l" not in letters:
        lengths = ()
    value = signature.result.at(letters) if signature.result else exponent_of(Unknown(node))
    inner = receiver.element if receiver is not None and len(lengths) == 1 else None
    element = inner or Scale(value, is_record=True)
    scale: Scale | None = None
    for term in reversed(lengths):
        scale = Scale(value, term.at(letters), scale or element, is_record=True)
    if scale is None:
        return Scale(value)
    if signature.is_numbered and scale.length is not None:
        scale = replace(scale, element=pair_with_index(scale.length, scale.element or element))
    return replace(scale, is_record=False)
