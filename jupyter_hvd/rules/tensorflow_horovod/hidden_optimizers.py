"""HVD2, continued: optimizers that are known only when the program runs."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...analysis.index import Binding
from ...analysis.library import UNKNOWN, Kind, Value
from ...analysis.syntax import argument, method
from ...frameworks.tensorflow import tf_api
from ...source.edits import Layer
from ..base import Example, Finding, Fix, Problem, program
from .context import HOROVOD, Context, Rule
from .questions import is_own_schedule


class HiddenOptimizer(Rule):
    """Let the optimizer of a model that this program does not compile average, whatever it is when the program runs.

    `load_model` gives a model with the optimizer that it was saved with, a function of another module one that was
    compiled there; `fit` would go on with that, every rank by itself. `jhvd.distributed_model` lets it average, and stays with its
    rate: a file that this same program saves has the rate of all ranks already. Of other files, and other modules, nobody knows, which is told.
    """

    code = "HVD207"
    name = "hidden optimizer"
    rationale = "This model comes with its optimizer, which must average all ranks' gradients; its rate stays as it comes."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.models.load_model('model.keras')
                model.fit(x, y, epochs=3)
                model.save('model.keras')
                """
            ),
            program(
                """
                import tensorflow as tf

                model = jhvd.distributed_model(tf.keras.models.load_model('model.keras'))
                model.fit(x, y, epochs=3)
                model.save('model.keras')
                """
            ),
        ),
        Example(
            program(
                """
                import tensorflow as tf
                from models import build

                model = build()
                model.fit(x, y, epochs=3)
                """
            ),
            program(
                """
                import tensorflow as tf
                from models import build

                model = build()
                jhvd.distributed_model(model).fit(x, y, epochs=3)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        wrapped: set[cst.CSTNode] = set()
        for call in context.training.compiled_trainings:
            assert isinstance(call.func, cst.Attribute)
            receiver = call.func.value
            # What is None before a model is found, `best = None`, is not trained.
            trained = {v for v in self._trained(context, receiver) if v.kind is not Kind.NONE}
            hidden = [v for v in trained if not self._is_compiled(context, v, call)]
            if not hidden:
                continue
            if (
                isinstance(receiver, cst.Call)
                and context.values.qualified(receiver.func) == "builtins.super"
            ):
                yield Problem(
                    call,
                    f"the optimizer of this {method(call)} is given where this program does not show, so that its gradients would not be averaged",
                    "compile the model in this file before: model.compile(optimizer=…, loss=…)",
                )
                continue
            loads = [v.node for v in hidden if is_loaded(v) and isinstance(v.node, cst.Call)]
            for place in loads if len(loads) == len(hidden) else [receiver]:
                if place in wrapped:
                    continue
                wrapped.add(place)
                opening, closing = (
                    f"{context.runtime('distributed_model')}(",
                    f"{context.optimizer_options})",
                )
                edits = context.wrap(place, opening, closing, Layer.FUNCTION)
                yield Fix(place, edits, needs=(HOROVOD, "distributed_model"))
                if not isinstance(place, cst.Call) or not self._is_own_file(context, place):
                    yield Problem(
                        place,
                        "the optimizer that comes with this model keeps its rate, which is one process's unless a converted program has saved it",
                        f"multiply it by {context.backend.size} if one process has set it: model.optimizer.learning_rate = 1e-3",
                        "warning",
                    )

    def _is_own_file(self, context: Context, load: cst.Call) -> bool:
        """Whether this program saves the file that it loads, with rates of all ranks."""
        classes = (Value(Kind.CLASS, owner) for owner in context.values.index.classes)
        if any(is_own_schedule(context, owner) for owner in classes):
            return False  # a schedule of the program's own is saved as one process's
        read = argument(load, "filepath", 0)
        return read is not None and any(
            file_names(context, read.value) & file_names(context, path)
            for path in saved_files(context)
        )

    def _trained(self, context: Context, receiver: cst.BaseExpression) -> Iterator[Value]:
        """The models that an expression may hold where it stands: not what its name is bound to further down."""
        here = context.module.function_of(receiver)
        if isinstance(receiver, cst.Name) and all(
            isinstance(bound, cst.FunctionDef)
            or (isinstance(bound, Binding) and context.module.function_of(bound.value) is here)
            for bound in context.values.definitions.of(receiver)
        ):
            sources = context.values.flow.predecessors(receiver)
            for source, part in sources:
                yield from context.values.of(source, part)
            if not sources:  # another module's `*` may have brought it
                yield UNKNOWN
        else:
            yield from context.values.of(receiver)

    def _is_compiled(self, context: Context, model: Value, fit: cst.Call) -> bool:
        """Whether this program compiles a model before it is trained."""
        assert isinstance(fit.func, cst.Attribute)
        training, values, module = context.training, context.values, context.module
        compiles = [c for c in values.index.calls if method(c) == "compile"]
        receivers = [(c, c.func.value) for c in compiles if isinstance(c.func, cst.Attribute)]
        own = module.text(fit.func.value)
        if is_loaded(model) and isinstance(model.node, cst.Call):
            asked = argument(model.node, "compile", 2)
            if asked is not None and module.text(asked.value) == "False":
                return True  # it comes without an optimizer, and Keras itself asks for `compile`
            start = module.span(model.node).start
            around = {*module.ancestors(model.node), *module.ancestors(fit)}
            return any(
                self._may_mean(context, receiver, model, own)
                and start < module.span(c).start
                and module.enclosing(c, (cst.IndentedBlock, cst.Module)) in around
                for c, receiver in receivers
            )
        if isinstance(model.node, cst.ClassDef):
            owners = set(values.classes.lineage(model.node))
            if any(owners & set(module.ancestors(c)) for c in compiles):
                return True
            if any(
                training.keras.runs(f) and owners & set(module.ancestors(f))
                for f in values.index.functions
            ):
                return True
        return any(
            module.text(r) == own or self._may_mean(context, r, model, own) for _, r in receivers
        )

    def _may_mean(
        self, context: Context, compiled: cst.BaseExpression, model: Value, own: str
    ) -> bool:
        """Whether what is compiled may be a model; of `models["a"]` and `models["b"]`, each is compiled by itself.

        Args:
            own: how the model is named where it is trained.
        """
        found = context.values.of(compiled)
        match compiled:
            case cst.Subscript(
                slice=[
                    cst.SubscriptElement(slice=cst.Index(value=cst.SimpleString() | cst.Integer()))
                ]
            ) if len(found) > 1 and context.module.text(compiled) != own:
                return False
        return model in found


def is_loaded(model: Value) -> bool:
    """Whether a model comes from a file."""
    return model.name.endswith(".load_model")


def saved_files(context: Context) -> Iterator[cst.BaseExpression]:
    """The names of files that whole models are saved in."""
    values = context.values
    for call in values.index.calls:
        path = None
        if tf_api.callback(values.qualified(call.func)) == "ModelCheckpoint":
            weights = argument(call, "save_weights_only", 4)
            if weights is None or context.module.text(weights.value) == "False":
                path = argument(call, "filepath", 0)
        elif values.qualified(call.func).endswith("models.save_model"):
            path = argument(call, "filepath", 1)
        elif method(call) == "save" and not values.qualified(call.func):
            path = argument(call, "filepath", 0)
        if path is not None:
            yield path.value


def file_names(context: Context, path: cst.BaseExpression) -> frozenset[str]:
    """What a path is by name: its text, and the strings that it may be."""
    constants = {
        str(value.node.evaluated_value)
        for value in context.values.of(path)
        if isinstance(value.node, cst.SimpleString)
    }
    return frozenset(constants | {context.module.text(path)})


RULES: tuple[type[Rule], ...] = (HiddenOptimizer,)
