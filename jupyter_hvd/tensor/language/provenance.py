"""Where a statement came from: the line of the user's source, and in a derivative the statement and
the rule of the paper.

Terms are hash-consed, so that a term cannot carry its place: equal terms of two functions are one
object. The places stand beside the terms, in a table that the passes carry along: whatever rewrites
a term says that the new one came from the old.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from .errors import Place

T = TypeVar("T")  # a term


@dataclass(frozen=True)
class Origin:
    """`rule` is the paper's rule that made a statement and `place` the source that it belongs to.

    In a derivative, `source` is the statement of the differentiated program that the rule was
    applied to, and `of` the variable whose differential or cotangent came out.
    """

    rule: str = ""
    of: str = ""
    source: str = ""
    place: Place | None = None


NOWHERE = Origin()
Origins = MutableMapping[Any, Origin]  # of terms

_carried: ContextVar[Origins | None] = ContextVar("origins", default=None)


@contextmanager
def carry_origins(origins: Origins) -> Iterator[Origins]:
    """Record origins in this table while the passes in the block run."""
    token = _carried.set(origins)
    try:
        yield origins
    finally:
        _carried.reset(token)


def came_from(new: T, old: object) -> T:
    """Record that a term was rewritten to another, so that it has the same origin; return the new one."""
    origins = _carried.get()
    if origins is not None and new is not old and (origin := origins.get(old)) is not None:
        origins.setdefault(new, origin)
    return new


def note_origin(term: T, origin: Origin) -> T:
    """Record the origin of a term, unless it has one; return the term."""
    origins = _carried.get()
    if origins is not None:
        origins.setdefault(term, origin)
    return term


def origin_of(term: object) -> Origin | None:
    """Return the recorded origin of a term; None if there is none."""
    origins = _carried.get()
    return None if origins is None else origins.get(term)
