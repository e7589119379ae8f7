"""Batch size, learning rate and epochs of a training, as far as the source shows them.

A number that the source gives twice, and differently, is not told: a wrong one is worse than none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict

from ..source.cells import JoinedCells
from ..source.masking import mask_cell
from ..source.parsing import UnparsableError, deep_recursion, parse_python
from .model_parameters import UnknownSizeError, called_name, evaluate_literal, find_bindings
from .tensorflow.tf_api import OPTIMIZERS

#: The batch size of Keras' `fit` for arrays.
DEFAULT_BATCH = 32
#: JSON has no infinity, and the panel's JavaScript no larger whole numbers.
LARGEST = 2**53


class TrainingNumbers(TypedDict):
    """What one process trains with; null where the source does not tell.

    Attributes:
        batch: examples a step.
        rate: the learning rate.
        epochs: passes over the data.
        rows_of: the name of the array, or dataset, that has the examples.
        cells: the indices of the code cells that train when they run, not only define what does.
    """

    batch: int | None
    rate: float | None
    epochs: int | None
    rows_of: str | None
    cells: list[int]


def read_training_numbers(sources: Mapping[int | None, str]) -> TrainingNumbers:
    """Return batch size, rate, epochs and data of the training in some cells, given by their indices in the notebook."""
    cells = [index for index in find_training_cells(sources) if index is not None]
    unknown = TrainingNumbers(batch=None, rate=None, epochs=None, rows_of=None, cells=cells)
    try:
        tree = parse_python(JoinedCells.of(list(sources.values())).python)
        with deep_recursion():
            constants = _find_constants(tree)
            calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    except (UnparsableError, RecursionError):
        return unknown
    return TrainingNumbers(
        batch=_common_value([_evaluate_integer(n, constants) for n in _find_batch_sizes(calls)]),
        rate=_common_value([_evaluate_number(n, constants) for n in _find_rates(calls)]),
        epochs=_common_value([_evaluate_integer(n, constants) for n in _find_epochs(tree, calls)]),
        rows_of=_common_value(list(_find_data_names(calls))),
        cells=cells,
    )


#: Calls that change weights, and arguments by which `fit` is Keras's.
UPDATES = frozenset({"train_on_batch", "apply_gradients", "minimize"})
FIT_ARGUMENTS = frozenset(
    {"epochs", "batch_size", "callbacks", "validation_data", "validation_split", "steps_per_epoch"}
)


def find_training_cells(sources: Mapping[int | None, str]) -> list[int | None]:
    """Return the indices of cells that train when they run: they update weights, or call functions that do."""
    trees = {}
    for index, source in sources.items():
        try:
            trees[index] = parse_python(mask_cell(source))
        except UnparsableError:
            continue
    with deep_recursion():
        nodes = [node for tree in trees.values() for node in ast.walk(tree)]
        compiled = {
            _receiver_text(node)
            for node in nodes
            if isinstance(node, ast.Call) and called_name(node) == "compile"
        }
        functions = [node for node in nodes if isinstance(node, FUNCTIONS)]
        trains: set[str] = set()
        while found := {
            function.name
            for function in functions
            if function.name not in trains and _is_training(function.body, compiled, trains)
        }:
            trains |= found
        return [index for index, tree in trees.items() if _is_training(tree.body, compiled, trains)]


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _is_training(body: Sequence[ast.stmt], compiled: set[str], trains: set[str]) -> bool:
    """Whether statements train when they run; function bodies and classes in them do not run.

    Args:
        compiled: texts on which `compile` is called. trains: names of functions that train.
    """
    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop()
        if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, ast.Call):
            name = called_name(node)
            arguments = {keyword.arg for keyword in node.keywords}
            fits = name == "fit" and (_receiver_text(node) in compiled or arguments & FIT_ARGUMENTS)
            if fits or name in UPDATES or name in trains:
                return True
        todo += ast.iter_child_nodes(node)
    return False


def _receiver_text(call: ast.Call) -> str:
    """Return the text of the object on which a method is called; '' for a function."""
    return ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def _find_constants(tree: ast.Module) -> dict[str, Any]:
    """Return the numbers that top-level names are bound to, for names bound once."""
    constants: dict[str, Any] = {}
    rebound: set[str] = set()
    for name, value in find_bindings(tree):
        if name in constants:
            rebound.add(name)
        try:
            constants[name] = evaluate_literal(value, constants)
        except UnknownSizeError:
            rebound.add(name)
    return {name: value for name, value in constants.items() if name not in rebound}


def _common_value(values: list[Any]) -> Any:
    """Return the value that all have; None if there is none, or they differ."""
    return values[0] if values and all(value == values[0] for value in values) else None


def _evaluate_number(node: ast.expr, constants: dict[str, Any]) -> float | None:
    """Return a positive number of an expression; None if it is not known or too large for JSON."""
    try:
        value = evaluate_literal(node, constants)
    except UnknownSizeError:
        return None
    return value if type(value) in (int, float) and 0 < value <= LARGEST else None


def _evaluate_integer(node: ast.expr, constants: dict[str, Any]) -> int | None:
    """Return a positive integer of an expression; None if it is not known."""
    value = _evaluate_number(node, constants)
    return value if isinstance(value, int) else None


def _find_argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """Return a call's argument by keyword or position; None if there is none."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    given = call.args if position is not None else []
    return given[position] if position is not None and position < len(given) else None


def _find_fits(calls: list[ast.Call]) -> Iterator[ast.Call]:
    """Yield the calls of a method named `fit`."""
    return (
        call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "fit"
    )


def _find_batch_sizes(calls: list[ast.Call]) -> Iterator[ast.expr]:
    """Yield the batch sizes of datasets and `fit` calls; `fit` with labels but no size has Keras' default."""
    for call in calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "batch":
            size = _find_argument(call, "batch_size", 0)
            if size is not None:
                yield size
    for fit in _find_fits(calls):
        size = _find_argument(fit, "batch_size", 2)
        if size is not None:
            yield size
        elif _find_argument(fit, "y", 1) is not None:
            yield ast.Constant(DEFAULT_BATCH)


def _find_rates(calls: list[ast.Call]) -> Iterator[ast.expr]:
    """Yield the rates of optimizers, given or default, created by class or, in `compile`, by name."""
    for call in calls:
        known = OPTIMIZERS.get(called_name(call).lower())
        if known is not None and called_name(call) == known.name:
            rate = _find_argument(call, "learning_rate", 0) or _find_argument(call, "lr")
            yield rate if rate is not None else ast.Constant(known.learning_rate)
        named = _find_argument(call, "optimizer", 0) if called_name(call) == "compile" else None
        if isinstance(named, ast.Constant) and isinstance(named.value, str):
            of_name = OPTIMIZERS.get(named.value.lower())
            yield ast.Constant(of_name.learning_rate if of_name else None)


def _find_epochs(tree: ast.Module, calls: list[ast.Call]) -> Iterator[ast.expr]:
    """Yield the epochs of `fit` calls, and the lengths of loops whose variable is named `epoch`."""
    for fit in _find_fits(calls):
        yield _find_argument(fit, "epochs", 3) or ast.Constant(1)
    for node in ast.walk(tree):
        match node:
            case ast.For(
                target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=[count])
            ) if "epoch" in name:
                yield count


def _find_data_names(calls: list[ast.Call]) -> Iterator[str | None]:
    """Yield the names of the arrays that `fit`, or a dataset, is made of; None for other expressions."""
    for call in calls:
        if called_name(call) == "from_tensor_slices" and call.args:
            yield _first_name(call.args[0])
    for fit in _find_fits(calls):
        if _find_argument(fit, "y", 1) is not None:
            yield _first_name(_find_argument(fit, "x", 0))


def _first_name(node: ast.expr | None) -> str | None:
    """Return the name that an expression is, or that its first element is; None if there is none."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Tuple(elts=[first, *_]) | ast.List(elts=[first, *_]):
            return _first_name(first)
    return None
