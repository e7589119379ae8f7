"""HVD102: the local rank chooses the GPU, not the program."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...analysis.library import Kind
from ...analysis.syntax import argument
from ...source.edits import Edit
from .base import Example, Finding, Fix, program
from .context import Context, Rule
from .environment import find_assignments

#: What gives the process certain devices.
CHOOSING = (
    "tensorflow.config.set_visible_devices",
    "tensorflow.config.experimental.set_visible_devices",
)


class DeviceEnvironment(Rule):
    """Let the local rank choose the GPU.

    Removes assignments to `os.environ['CUDA_VISIBLE_DEVICES']`, and calls of `set_visible_devices` that choose a GPU. Comments stay.

    Why:
    A program that hides all GPUs but one leaves none for the other ranks of the host, or makes all ranks share it.

    Known problems:
    Only these two forms are removed. A GPU chosen by `os.environ.update`, `os.putenv`, in the shell, or by a value that the program computes
    (`str(args.gpu)`) stays chosen. Remove it by hand, or all ranks of a host use that GPU.

    When it does not apply:
    To programs that hide all GPUs (`''`, `'-1'`, `set_visible_devices([], 'GPU')`) or choose CPUs: every rank then computes on its CPU.
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
        for assign in find_assignments(context, "CUDA_VISIBLE_DEVICES"):
            known = context.values.kinds(assign.value) <= {Kind.CONSTANT}
            if known and not is_no_gpu_value(assign.value):
                yield Fix(assign, remove_statement(context, assign), needs=())
        for call in context.values.index.calls:
            if context.values.qualified(call.func) in CHOOSING and not chooses_no_gpu(call):
                statement = context.module.parent(call)
                if isinstance(statement, cst.Expr):
                    yield Fix(call, remove_statement(context, statement), needs=())


def chooses_no_gpu(call: cst.Call) -> bool:
    """Whether a call of `set_visible_devices` chooses no GPU: an empty list, or CPUs. Then every rank may run it."""
    devices, kind = argument(call, "devices", 0), argument(call, "device_type", 1)
    match kind:
        case cst.Arg(value=cst.SimpleString(evaluated_value="CPU")):
            return True
    return (
        devices is not None and isinstance(devices.value, cst.List) and not devices.value.elements
    )


def is_no_gpu_value(value: cst.BaseExpression) -> bool:
    """Whether a value of `CUDA_VISIBLE_DEVICES` hides all GPUs: `''` or `'-1'`."""
    return isinstance(value, cst.SimpleString) and value.evaluated_value in ("", "-1")


def remove_statement(context: Context, statement: cst.BaseSmallStatement) -> tuple[Edit, ...]:
    """Return the edits that remove a small statement, and leave valid code: `pass` where a block would be empty. Comments
    stay.
    """
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
