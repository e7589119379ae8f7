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
        """Whether a receiver is a Keras model; None if that is unknown, as for a class whose base is in another module."""
        # A function is trained by nobody: another module's `*` has brought something else of its name.
        kinds = self._values.kinds(receiver) - {Kind.FUNCTION}
        if Role.MODEL in kinds:
            return True
        unknown = not kinds or Kind.UNKNOWN in kinds
        return None if unknown or any(map(self._is_foreign, self._values.of(receiver))) else False

    def _is_foreign(self, value: Value) -> bool:
        """Whether a value is an instance of a class that inherits `fit` from an unknown library."""
        classes = self._values.classes
        return (
            value.kind is Kind.INSTANCE
            and isinstance(value.node, cst.ClassDef)
            and not any(classes.methods(value.node, "fit"))
            and any(not base.startswith(tf_api.INERT) for base in classes.library_bases(value.node))
        )

    def is_callback(self, owner: cst.ClassDef | None) -> bool:
        """Whether a class of the program inherits a Keras callback."""
        bases = self._values.classes.library_bases(owner) if owner is not None else ()
        return any(map(tf_api.find_callback, bases))

    def runs(
        self, function: cst.FunctionDef | None, seen: frozenset[cst.FunctionDef] = frozenset()
    ) -> bool:
        """Whether only Keras calls the function: a model's `train_step`, or a function that only such methods call."""
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
        """Calls of Keras' own `compile`, with an optimizer or the default one.

        A model with its own `compile`, for two optimizers or its own loss, passes to Keras what it needs by
        `super().compile(…)`; without arguments there, it trains with its own optimizers.
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
            named = model is None and (
                list_keywords(call) & _OF_COMPILE or self._is_fitted(receiver)
            )
            if (model or named) and not self._has_own_compile(receiver):
                found.append(call)
        return found

    def _is_fitted(self, receiver: cst.BaseExpression) -> bool:
        """Whether the compiled object is also trained by `fit`: only Keras models have both methods."""
        return self._values.module.text(receiver) in self._fitted

    @cached_property
    def _fitted(self) -> frozenset[str]:
        """The texts of the receivers of `fit` and `fit_generator`."""
        return self._receiver_texts(*POSITIONS)

    def _receiver_texts(self, *methods: str) -> frozenset[str]:
        """Return the texts of the objects on which these methods are called."""
        return frozenset(
            self._values.module.text(call.func.value)
            for call in self._values.index.calls
            if method(call) in methods and isinstance(call.func, cst.Attribute)
        )

    def _is_super_of_model(self, receiver: cst.BaseExpression) -> bool:
        """Whether a receiver is `super()` in a class that inherits a Keras model."""
        if not (
            isinstance(receiver, cst.Call)
            and self._values.qualified(receiver.func) == "builtins.super"
        ):
            return False
        owner = self._values.module.enclosing(receiver, cst.ClassDef)
        return owner is not None and self._values.is_of_kind(owner, Role.MODEL)

    def _has_own_compile(self, receiver: cst.BaseExpression) -> bool:
        """Whether a receiver's class, or a base class in this module, defines `compile`."""
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
        """The calls of `fit` without arguments in `*` or `**`."""
        return [call for call in self.fits if not has_star(call)]

    @cached_property
    def shown_trainings(self) -> list[cst.Call]:
        """The calls of `fit`, and of a tuner's `search` that passes its arguments to `fit`, without arguments in `*` or `**`."""
        trained = self.tuners.searches if self._searches_say_batches else []
        return [*self.shown_fits, *(call for call in trained if not has_star(call))]

    @property
    def _searches_say_batches(self) -> bool:
        """Whether the arguments of `search` determine the batch size: the program's own tuners do not set it."""
        return self.tuners.trainings == self.tuners.searches and not self.tuners.sizes_set

    @cached_property
    def searches(self) -> list[cst.Call]:
        """The calls by which a library fits several models: searches of tuners, and scikit-learn's functions."""
        return self.tuners.searches + self.estimator_fits

    @cached_property
    def hidden_fits(self) -> list[cst.Call]:
        """The calls of `fit` with arguments in `*` or `**`, and no visible batch size."""
        within = set(self.tuners.fits_within)
        fits = [
            call for call in self.fits if call not in within and not argument(call, "batch_size")
        ]
        trained = self.tuners.searches if self._searches_say_batches else []
        return [call for call in (*fits, *trained) if has_star(call)]

    @cached_property
    def estimators(self) -> list[cst.Call]:
        """The calls that create scikit-learn estimators which build and fit Keras models."""
        return [c for c in self._values.index.calls if self._values.may_be(c, Role.ESTIMATOR)]

    @cached_property
    def estimator_fits(self) -> list[cst.Call]:
        """The calls that fit such estimators, directly or by scikit-learn's functions."""
        return [
            call
            for call in self._values.index.calls
            if self.estimators
            and (taken := self._find_fitted_estimators(call))
            and self.come_from_estimators(taken)
        ]

    def _find_fitted_estimators(self, call: cst.Call) -> list[cst.BaseExpression]:
        """Return the expressions that a call fits, if it is one of scikit-learn's fitting functions or methods."""
        if self._values.qualified(call.func).startswith(_FITTING_FUNCTIONS):
            return [arg.value for arg in call.args]
        fits = isinstance(call.func, cst.Attribute) and method(call) in _FITTING_METHODS
        return [call.func.value] if fits and isinstance(call.func, cst.Attribute) else []

    def come_from_estimators(self, expressions: Iterable[cst.BaseExpression]) -> bool:
        """Whether some expression is computed from an estimator that fits Keras models."""
        made = set(self.estimators)
        return any(made & set(self._values.flow.backward_slice(each)) for each in expressions)

    def _fits_model(self, call: cst.Call) -> bool:
        """Whether a call of `fit` trains a Keras model: by its receiver, by a keyword of Keras' `fit`, or as `compile` has the
        same receiver.
        """
        assert isinstance(call.func, cst.Attribute)
        model = self.is_model(call.func.value)
        if model is not None:
            return model
        text = self._values.module.text
        compiled = {text(c.func.value) for c in self.compiles if isinstance(c.func, cst.Attribute)}
        return bool(list_keywords(call) & _OF_FIT) or text(call.func.value) in compiled


def find_fit_argument(call: cst.Call, name: str) -> cst.Arg | None:
    """Return an argument of `fit`, `fit_generator` or a tuner's `search`, given by its name in `fit`; None if absent."""
    positions = POSITIONS.get(method(call), POSITIONS["fit"])
    if name == "x" and method(call) == "fit_generator":
        name, positions = "generator", {"generator": 0}
    return argument(call, name, positions.get(name))


def list_keywords(call: cst.Call) -> set[str]:
    """Return the names of a call's keyword arguments."""
    return {arg.keyword.value for arg in call.args if arg.keyword}
