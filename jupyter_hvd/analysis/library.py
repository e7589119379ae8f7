"""The values of the analysis, and the protocol that a library implements for it."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

import libcst as cst

from .index import Index, Path


class Kind(Enum):
    """The kind of a value in Python; libraries define further kinds."""

    LIBRARY = auto()  # a module, class or function of a library, by its qualified name
    FUNCTION = auto()
    CLASS = auto()
    INSTANCE = auto()  # of a class of this module
    GENERATOR = auto()  # what a function with `yield` gives; its node is the function
    NONE = auto()
    CONSTANT = auto()
    CONTAINER = auto()
    OTHER = auto()  # what a library made, known to be of no kind of its own
    UNKNOWN = auto()


@dataclass(frozen=True)
class Value:
    """One thing that an expression may hold.

    Attributes:
        kind: one of Python's (`Kind`) or of the library's.
        node: the node that creates it: a call, a class, a function, a literal.
        name: the canonical name of the library's class or function that created it.
    """

    kind: Enum
    node: cst.CSTNode | None = None
    name: str = ""


UNKNOWN = Value(Kind.UNKNOWN)


class Resolver(Protocol):
    """Answers which values expressions may hold."""

    index: Index

    def of(self, expression: cst.CSTNode, path: Path = ()) -> frozenset[Value]:
        """The values that the part `path` of an expression may hold."""

    def qualified(self, expression: cst.CSTNode) -> str:
        """Return the canonical library name that an expression refers to, or ''."""


class Library(Protocol):
    """Knowledge of a library; names are canonical.

    Attributes:
        call_methods: the methods of a class of the program that calling an instance runs.
    """

    call_methods: tuple[str, ...]

    def canonical(self, name: str) -> str:
        """The one spelling of a qualified name, however the program spells it."""

    def is_known(self, name: str) -> bool:
        """Whether something is known about this name, so that an `import *` may have brought it."""

    def is_wrapper(self, name: str) -> bool:
        """Whether calling this name returns its first argument, wrapped."""

    def unwrap_call(self, resolver: Resolver, call: cst.Call) -> cst.Call | None:
        """Return the call of a user's function that a library's call makes, built from its arguments; None if it makes none."""

    def list_branches(self, resolver: Resolver, call: cst.Call) -> tuple[cst.BaseExpression, ...]:
        """Return the arguments of a library function that chooses a function to run: the condition, then the functions; else
        ().
        """

    def find_returned_argument(
        self, resolver: Resolver, call: cst.Call
    ) -> cst.BaseExpression | None:
        """Return the argument that a library's method returns, perhaps in another form; None if it returns something else."""

    def kind_of_result(self, name: str) -> Enum:
        """Return the kind of value that calling this name returns."""

    def kind_of_instance(self, bases: Set[str]) -> Enum:
        """Return the kind of an instance of a user-defined class with these library bases."""

    def is_collection(self, kind: Enum) -> bool:
        """Whether values of this kind have elements that loops run over."""

    def attribute(
        self, resolver: Resolver, receiver: Value, name: str, path: Path
    ) -> Iterable[Value] | None:
        """Return the values of an attribute; None if the library does not say."""

    def result_of_method(self, receiver: Value, call: cst.Call) -> Value:
        """Return the value of a method call."""
