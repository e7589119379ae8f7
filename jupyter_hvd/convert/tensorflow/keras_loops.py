"""Keras' own loop: the models that are compiled and fitted, and what Keras itself calls."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import libcst as cst

from ...analysis.library import Kind, Value
from ...analysis.syntax import argument, has_star, method
from ...analysis.values import ValueAnalysis
from . import tf_api
from .roles import Role
from .tuners import Tuners

TRAINING_METHODS = frozenset({"train_step", "make_train_function", "train_on_batch"})
#: The places of arguments of methods that train a model with the optimizer that it was compiled with.
POSITIONS = {
    "fit": {"x": 0, "y": 1, "batch_size": 2, "verbose": 4, "callbacks": 5, "validation_data": 7}
    | {"sample_weight": 9, "steps_per_epoch": 10},
    "fit_generator": {"x": 0, "steps_per_epoch": 1, "verbose": 3, "callbacks": 4},
}
#: Keywords by which a `fit`, a `compile` of what nothing is known of are Keras'.
_OF_FIT = frozenset(
    {"epochs", "callbacks", "validation_data", "steps_per_epoch", "validation_split"}
)
_OF_COMPILE = frozenset({"optimizer", "loss", "metrics"})
#: What of scikit-learn fits the estimators that it is given.
_FITTING_METHODS = frozenset({"fit", "fit_predict", "fit_transform", "partial_fit"})
_FITTING_FUNCTIONS = tuple(
    f"sklearn.model_selection.{name}"
    for name in ("cross_val", "learning_curve", "permutation_test_score", "validation_curve")
)


class KerasLoops:
    """The models of one module that Keras trains."""

    def __init__(self, values: ValueAnalysis) -> None:
        self._values = values
        self.tuners = Tuners(values)

    def is_model(self, receiver: cst.BaseExpression) -> bool | None:
        """Whether a receiver is a Keras model; None where nothing tells, as of a class whose base another module makes."""
        # A function is trained by nobody: another module's `*` has brought something else of its name.
        kinds = self._values.kinds(receiver) - {Kind.FUNCTION}
        if Role.MODEL in kinds:
            return True
        unknown = not kinds or Kind.UNKNOWN in kinds
        return None if unknown or any(map(self._is_foreign, self._values.of(receiver))) else False

    def _is_foreign(self, value: Value) -> bool:
        """Whether a value is of a class that inherits its `fit` from a library that nothing is known of."""
        classes = self._values.classes
        return (
            value.kind is Kind.INSTANCE
            and isinstance(value.node, cst.ClassDef)
            and not any(classes.methods(value.node, "fit"))
            and any(not base.startswith(tf_api.INERT) for base in classes.library_bases(value.node))
        )

    def is_callback(self, owner: cst.ClassDef | None) -> bool:
        """Whether a class of the program's own inherits Keras' callbacks."""
        bases = self._values.classes.library_bases(owner) if owner is not None else ()
        return any(map(tf_api.callback, bases))

    def runs(
        self, function: cst.FunctionDef | None, seen: frozenset[cst.FunctionDef] = frozenset()
    ) -> bool:
        """Whether Keras itself calls the function: a model's own `train_step`, or what only such methods call."""
        if function is None or function in seen:
            return False
        owner = self._values.module.class_of(function)
        if function.name.value in TRAINING_METHODS:
            return owner is not None and self._values.is_of_kind(owner, Role.MODEL)
        callers = map(self._values.module.function_of, self._values.calls.sites(function))
        found = [self.runs(caller, seen | {function}) for caller in callers]
        return bool(found) and all(found)

    @cached_property
    def compiles(self) -> list[cst.Call]:
        """Calls of Keras' own `compile` that say which optimizer, or leave it at the default.

        A model with a `compile` of its own, for two optimizers or a loss of its own, hands on what
        Keras is to know with `super().compile(…)`; without arguments it trains with its own optimizers.
        """
        found = []
        for call in self._values.index.calls:
            if method(call) != "compile" or not isinstance(call.func, cst.Attribute):
                continue
            receiver = call.func.value
            if self._is_super_of_model(receiver):
                if call.args:
                    found.append(call)
                continue
            model = self.is_model(receiver)
            named = model is None and (keywords(call) & _OF_COMPILE or self._is_fitted(receiver))
            if (model or named) and not self._has_own_compile(receiver):
                found.append(call)
        return found

    def _is_fitted(self, receiver: cst.BaseExpression) -> bool:
        """Whether what is compiled is also trained by `fit`: only Keras has both."""
        return self._values.module.text(receiver) in self._fitted

    @cached_property
    def _fitted(self) -> frozenset[str]:
        return self._receivers(*POSITIONS)

    def _receivers(self, *methods: str) -> frozenset[str]:
        return frozenset(
            self._values.module.text(call.func.value)
            for call in self._values.index.calls
            if method(call) in methods and isinstance(call.func, cst.Attribute)
        )

    def _is_super_of_model(self, receiver: cst.BaseExpression) -> bool:
        if not (
            isinstance(receiver, cst.Call)
            and self._values.qualified(receiver.func) == "builtins.super"
        ):
            return False
        owner = self._values.module.enclosing(receiver, cst.ClassDef)
        return owner is not None and self._values.is_of_kind(owner, Role.MODEL)

    def _has_own_compile(self, receiver: cst.BaseExpression) -> bool:
        return any(
            isinstance(member, cst.FunctionDef) and member.name.value == "compile"
            for value in self._values.of(receiver)
            if isinstance(value.node, cst.ClassDef)
            for owner in self._values.classes.lineage(value.node)
            for member in owner.body.body
        )

    @cached_property
    def fits(self) -> list[cst.Call]:
        """Calls of a model's `fit`, and of the older `fit_generator`."""
        within = set(self.tuners.fits_within)
        return [
            call
            for call in self._values.index.calls
            if method(call) in POSITIONS and (call in within or self._fits_model(call))
        ]

    @cached_property
    def shown_fits(self) -> list[cst.Call]:
        """The calls of `fit` that hide no arguments in `*` or `**`."""
        return [call for call in self.fits if not has_star(call)]

    @cached_property
    def shown_trainings(self) -> list[cst.Call]:
        """The calls of `fit`, and of a tuner's `search` that is given what `fit` is, that hide no arguments."""
        trained = self.tuners.searches if self._searches_say_batches else []
        return [*self.shown_fits, *(call for call in trained if not has_star(call))]

    @property
    def _searches_say_batches(self) -> bool:
        return self.tuners.trainings == self.tuners.searches and not self.tuners.sizes_set

    @cached_property
    def searches(self) -> list[cst.Call]:
        """The calls that let a library fit models, one after another, with what they are given."""
        return self.tuners.searches + self.estimator_fits

    @cached_property
    def hidden_fits(self) -> list[cst.Call]:
        """The calls that train on what is seen only when the program runs, in batches of a size that is not seen."""
        within = set(self.tuners.fits_within)
        fits = [
            call for call in self.fits if call not in within and not argument(call, "batch_size")
        ]
        trained = self.tuners.searches if self._searches_say_batches else []
        return [call for call in (*fits, *trained) if has_star(call)]

    @cached_property
    def estimators(self) -> list[cst.Call]:
        """The calls that make estimators for scikit-learn, which build models and fit them."""
        return [c for c in self._values.index.calls if self._values.may_be(c, Role.ESTIMATOR)]

    @cached_property
    def estimator_fits(self) -> list[cst.Call]:
        """The calls that let such estimators fit, by themselves or in what scikit-learn has made of them."""
        return [
            call
            for call in self._values.index.calls
            if self.estimators and (taken := self._fitted_by_library(call)) and self.holds(taken)
        ]

    def _fitted_by_library(self, call: cst.Call) -> list[cst.BaseExpression]:
        """What a call fits, if it is what scikit-learn fits by."""
        if self._values.qualified(call.func).startswith(_FITTING_FUNCTIONS):
            return [arg.value for arg in call.args]
        fits = isinstance(call.func, cst.Attribute) and method(call) in _FITTING_METHODS
        return [call.func.value] if fits and isinstance(call.func, cst.Attribute) else []

    def holds(self, expressions: Iterable[cst.BaseExpression]) -> bool:
        """Whether some expression comes of an estimator that fits Keras models."""
        made = set(self.estimators)
        return any(made & set(self._values.flow.backward_slice(each)) for each in expressions)

    def _fits_model(self, call: cst.Call) -> bool:
        assert isinstance(call.func, cst.Attribute)
        model = self.is_model(call.func.value)
        if model is not None:
            return model
        text = self._values.module.text
        compiled = {text(c.func.value) for c in self.compiles if isinstance(c.func, cst.Attribute)}
        return bool(keywords(call) & _OF_FIT) or text(call.func.value) in compiled


def fit_argument(call: cst.Call, name: str) -> cst.Arg | None:
    """An argument of `fit`, `fit_generator` or a tuner's `search`, by the name that it has in `fit`."""
    positions = POSITIONS.get(method(call), POSITIONS["fit"])
    if name == "x" and method(call) == "fit_generator":
        name, positions = "generator", {"generator": 0}
    return argument(call, name, positions.get(name))


def keywords(call: cst.Call) -> set[str]:
    return {arg.keyword.value for arg in call.args if arg.keyword}
