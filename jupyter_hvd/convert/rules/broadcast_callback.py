"""HVD401: `fit` gets the callback that broadcasts rank 0's weights."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...analysis.library import Kind
from ...source.edits import Edit, Layer
from ..tensorflow.keras_loops import find_fit_argument
from ..tensorflow.roles import Role
from .base import Example, Finding, Fix, program
from .context import RUNTIME, Context, Rule


class FitCallbacks(Rule):
    """Give `fit` the callback that broadcasts rank 0's weights.

    Adds `jhvd.BroadcastGlobalVariablesCallback(0)` in front of the other callbacks.

    Why:
    All ranks draw the same initial weights, so they are equal already. The callback broadcasts the weights of each model once, when its first `fit` begins.

    Known problems:
    A model that is built by its first batch has no weights yet, so nothing is broadcast. The checksums of HVD701 still compare its weights.

    When it does not apply:
    With `--batch global`; to `fit` with arguments in `*` or `**`; where `callbacks` is not seen to be a list, a callback or `None`.
    """

    code = "HVD401"
    name = "broadcast in fit"
    rationale = "All ranks begin with rank 0's weights."
    batches = ("per-rank",)
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=0)
                model.fit(x, y, callbacks=[tf.keras.callbacks.EarlyStopping()], verbose=0)
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=0, callbacks=[jhvd.BroadcastGlobalVariablesCallback(0)])
                model.fit(x, y, callbacks=[jhvd.BroadcastGlobalVariablesCallback(0), tf.keras.callbacks.EarlyStopping()], verbose=0)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for call in context.training.keras.shown_fits:
            added = f"{context.runtime('BroadcastGlobalVariablesCallback')}(0)"
            edits = tuple(add_callback(context, call, added))
            if edits:
                yield Fix(call, edits, needs=(RUNTIME,))


def add_callback(context: Context, call: cst.Call, added: str) -> Iterator[Edit]:
    """Yield the edits that add a callback in front of those that a `fit` call has; none if the kind of its `callbacks` is
    unknown.
    """
    arg = find_fit_argument(call, "callbacks")
    if arg is None:
        yield context.add_keyword(call, f"callbacks=[{added}]", Layer.CALLBACKS)
        return
    kinds = context.values.kinds(arg.value)
    if isinstance(arg.value, cst.List) and not arg.value.lpar:
        yield insert_first_element(context, arg.value, added)
    elif kinds == {Kind.NONE}:
        yield context.replace(arg.value, f"[{added}]")
    elif kinds == {Kind.CONTAINER}:
        yield from context.wrap(arg.value, f"[{added}, *", "]", Layer.LIST)
    elif kinds == {Kind.CONTAINER, Kind.NONE}:
        yield from context.wrap(arg.value, f"[{added}, *(", " or ())]", Layer.LIST)
    elif kinds == {Role.CALLBACK}:
        yield from context.wrap(arg.value, f"[{added}, ", "]", Layer.LIST)


def insert_first_element(context: Context, elements: cst.List, text: str) -> Edit:
    """Return the edit that inserts a list's first element, on its own line if the other elements have lines of their own."""
    module, start = context.module, context.module.span(elements).start + 1
    if not elements.elements:
        return context.insert(start, text, Layer.FIRST_ELEMENT)
    first = module.span(elements.elements[0]).start
    if module.line(first) == module.line(start):
        return context.insert(start, f"{text}, ", Layer.FIRST_ELEMENT)
    line = f"{module.indentation(first)}{text},{module.newline}"
    return context.insert(module.line_start(first), line, Layer.FIRST_ELEMENT)
