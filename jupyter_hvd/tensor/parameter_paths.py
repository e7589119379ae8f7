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
    """A parameter, or a part of one reached by attributes, keys and positions."""

    root: str
    keys: Keys = ()

    def __str__(self) -> str:
        return self.root + "".join(map(_format_key, self.keys))

    @property
    def word(self) -> str:
        """A name for the part: `params_w`."""
        return "_".join(re.sub(r"\W+", "_", str(part)) for part in (self.root, *self.keys))


@lru_cache(maxsize=1024)  # `f.grad("x")(…)` asks in each call
def parse_path(text: str) -> ParameterPath | None:
    """Parse `params.w`, `params["w"]`, `params[0].b`; None for anything else."""
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


def _format_key(key: str | int) -> str:
    """Return a key as in source: `.w` or `[0]`."""
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"


@dataclass(frozen=True)
class _Component:
    """A component of a parameter, reached by projections, as a separate parameter."""

    name: str
    of: Parameter
    projections: tuple[int, ...]
    parameter: Parameter

    def split_off(self, x: Input) -> Input:
        """Convert an input of the full parameter to one of the component, if it is part of it."""
        count = len(self.projections)
        if x.parameter != self.of.name or x.path[:count] != self.projections:
            return x
        own = cast("Type", self.parameter.type)
        return replace(x, parameter=self.name, type=own, path=x.path[count:])

    def rejoin(self, x: Input) -> Input:
        """Convert an input of the component to one of the full parameter."""
        if x.parameter != self.name:
            return x
        whole = cast("Type", self.of.type)
        return replace(x, parameter=self.of.name, type=whole, path=(*self.projections, *x.path))


@dataclass(frozen=True)
class _WithParts:
    """A function with some components of its parameters as separate parameters."""

    parameters: tuple[Parameter, ...]
    type: Type
    layout: Layout
    differentiable: Program


def derivative_by(
    function: Differentiable,
    outside: Mapping[str, Reference],
    paths: Sequence[ParameterPath],
    derive: Callable[[Differentiable, tuple[str, ...]], Derivative],
) -> Derivative:
    """Differentiate by parameters and parts of them.

    Args:
        outside: the origins of parameters that are parts of arguments, or are no arguments.

    Raises:
        TensorError: a parameter has no such part; the message lists its parts.
    """
    if not any(path.keys for path in paths):
        return derive(function, tuple(path.root for path in paths))
    parameters = {p.name: p for p in function.parameters}
    names: list[str] = []
    parts: dict[str, _Component] = {}
    for path in paths:
        found = _find_outer_array(path, outside)
        if not path.keys or found is not None:
            names.append(found or path.root)
            continue
        if path.root not in parameters:
            raise _no_such_part(path, _paths_outside(path.root, outside))
        part = _find_component(path, parameters[path.root])
        names.append(part.name)
        parts[part.name] = part
    each = parts.values()
    program = _change_inputs(function.differentiable, [part.split_off for part in each])
    own = (*function.parameters, *(part.parameter for part in each))
    made = derive(_WithParts(own, function.type, function.layout, program), tuple(names))
    words = {f"d{name}": f"d{path.word}" for name, path in zip(names, paths, strict=True)}
    extra = tuple(p._replace(name=words.get(p.name, p.name)) for p in made.extra)

    def extra_named(x: Input) -> Input:
        return replace(x, parameter=words.get(x.parameter, x.parameter))

    program = _change_inputs(made.program, [*(part.rejoin for part in each), extra_named])
    return replace(made, program=program, extra=extra, pulled=None if parts else made.pulled)


def _change_inputs(program: Program, changes: Sequence[Callable[[Input], Input]]) -> Program:
    """Change a program's inputs, but not those of loops' bodies, which have separate parameters."""

    def changed(s: Statement) -> Statement:
        if not isinstance(s.rhs, Input):
            return s
        return replace(s, rhs=reduce(lambda x, change: change(x), changes, s.rhs))

    return replace(program, statements=tuple(map(changed, program.statements)))


def _find_component(path: ParameterPath, parameter: Parameter) -> _Component:
    """Find the component of a parameter at a path."""
    projections: tuple[int, ...] = ()
    type_, layout = parameter.type, parameter.layout
    for key in path.keys:
        names = _keys_of(layout)
        if layout is None or key not in names:
            raise _no_such_part(path, _list_paths(ParameterPath(path.root), parameter.layout))
        k, count = names.index(key), len(names)
        steps = (1,) * k + ((0,) if k < count - 1 else ())
        for step in steps:
            assert isinstance(type_, Product)
            type_ = type_.second if step else type_.first
        projections, layout = (*projections, *steps), layout[k]
    name = f"{path.word} of {path.root}"  # which no parameter is called
    return _Component(name, parameter, projections, Parameter(name, type_, layout))


def _keys_of(layout: Layout) -> Sequence[str | int]:
    """Return the keys of a tuple's parts: names, or positions."""
    if layout is None:
        return ()
    named = isinstance(layout, Laid) and layout.form.names
    return layout.form.names if isinstance(layout, Laid) and named else range(len(layout))


def _list_paths(path: ParameterPath, layout: Layout) -> Iterator[ParameterPath]:
    """Yield the paths of the arrays and numbers in a parameter."""
    if layout is None:
        yield path
        return
    for key, inner in zip(_keys_of(layout), layout, strict=True):
        yield from _list_paths(replace(path, keys=(*path.keys, key)), inner)


def _find_outer_array(path: ParameterPath, outside: Mapping[str, Reference]) -> str | None:
    """Return the parameter for an array in a container that is not itself a tensor."""
    return next(
        (name for name, known in _arrays_outside(path.root, outside) if known == path), None
    )


def _paths_outside(root: str, outside: Mapping[str, Reference]) -> Iterator[ParameterPath]:
    """Yield the paths of the arrays of a value from outside."""
    yield from (path for _, path in _arrays_outside(root, outside))


def _arrays_outside(
    root: str, outside: Mapping[str, Reference]
) -> Iterator[tuple[str, ParameterPath]]:
    """Yield each array that is part of a value from outside, with its parameter's name and its path."""
    for name, reference in outside.items():
        keys = tuple(key for key, _ in reference.steps)
        is_part = reference.surroundings is None and reference.name == root
        if is_part and AS_FLOATS not in keys and all(isinstance(key, str | int) for key in keys):
            yield name, ParameterPath(root, keys)


def _no_such_part(path: ParameterPath, existing: Iterator[ParameterPath]) -> TensorError:
    """Return the error that says that a path does not exist, and which ones do."""
    there = [f"`{one}`" for one in existing if one.keys]
    message = f"`{path.root}` has no part `{path}` to differentiate by"
    if not there:
        return TensorError(message, f"differentiate by all of it: `{path.root}`")
    return TensorError(message, "it has " + ", ".join(there))
