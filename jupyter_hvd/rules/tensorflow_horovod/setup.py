"""HVD1: Horovod is imported and started, and each rank sees one GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import libcst as cst
from libcst.helpers import get_full_name_for_node

from ...analysis.library import Kind
from ...analysis.syntax import argument
from ...frameworks.tensorflow import tf_api
from ...source.edits import IN_FRONT, Edit, Layer
from ..base import Example, Finding, Fix, Problem, program
from .context import HOROVOD, RUNTIME, TENSORFLOW, Context, Rule
from .environment import assignments
from .imports import StartPlace, end_of_imports, first_import, start_place

#: What sets a variable of the environment, which TensorFlow reads when it is loaded.
ENVIRONMENT = re.compile(r"\benviron\b|\bputenv\b|\bset_env\b|\bload_dotenv\b")


class ImportHorovod(Rule):
    """Import Horovod, and TensorFlow, where other changes name them.

    The lines follow the imports of TensorFlow, or stand in front of an earlier line that needs them. `jhvd.start_shared()` (HVD701) has
    started Horovod when TensorFlow was imported, and has taken the GPU that the local rank names; `hvd.init()` then changes nothing.
    """

    code = "HVD101"
    name = "import Horovod"
    rationale = "The program asks Horovod for the number of ranks, and for its rank."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile(tf.keras.optimizers.SGD(0.1), loss='mse')
                model.fit(x, y)
                """
            ),
            program(
                """
                import tensorflow as tf
                import horovod.tensorflow as hvd
                hvd.init()

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile(tf.keras.optimizers.SGD(0.1), loss='mse')
                model.fit(x, y)
                """
            ),
            "The rest of the program changes by the other rules.",
        ),
    )
    mandatory = True

    def find(self, context: Context) -> Iterator[Finding]:
        return iter(())

    def provide(self, context: Context, name: str, users: Sequence[Fix]) -> Fix | Problem | None:
        if name not in (HOROVOD, RUNTIME, TENSORFLOW):
            return None
        place = start_place(context, users)
        if place is None:
            return None  # HVD701 refuses the program
        if name == TENSORFLOW and not self._has_tensorflow(context, place):
            lines = [(Layer.TENSORFLOW, f"import tensorflow as {context.tf}")]
            return self._at(place, context, name, lines)
        if name == HOROVOD and place.in_front and (late := self._late_setting(context, place)):
            return late
        if name == RUNTIME and context.options.open_ended:
            line = f"import jupyter_hvd.runtime as {context.jhvd}"
            fix = self._at(place, context, name, [(Layer.RUNTIME, line)])
            # Cells need Horovod too, some now and some later: the cell of the imports stays the same.
            return replace(fix, needs=(HOROVOD,))
        if name == HOROVOD:
            imported = (Layer.HOROVOD, f"import horovod.tensorflow as {context.hvd}")
            joined = (Layer.START, f"{context.hvd}.init()")
            fix = self._at(place, context, HOROVOD, [imported, joined])
            return fix if context.options.open_ended else replace(fix, needs=(RUNTIME,))
        return None

    def _at(
        self,
        place: StartPlace,
        context: Context,
        name: str,
        lines: Sequence[tuple[int, str]],
    ) -> Fix:
        newline = context.module.newline
        edits = (
            context.insert(
                place.offset,
                (f"{line}\n" if place.in_front else f"\n{line}").replace("\n", newline),
                layer + (IN_FRONT if place.in_front else 0),
            )
            for layer, line in lines
        )
        return Fix(place.anchor, tuple(edits), needs=(), provides=name)

    def _late_setting(self, context: Context, place: StartPlace) -> Problem | None:
        """What the program sets in its environment for TensorFlow, where Horovod would load that before."""
        first = first_import(context)
        if first is None:
            return None
        end = end_of_imports(context, first)
        for statement in context.module.tree.body:
            span = context.module.span(statement)
            text = context.module.source[span.start : span.end]
            if place.offset <= span.start < end and ENVIRONMENT.search(text):
                return Problem(
                    statement,
                    "the environment is set here for TensorFlow, but a line above needs the number of ranks, and Horovod loads TensorFlow",
                    "set the environment first, or import tensorflow above",
                )
        return None

    def _has_tensorflow(self, context: Context, place: StartPlace) -> bool:
        """Whether the program itself binds the name of tensorflow before Horovod starts."""
        return any(
            get_full_name_for_node(alias.name) == "tensorflow"
            and (alias.evaluated_alias or "tensorflow") == context.tf
            and context.module.span(node).end <= place.offset
            for node in context.values.index.imports
            if isinstance(node, cst.Import) and context.module.function_of(node) is None
            for alias in node.names
        )


class DeviceEnvironment(Rule):
    """Remove assignments to `os.environ['CUDA_VISIBLE_DEVICES']`, and `set_visible_devices` of a GPU.

    With Horovod the local rank chooses the GPU. A program that hides all GPUs but
    one leaves none for the other ranks of the machine, or has all ranks share it.
    """

    code = "HVD102"
    name = "device environment"
    rationale = "The local rank chooses the GPU; CUDA_VISIBLE_DEVICES would hide the GPUs of the other ranks."
    examples = (
        Example(
            program(
                """
                import os
                import tensorflow as tf

                os.environ['CUDA_VISIBLE_DEVICES'] = '1'  # the second GPU
                if gpus:
                    tf.config.set_visible_devices(gpus[1], 'GPU')
                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y)
                """
            ),
            program(
                """
                import os
                import tensorflow as tf

                # the second GPU
                if gpus:
                    pass
                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for assign in assignments(context, "CUDA_VISIBLE_DEVICES"):
            known = context.values.kinds(assign.value) <= {Kind.CONSTANT}
            if known and not assign_value_hides_all(assign.value):
                yield Fix(assign, removal(context, assign), needs=())
        for call in context.values.index.calls:
            if context.values.qualified(call.func) in CHOOSING and not hides_all(call):
                statement = context.module.parent(call)
                if isinstance(statement, cst.Expr):
                    yield Fix(call, removal(context, statement), needs=())


class Strategy(Rule):
    """Put the strategy of one device in the place of one for all devices of a process.

    `MirroredStrategy` trains on the GPUs of one machine. A rank has one GPU, and Horovod averages over the ranks of
    any number of machines, so that what is left to the strategy is to run everything where it stands: its `scope`,
    `run` and `reduce` stay, for one replica.
    """

    code = "HVD104"
    name = "strategy"
    rationale = "Each rank has one device, and Horovod averages over all of them, so the strategy is that of one device."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                strategy = tf.distribute.MirroredStrategy(devices=['GPU:0', 'GPU:1'])
                with strategy.scope():
                    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                    model.compile('sgd', loss='mse')
                model.fit(x, y)
                """
            ),
            program(
                """
                import tensorflow as tf

                strategy = tf.distribute.get_strategy()
                with strategy.scope():
                    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                    model.compile('sgd', loss='mse')
                model.fit(x, y)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for call in context.values.index.calls:
            name = context.values.qualified(call.func)
            if name in tf_api.LOCAL_STRATEGIES and not name.endswith(".get_strategy"):
                own = context.replace(call, f"{context.tf}.distribute.get_strategy()")
                yield Fix(call, (own,), needs=(TENSORFLOW,))


#: What gives the process certain devices.
CHOOSING = (
    "tensorflow.config.set_visible_devices",
    "tensorflow.config.experimental.set_visible_devices",
)


def hides_all(call: cst.Call) -> bool:
    """`set_visible_devices([], 'GPU')` chooses the CPU on every rank; choosing CPUs leaves the GPUs alone."""
    devices, kind = argument(call, "devices", 0), argument(call, "device_type", 1)
    match kind:
        case cst.Arg(value=cst.SimpleString(evaluated_value="CPU")):
            return True
    return (
        devices is not None and isinstance(devices.value, cst.List) and not devices.value.elements
    )


def assign_value_hides_all(value: cst.BaseExpression) -> bool:
    """`''` and `'-1'` choose the CPU on every rank, which is as good under Horovod."""
    return isinstance(value, cst.SimpleString) and value.evaluated_value in ("", "-1")


def removal(context: Context, statement: cst.BaseSmallStatement) -> tuple[Edit, ...]:
    """Edits that take a small statement out, and leave the code around it valid."""
    module = context.module
    line = module.parent(statement)
    span = module.span(statement)
    block = module.parent(line) if line is not None else None
    alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
    if not alone or (isinstance(block, cst.IndentedBlock) and len(block.body) == 1):
        return (Edit(span.start, span.end, 0, "pass"),)
    end = module.line_end(span.end)
    rest = module.source[span.end : end]
    if rest.strip():  # a comment stays
        return (Edit(span.start, end - len(rest.lstrip()), 0, ""),)
    return (
        Edit(
            module.line_start(span.start), min(end + len(module.newline), len(module.source)), 0, ""
        ),
    )


RULES: tuple[type[Rule], ...] = (ImportHorovod, DeviceEnvironment, Strategy)
