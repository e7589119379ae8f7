"""What TensorFlow's classes and functions give: the kinds of values that the analysis follows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

import libcst as cst

from ...analysis.effects import PYTHON
from ...analysis.index import Path
from ...analysis.library import Effects, Kind, Resolver, Value
from ...analysis.syntax import argument, method
from . import tf_api

#: Libraries whose results are known not to be anything that the rules follow.
_INERT = ("tensorflow.", "builtins.", "numpy.", "sklearn.", "pandas.", "matplotlib.")

_KINDS = {
    "tensorflow.GradientTape": Kind.TAPE,
    "tensorflow.Variable": Kind.VARIABLE,
    "tensorflow.train.Checkpoint": Kind.CHECKPOINT,
    "tensorflow.train.CheckpointManager": Kind.CHECKPOINT_MANAGER,
}

_EFFECTS = PYTHON | Effects(
    pure=("tensorflow.",),
    impure=(
        "tensorflow.random.",
        "tensorflow.print",
        "tensorflow.summary.",
        "tensorflow.io.write",
    ),
    printing=frozenset({"tensorflow.print"}),
    writing=frozenset(
        {
            "tensorflow.saved_model.save",
            "tensorflow.keras.models.save_model",
            "tensorflow.keras.utils.plot_model",
            "tensorflow.keras.utils.save_img",
            "tensorflow.keras.preprocessing.image.save_img",
            "tensorflow.io.write_file",
        }
    ),
    writing_methods={
        Kind.MODEL: frozenset({"save", "save_weights", "export", "summary"}),
        Kind.CHECKPOINT: frozenset({"save", "write"}),
        Kind.CHECKPOINT_MANAGER: frozenset({"save"}),
    },
    pure_methods={Kind.MODEL: frozenset({"evaluate", "predict", "predict_on_batch"})},
    opening={"tensorflow.io.gfile.GFile": 1},
)


class TensorFlowLibrary:
    """TensorFlow, Keras and what is used beside them."""

    effects = _EFFECTS
    canonical = staticmethod(tf_api.canonical)
    is_known = staticmethod(tf_api.is_known)
    is_wrapper = staticmethod(tf_api.is_wrapper)

    def kind_of_result(self, name: str) -> Kind:
        if tf_api.makes_optimizer(name):
            return Kind.OPTIMIZER
        if tf_api.schedule(name):
            return Kind.SCHEDULE
        if tf_api.makes_model(name):
            return Kind.MODEL
        if tf_api.callback(name):
            return Kind.CALLBACK
        if tf_api.makes_dataset(name):
            return Kind.DATASET
        return _KINDS.get(name, Kind.OTHER if name.startswith(_INERT) else Kind.UNKNOWN)

    def kind_of_instance(self, bases: Set[str]) -> Kind:
        return Kind.MODEL if any(map(tf_api.makes_model, bases)) else Kind.INSTANCE

    def is_collection(self, kind: Kind) -> bool:
        return kind is Kind.DATASET

    def attribute(
        self, resolver: Resolver, receiver: Value, name: str, path: Path
    ) -> Iterable[Value] | None:
        """A checkpoint keeps what it was made with; a model has the optimizer that it was compiled with."""
        if receiver.kind is Kind.CHECKPOINT:
            arg = argument(receiver.node, name) if isinstance(receiver.node, cst.Call) else None
            return resolver.values(arg.value, path) if arg is not None else ()
        if receiver.kind is Kind.MODEL and name == "optimizer":
            return _compiled_optimizers(resolver, receiver)
        return None

    def result_of_method(self, receiver: Value, call: cst.Call) -> Value:
        name = method(call)
        if receiver.kind is Kind.DATASET and name in tf_api.DATASET_METHODS:
            return receiver
        if tf_api.sequence(flow := f"{receiver.name}.{name}"):
            return Value(Kind.OTHER, call, flow)
        if receiver.kind in (Kind.MODEL, Kind.OPTIMIZER, Kind.CHECKPOINT, Kind.DATASET):
            return Value(Kind.OTHER, call)
        return Value(Kind.UNKNOWN, call)


def _compiled_optimizers(resolver: Resolver, model: Value) -> Iterator[Value]:
    for call in resolver.index.calls:
        if (
            method(call) == "compile"
            and isinstance(call.func, cst.Attribute)
            and model in resolver.values(call.func.value)
            and (arg := argument(call, "optimizer", 0)) is not None
        ):
            values = resolver.values(arg.value)
            yield from (v for v in values if v.kind is Kind.OPTIMIZER)
            if any(v.kind is Kind.CONSTANT for v in values):
                yield Value(Kind.OPTIMIZER, call)
