"""Tensor functions in the training of Keras models: `from jupyter_hvd.tensor.keras import TensorLoss`."""

from __future__ import annotations

import sys
from typing import Any, Self

import numpy as np
import tensorflow as tf
from tensorflow import keras

from .frontend.signature import declared
from .language.errors import TensorError
from .language.types import IndexArray, Relation
from .tensor_function import TensorFunction


class TensorLoss(keras.losses.Loss):  # type: ignore[misc]
    """A tensor function as a loss: of a model's outputs, and of the targets if it takes them.

    Args:
        function: gives one number for a batch, or one for each of its examples, which Keras reduces.
        wrt: its parameter that is the model's output, (batch, …).
        reduction, name: as Keras has them.
        given: its other parameters, by name, but for one at most, which is the target.

    Its gradient by the output is `function`'s own. A model that is saved with it is loaded where the function is defined
    under the same name, or with `compile=False`. Raises TensorError where the parameters do not fit.
    """

    def __init__(
        self,
        function: TensorFunction,
        wrt: str,
        *,
        reduction: str = "sum_over_batch_size",
        name: str | None = None,
        **given: Any,
    ) -> None:
        super().__init__(reduction=reduction, name=name or function.__name__)
        function.check_names((wrt,))
        parameters = function.__signature__.parameters
        if unknown := sorted(given.keys() - (parameters.keys() - {wrt})):
            function.check_names(tuple(unknown))
            raise TensorError(f"`{wrt}` is the model's output, and is given, too", "leave it out")
        targets = [x for x, p in parameters.items() if x not in {wrt, *given}]
        free = [x for x in targets if parameters[x].default is parameters[x].empty]
        if len(free) > 1:
            raise TensorError(
                f"`{function.__name__}` has the parameters {', '.join(f'`{x}`' for x in free)} beside `{wrt}`, and one of them "
                "can be the target",
                f"give the others: `TensorLoss({function.__name__}, wrt={wrt!r}, {free[-1]}=…)`",
            )
        self.function, self.wrt, self.given = function, wrt, given
        self.target = free[0] if free else None

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return the loss of a batch; called by Keras."""
        arguments = {self.wrt: y_pred, **self.given}
        if self.target is not None:
            arguments[self.target] = self._as_declared(y_true)
        return self.function.tf(**arguments)

    def _as_declared(self, y_true: Any) -> Any:
        """Convert the target, which Keras has made floats, to the type that the function declares."""
        assert self.target is not None
        annotation = self.function.__signature__.parameters[self.target].annotation
        match declared(self.target, annotation):
            case IndexArray():
                return tf.cast(y_true, tf.int32)
            case Relation():
                return tf.cast(y_true, tf.bool)
        return y_true

    def get_config(self) -> dict[str, Any]:
        """Return what is needed to load the loss again; called by Keras."""
        given = {x: np.asarray(value) for x, value in self.given.items()}
        return {
            **super().get_config(),
            "function": [self.function.__module__, self.function.__name__],
            "wrt": self.wrt,
            "given": {x: [str(value.dtype), value.tolist()] for x, value in given.items()},
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Find the function by its name in a module that is imported already: a file must not name modules to import."""
        module, name = config["function"]
        function = getattr(sys.modules.get(module), name, None)
        if not isinstance(function, TensorFunction):
            raise ValueError(
                f"the model's loss is the tensor function `{name}` of `{module}`, which is not defined here: "
                "define or import it, or load the model with `compile=False`"
            )
        given: dict[str, Any] = {
            x: np.asarray(value, dtype) for x, (dtype, value) in config["given"].items()
        }
        given |= {key: config[key] for key in ("reduction", "name")}
        return cls(function, config["wrt"], **given)


__all__ = ["TensorLoss"]
