"""What TensorFlow's classes and functions return: the kinds of values that the analysis follows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from enum import Enum

import libcst as cst

from ...analysis.index import Path
from ...analysis.library import Kind, Resolver, Value
from ...analysis.syntax import argument, method
from . import tf_api
from .roles import Role

_KINDS: dict[str, Enum] = {
    "tensorflow.GradientTape": Role.TAPE,
    "tensorflow.Variable": Role.VARIABLE,
    **dict.fromkeys(tf_api.LOCAL_STRATEGIES, Role.STRATEGY),
    "tensorflow.train.Checkpoint": Role.CHECKPOINT,
    "tensorflow.train.CheckpointManager": Role.CHECKPOINT_MANAGER,
}


class TensorFlowLibrary:
    """TensorFlow, Keras and what is used beside them."""

    call_methods: tuple[str, ...] = ("__call__", "call")  # of a Keras layer, `call`
    canonical = staticmethod(tf_api.canonical)
    is_known = staticmethod(tf_api.is_known)
    is_wrapper = staticmethod(tf_api.is_wrapper)

    def kind_of_result(self, name: str) -> Enum:
        """Return the kind of value that calling this canonical name returns."""
        if tf_api.makes_optimizer(name):
            return Role.OPTIMIZER
        if tf_api.find_schedule(name):
            return Role.SCHEDULE
        if tf_api.makes_model(name):
            return Role.MODEL
        if tf_api.find_callback(name):
            return Role.CALLBACK
        if tf_api.makes_tuner(name):
            return Role.TUNER
        if tf_api.makes_estimator(name):
            return Role.ESTIMATOR
        if tf_api.makes_dataset(name):
            return Role.DATASET
        if name in ("builtins.getattr", "builtins.eval"):
            return Kind.UNKNOWN
        return _KINDS.get(name, Kind.OTHER if name.startswith(tf_api.INERT) else Kind.UNKNOWN)

    def unwrap_call(self, resolver: Resolver, call: cst.Call) -> cst.Call | None:
        """Return the call of a user's function that a library call makes; None if it makes none.

        `f(x)` for `strategy.run(f, args=(x,))`; `main()` for `app.run(main)`; `f(x, y)` for `functools.partial(f, x)(y)`.
        """
        called = resolver.of(call.func)
        if call.args and tf_api.RUNNERS & {v.name for v in called}:
            return cst.Call(call.args[0].value)
        if (begun := find_partial(resolver, called)) is not None:
            return _complete_partial(begun, call)
        if method(call) != "run" or not _is_of_strategy(resolver, call):
            return None
        function, given = argument(call, "fn", 0), argument(call, "args", 1)
        if function is None:
            return None
        args: list[cst.Arg] = []
        match given:
            case cst.Arg(value=cst.Tuple(elements=elements) | cst.List(elements=elements)):
                args = [
                    cst.Arg(e.value, star="*" if isinstance(e, cst.StarredElement) else "")
                    for e in elements
                ]
            case cst.Arg(value=value):
                args = [cst.Arg(value, star="*")]
        return cst.Call(function.value, args)

    def list_branches(self, resolver: Resolver, call: cst.Call) -> tuple[cst.BaseExpression, ...]:
        """Return the test and the two functions of `tf.cond(test, one, other)`; () for other calls."""
        named = (v.name for v in resolver.of(call.func) if v.name.endswith(".cond"))
        if tf_api.canonical(next(named, "")) != "tensorflow.cond":
            return ()
        given = (argument(call, *each) for each in (("pred", 0), ("true_fn", 1), ("false_fn", 2)))
        return tuple(arg.value for arg in given if arg is not None)

    def find_returned_argument(
        self, resolver: Resolver, call: cst.Call
    ) -> cst.BaseExpression | None:
        """Return the argument that a strategy's method returns unchanged: the dataset to distribute, the value to reduce."""
        place = _HANDED_ON.get(method(call))
        if place is None or not _is_of_strategy(resolver, call):
            return None
        arg = argument(call, *place)
        return arg.value if arg is not None else None

    def kind_of_instance(self, bases: Set[str]) -> Enum:
        """Return the kind of an instance of a user-defined class with these library bases."""
        if any(map(tf_api.makes_estimator, bases)):
            return Role.ESTIMATOR
        return Role.MODEL if any(map(tf_api.makes_model, bases)) else Kind.INSTANCE

    def is_collection(self, kind: Enum) -> bool:
        """Whether iterating over values of this kind yields their elements."""
        return kind is Role.DATASET

    def attribute(
        self, resolver: Resolver, receiver: Value, name: str, path: Path
    ) -> Iterable[Value] | None:
        """Return the values that an attribute of a library object holds; None if the library does not say.

        A checkpoint holds the arguments it was created with, a tuner its hypermodel, a model the optimizer it was compiled
        with.
        """
        if receiver.kind is Role.CHECKPOINT:
            arg = argument(receiver.node, name) if isinstance(receiver.node, cst.Call) else None
            return resolver.of(arg.value, path) if arg is not None else ()
        if (
            receiver.kind is Role.TUNER
            and name == "hypermodel"
            and isinstance(receiver.node, cst.Call)
        ):
            arg = argument(receiver.node, name, 0)
            return resolver.of(arg.value, path) if arg is not None else ()
        if receiver.kind is Kind.FUNCTION and name == "build":  # as a tuner's `hypermodel` has it
            return (receiver,)
        if receiver.kind is Role.ESTIMATOR and name in ("model", "model_"):
            return (Value(Role.MODEL, receiver.node),)
        if receiver.kind is Role.MODEL and name == "optimizer":
            return _find_compiled_optimizers(resolver, receiver)
        return None

    def result_of_method(self, receiver: Value, call: cst.Call) -> Value:
        """Return the value of a method call on a library object."""
        name = method(call)
        if receiver.kind is Role.DATASET and name in tf_api.DATASET_METHODS:
            return receiver
        if receiver.kind is Kind.UNKNOWN and batches_dataset(call):
            return Value(Role.DATASET, call)
        if tf_api.makes_sequence(flow := f"{receiver.name}.{name}"):
            return Value(Kind.OTHER, call, flow)
        if receiver.kind is Role.TUNER and name in ("search_space_summary", "results_summary"):
            return Value(Kind.NONE, call)
        if receiver.kind in (
            Role.MODEL,
            Role.OPTIMIZER,
            Role.CHECKPOINT,
            Role.DATASET,
            Role.ESTIMATOR,
        ):
            return Value(Kind.OTHER, call)
        return Value(Kind.UNKNOWN, call)


def batches_dataset(call: cst.Call) -> bool:
    """Whether only a dataset has such a method: `data.shuffle(9).batch(32)`, `data.batch(32, drop_remainder=True)`."""
    if method(call) not in tf_api.BATCHING_METHODS or not isinstance(call.func, cst.Attribute):
        return False
    receiver = call.func.value
    follows = isinstance(receiver, cst.Call) and method(receiver) in tf_api.DATASET_METHODS
    return follows or any(argument(call, name) for name in ("drop_remainder", "padded_shapes"))


def _complete_partial(begun: cst.Call, call: cst.Call) -> cst.Call:
    """Return the call that a partial function makes: `f(1, 3, y=4)` for `functools.partial(f, 1, y=2)(3, y=4)`."""
    function, *first = begun.args
    anew = {arg.keyword.value for arg in call.args if arg.keyword}
    kept = [arg for arg in first if arg.keyword is None or arg.keyword.value not in anew]
    given = sorted([*kept, *call.args], key=lambda arg: bool(arg.keyword) or arg.star == "**")
    return cst.Call(function.value, given)


def find_partial(resolver: Resolver, values: Set[Value]) -> cst.Call | None:
    """Return the `functools.partial(f, …)` that created the values, of a user-defined `f` or an optimizer; else None."""
    match [*values]:
        case [Value(node=cst.Call(args=[cst.Arg(value=function), *_]) as made)] if (
            resolver.qualified(made.func) == "functools.partial"
        ):
            called = all(
                value.kind in (Kind.FUNCTION, Kind.CLASS) or tf_api.makes_optimizer(value.name)
                for value in resolver.of(function)
            )
            return made if called else None
    return None


#: Methods of a strategy that give back what they are given, and where.
_HANDED_ON = {
    "experimental_distribute_dataset": ("dataset", 0),
    "reduce": ("value", 1),
}


def _is_of_strategy(resolver: Resolver, call: cst.Call) -> bool:
    """Whether a call is a method call on a `tf.distribute` strategy."""
    return isinstance(call.func, cst.Attribute) and any(
        value.kind is Role.STRATEGY for value in resolver.of(call.func.value)
    )


def _find_compiled_optimizers(resolver: Resolver, model: Value) -> Iterator[Value]:
    """Yield the optimizers that a model is compiled with. One given by name is represented by its `compile` call."""
    for call in resolver.index.calls:
        if (
            method(call) == "compile"
            and isinstance(call.func, cst.Attribute)
            and model in resolver.of(call.func.value)
            and (arg := argument(call, "optimizer", 0)) is not None
        ):
            values = resolver.of(arg.value)
            yield from (v for v in values if v.kind is Role.OPTIMIZER)
            if any(v.kind is Kind.CONSTANT for v in values):
                yield Value(Role.OPTIMIZER, call)
