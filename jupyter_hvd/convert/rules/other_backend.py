"""HVD908: programs in which Keras computes with JAX or PyTorch."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...analysis.syntax import argument
from .base import Example, Finding, Problem, program
from .context import Context
from .environment import find_settings
from .refusal import Refusal


class OtherBackend(Refusal):
    """Refuse programs in which Keras computes with JAX or PyTorch.

    Nothing. The program is refused.

    Why:
    Horovod for TensorFlow averages gradients that TensorFlow computes.

    Known problems:
    A backend that is set outside the program, in the environment or in `keras.json`, is not seen by the conversion. The converted program checks it when it starts, and stops.

    When it does not apply:
    To the TensorFlow backend. Programs that use only Keras' own layers and operations run there unchanged: set `KERAS_BACKEND=tensorflow`.
    """

    code = "HVD908"
    name = "other backend"
    rationale = "Horovod for TensorFlow averages the gradients of TensorFlow."
    examples = (
        Example(
            program(
                """
                import os
                os.environ['KERAS_BACKEND'] = 'jax'
                import keras

                model = keras.Sequential([keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y)
                """
            ),
            None,
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        chosen: list[tuple[cst.CSTNode, cst.BaseExpression]] = [
            *find_settings(context, "KERAS_BACKEND")
        ]
        for call in context.values.index.calls:
            if context.values.qualified(call.func) == "tensorflow.keras.config.set_backend":
                backend = argument(call, "backend", 0)
                if backend is not None:
                    chosen.append((call, backend.value))
        for place, value in chosen:
            match value:
                case cst.SimpleString(evaluated_value=str(backend_name)) if (
                    backend_name != "tensorflow"
                ):
                    yield Problem(
                        place,
                        f"Keras computes with {backend_name} here, whose gradients Horovod for TensorFlow cannot average",
                        'choose "tensorflow" instead; programs of Keras\' own layers and operations run there as they are',
                    )
