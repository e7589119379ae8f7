"""Parts of parameters to differentiate by: `params.w`, `params["w"]`, `layers[0].b`.

A part is made a parameter of its own: the program reads each component of a parameter by a path of projections, so that a part
is those inputs whose path begins with its own. A derivative by it is taken as by any parameter, and then its inputs are the
whole parameter's again. In a container that is no tensor, since it has strings or integers, too, each array is a parameter
already (`frontend/captured_data`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import cast

from .derivative.transforms import Derivative, Differentiable
from .frontend.captured_data import AS_FLOATS, Reference
from .language.errors import TensorError
from .language.pairs import Laid
from .language.types import Layout, Parameter, Product, Type
from .ssa.program import Input, Program, Statement

Keys = tuple[str | int, ...]


@dataclass(frozen=True)
class ParameterPath:
    """A parameter, or, by attributes, keys and positions, a part of one."""

    root: str
    keys: Keys = ()

    def __str__(self) -> str:
        return self.root + "".join(map(_written_key, self.keys))

    @property
    def word(self) -> str:
        """A name for it: `params_w`."""
        return "_".join(re.sub(r"\W+", "_", str(part)) for part in (self.root, *self.keys))


@lru_cache(maxsize=1024)  # `f.grad("x")(…)` asks in each call
def parse_path(text: str) -> ParameterPath | None:
    """What `params.w`, `params["w"]`, `params[0].b` say; None for anything else."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return None
    keys: list[str | int] = []
    while not isinstance(node, ast.Name):
        match node:
            case ast.Attribute(value=inner, attr=name):
                keys.append(name)
            case ast.Subscript(value=inner, slice=ast.Constant(value=str() | int() as key)):
                keys.append(key)
            case _:
                return None
        node = inner
    return ParameterPath(node.id, tuple(reversed(keys)))


def _written_key(key: str | int) -> str:
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"


@dataclass(frozen=True)
class _Component:
    """A component of a parameter, to which projections lead, as a parameter of its own."""

    name: str
    of: Parameter
    projections: tuple[int, ...]
    parameter: Parameter

    def separated(self, x: Input) -> Input:
        """An input of the whole parameter as one of this, where it is a part of it."""
        count = len(self.projections)
        if x.parameter != self.of.name or x.path[:count] != self.projections:
            return x
        own = cast("Type", self.parameter.type)
        return replace(x, parameter=self.name, type=own, path=x.path[count:])

    def joined(self, x: Input) -> Input:
        """An input of this as one of the whole parameter."""
        if x.parameter != self.name:
            return x
        whole = cast("Type", self.of.type)
        return replace(x, parameter=self.of.name, type=whole, path=(*self.projections, *x.path))


@dataclass(frozen=True)
class _WithParts:
    """A function some of whose parameters' parts are parameters of their own."""

    parameters: tuple[Parameter, ...]
    type: Type
    layout: Layout
    differentiable: Program


def derivative_by(
    of: Differentiable,
    outside: Mapping[str, Reference],
    paths: Sequence[ParameterPath],
    derive: Callable[[Differentiable, tuple[str, ...]], Derivative],
) -> Derivative:
    """A derivative by parameters and parts of these.

    Args:
        outside: where the parameters come from that are parts of arguments, or no arguments.

    Raises:
        TensorError: a parameter has no such part; it names those that there are.
    """
    if not any(path.keys for path in paths):
        return derive(of, tuple(path.root for path in paths))
    parameters = {p.name: p for p in of.parameters}
    names: list[str] = []
    parts: dict[str, _Component] = {}
    for path in paths:
        found = _array_outside(path, outside)
        if not path.keys or found is not None:
            names.append(found or path.root)
            continue
        if path.root not in parameters:
            raise _no_such_part(path, _paths_outside(path.root, outside))
        part = _component(path, parameters[path.root])
        names.append(part.name)
        parts[part.name] = part
    each = parts.values()
    program = _with_inputs(of.differentiable, [part.separated for part in each])
    own = (*of.parameters, *(part.parameter for part in each))
    made = derive(_WithParts(own, of.type, of.layout, program), tuple(names))
    words = {f"d{name}": f"d{path.word}" for name, path in zip(names, paths, strict=True)}
    extra = tuple(p._replace(name=words.get(p.name, p.name)) for p in made.extra)

    def extra_named(x: Input) -> Input:
        return replace(x, parameter=words.get(x.parameter, x.parameter))

    program = _with_inputs(made.program, [*(part.joined for part in each), extra_named])
    return replace(made, program=program, extra=extra, pulled=None if parts else made.pulled)


def _with_inputs(program: Program, changes: Sequence[Callable[[Input], Input]]) -> Program:
    """The program with its inputs changed, those of loops' bodies apart, which have parameters of their own."""

    def changed(s: Statement) -> Statement:
        if not isinstance(s.rhs, Input):
            return s
        return replace(s, rhs=reduce(lambda x, change: change(x), changes, s.rhs))

    return replace(program, statements=tuple(map(changed, program.statements)))


def _component(path: ParameterPath, parameter: Parameter) -> _Component:
    """A part of a parameter."""
    projections: tuple[int, ...] = ()
    type_, layout = parameter.type, parameter.layout
    for key in path.keys:
        names = _keys_of(layout)
        if layout is None or key not in names:
            raise _no_such_part(path, _paths_in(ParameterPath(path.root), parameter.layout))
        k, count = names.index(key), len(names)
        steps = (1,) * k + ((0,) if k < count - 1 else ())
        for step in steps:
            assert isinstance(type_, Product)
            type_ = type_.second if step else type_.first
        projections, layout = (*projections, *steps), layout[k]
    name = f"{path.word} of {path.root}"  # which no parameter is called
    return _Component(name, parameter, projections, Parameter(name, type_, layout))


def _keys_of(layout: Layout) -> Sequence[str | int]:
    if layout is None:
        return ()
    named = isinstance(layout, Laid) and layout.form.names
    return layout.form.names if isinstance(layout, Laid) and named else range(len(layout))


def _paths_in(path: ParameterPath, layout: Layout) -> Iterator[ParameterPath]:
    """The arrays and numbers in a parameter."""
    if layout is None:
        yield path
        return
    for key, inner in zip(_keys_of(layout), layout, strict=True):
        yield from _paths_in(replace(path, keys=(*path.keys, key)), inner)


def _array_outside(path: ParameterPath, outside: Mapping[str, Reference]) -> str | None:
    """The parameter that an array of a container is which is not a tensor."""
    return next((name for name, known in _arrays(path.root, outside) if known == path), None)


def _paths_outside(root: str, outside: Mapping[str, Reference]) -> Iterator[ParameterPath]:
    yield from (path for _, path in _arrays(root, outside))


def _arrays(root: str, outside: Mapping[str, Reference]) -> Iterator[tuple[str, ParameterPath]]:
    for name, reference in outside.items():
        keys = tuple(key for key, _ in reference.steps)
        is_part = reference.surroundings is None and reference.name == root
        if is_part and AS_FLOATS not in keys and all(isinstance(key, str | int) for key in keys):
            yield name, ParameterPath(root, keys)


def _no_such_part(path: ParameterPath, known: Iterator[ParameterPath]) -> TensorError:
    there = [f"`{one}`" for one in known if one.keys]
    message = f"`{path.root}` has no part `{path}` to differentiate by"
    if not there:
        return TensorError(message, f"differentiate by all of it: `{path.root}`")
    return TensorError(message, "it has " + ", ".join(there))
