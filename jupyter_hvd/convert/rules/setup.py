"""HVD1: Horovod is imported and started, and each rank sees one GPU."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from libcst.helpers import get_full_name_for_node

from ...analysis.library import Kind
from ...analysis.syntax import argument
from ...frameworks.tensorflow.tf_api import canonical
from ..edits import Edit
from ..rule import Context, Example, Finding, Fix, Problem, Rule, program
from . import data, files, schedules

#: The comment by which a converted program is known again.
MARK = "# Horovod, added by jupyter hvd: one process per rank, each with a GPU of its own"


#: What a converted program says where it cannot be right, instead of training without averaging.
KERAS_3 = (
    "Horovod does not average gradients in Keras 3: install tf-keras and set TF_USE_LEGACY_KERAS=1"
)


class Initialise(Rule):
    """Import Horovod and start it where TensorFlow is imported.

    `hvd.init()` must run before TensorFlow touches a GPU, so the lines follow the
    imports at once. Each process then sees the one GPU that its local rank names,
    and takes its memory as it needs it. Horovod's module for Keras is imported
    where the program trains with `fit`, the one for tapes where it has a tape loop,
    both where it has both. However many imports name TensorFlow, this happens once.

    Horovod's last release does not know Keras 3, where it trains without averaging and
    says nothing. The program stops there at once.
    """

    code = "HVD101"
    name = "start Horovod"
    message = "Each rank is a process of its own: it must join the others and take one GPU before TensorFlow takes all."
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
                import horovod.tensorflow.keras as hvd

                # Horovod, added by jupyter hvd: one process per rank, each with a GPU of its own
                assert getattr(tf.keras, '__version__', '2') < '3', 'Horovod does not average gradients in Keras 3: install tf-keras and set TF_USE_LEGACY_KERAS=1'
                hvd.init()
                gpus = tf.config.list_physical_devices('GPU')
                for gpu in gpus:
                    tf.config.experimental.set_memory_growth(gpu, True)
                if gpus:
                    tf.config.set_visible_devices(gpus[hvd.local_rank()], 'GPU')


                def hvd_share(rows, batch_size=32):
                    # This rank's rows, every size-th one. Rows that would give some ranks one batch more are left out.
                    count = len(rows)
                    if count // hvd.size() % batch_size == 0:
                        count -= count % hvd.size()
                    return rows[hvd.rank():count:hvd.size()]

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile(tf.keras.optimizers.SGD(0.1), loss='mse')
                model.fit(x, y)
                """
            ),
            "The rest of the program changes by the other rules.",
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        first = first_import(context)
        if first is None:
            anchor = next(iter(context.roles.index.imports), context.module.tree)
            yield Problem(
                anchor,
                "TensorFlow is not imported at the top level of the program, so there is no place to start Horovod",
                "import tensorflow at the top, outside every function",
            )
            return
        last = last_of_group(context, first)
        end = context.module.line_end(context.module.span(last).end)
        imports = []
        if context.bound_tf is None or not self._bound_before(context, end):
            imports.append(f"import tensorflow as {context.tf}")
        if self._imports_keras_itself(context):
            # Which may be Keras 3 even where TensorFlow's own is not.
            imports.append(f"import keras as {context.fresh('their_keras')}")
        if context.options.target == "tf_keras":
            # Horovod's callbacks take their Keras from this name.
            imports += ["import sys", "import tf_keras", "sys.modules['keras'] = tf_keras"]
        if context.uses_both:
            imports.append(f"import horovod.tensorflow as {context.hvd}")
            imports.append(f"import horovod.tensorflow.keras as {context.hvd_keras}")
        elif context.training.fits:
            imports.append(f"import horovod.tensorflow.keras as {context.hvd}")
        else:
            imports.append(f"import horovod.tensorflow as {context.hvd}")
        yield Fix(first, (context.insert(end, self._text(context, imports), 5),))

    def _bound_before(self, context: Context, end: int) -> bool:
        return any(
            get_full_name_for_node(alias.name) == "tensorflow"
            and (alias.evaluated_alias or "tensorflow") == context.tf
            and context.module.span(node).end <= end
            for node in context.roles.index.imports
            if isinstance(node, cst.Import) and context.module.function_of(node) is None
            for alias in node.names
        )

    def _imports_keras_itself(self, context: Context) -> bool:
        return any(
            (get_full_name_for_node(name) or "").partition(".")[0] == "keras"
            for node in context.roles.index.imports
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, cst.Import)
                else [node.module]
                if node.module is not None and not node.relative
                else []
            )
        )

    def _text(self, context: Context, imports: list[str]) -> str:
        hvd, tf, step = context.hvd, context.tf, context.indent_step
        gpus, gpu = context.fresh("gpus", "hvd_gpus"), context.fresh("gpu", "hvd_gpu")
        lines = [
            *imports,
            "",
            MARK,
            f"assert getattr({tf}.keras, '__version__', '2') < '3', {KERAS_3!r}",
            *(
                [f"assert {context.fresh('their_keras')}.__version__ < '3', {KERAS_3!r}"]
                if self._imports_keras_itself(context)
                else []
            ),
            f"{hvd}.init()",
            f"{gpus} = {tf}.config.list_physical_devices('GPU')",
            f"for {gpu} in {gpus}:",
            f"{step}{tf}.config.experimental.set_memory_growth({gpu}, True)",
            f"if {gpus}:",
            f"{step}{tf}.config.set_visible_devices({gpus}[{hvd}.local_rank()], 'GPU')",
            *data.helper_lines(context),
            *schedules.helper_lines(context),
            *files.helper_lines(context),
        ]
        newline = context.module.newline
        return newline + newline.join(lines)


def first_import(context: Context) -> cst.CSTNode | None:
    """The first top-level statement that imports TensorFlow or Keras."""
    for node in context.roles.index.imports:
        if context.module.function_of(node) is not None:
            continue
        names = (
            [get_full_name_for_node(node.module) or ""]
            if isinstance(node, cst.ImportFrom) and node.module and not node.relative
            else [get_full_name_for_node(alias.name) or "" for alias in node.names]
            if isinstance(node, cst.Import)
            else []
        )
        if any(canonical(name).partition(".")[0] == "tensorflow" for name in names):
            return context.module.top_level_statement(node)
    return None


def last_of_group(context: Context, first: cst.CSTNode) -> cst.CSTNode:
    """The last of the import statements that follow one another from `first` on, in the same cell."""
    body = list(context.module.tree.body)
    place = body.index(first)  # type: ignore[arg-type]
    cell = context.cell_of(context.module.span(first).start)
    last = first
    for statement in body[place + 1 :]:
        if (
            not isinstance(statement, cst.SimpleStatementLine)
            or not all(isinstance(small, (cst.Import, cst.ImportFrom)) for small in statement.body)
            or context.cell_of(context.module.span(statement).start) != cell
        ):
            break
        last = statement
    return last


class SameSeed(Rule):
    """Let all ranks draw the same random numbers in Python, where the program draws any without a seed.

    `train_test_split`, `np.random.shuffle`, a generator that shuffles: ranks that did this each
    in its own way would train on one another's test data, and on some examples several times. So all go
    on from the state of rank 0's random numbers, of NumPy and of Python, and a random generator without a
    seed gets one. One rank alone changes nothing, and TensorFlow's random numbers stay as they
    are, since noise and dropout should differ.
    """

    code = "HVD103"
    name = "same random numbers"
    message = (
        "All ranks must split and shuffle the data alike, or they train on one another's test data."
    )
    examples = (
        Example(
            program(
                """
                import numpy as np
                import tensorflow as tf

                rng = np.random.default_rng()
                order = rng.permutation(len(x))
                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x[order[100:]], y[order[100:]])
                """
            ),
            program(
                """
                import numpy as np
                import tensorflow as tf


                def hvd_same_seed():
                    # All ranks draw the same random numbers in Python, so that they split and shuffle the data alike.
                    if hvd.size() > 1:
                        import random, secrets
                        import numpy
                        from horovod.tensorflow import broadcast_object
                        states = numpy.random.get_state(), random.getstate(), secrets.randbits(32)
                        state, python_state, seed = broadcast_object(states, root_rank=0, name='seed')
                        numpy.random.set_state(state)
                        random.setstate(python_state)
                        return seed


                hvd_seed = hvd_same_seed()

                rng = np.random.default_rng(hvd_seed)
                order = rng.permutation(len(x))
                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x[order[100:]], y[order[100:]])
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        draws, unseeded = context.randomness.draws, context.randomness.unseeded
        first = first_import(context)
        if first is None or not (draws or unseeded):
            return
        end = context.module.line_end(context.module.span(last_of_group(context, first)).end)
        for call in (*draws, *unseeded):
            if context.module.function_of(call) is None and context.module.span(call).start < end:
                yield Problem(
                    call,
                    "these random numbers are drawn before Horovod can start, so they differ from rank to rank",
                    "import tensorflow first, or give them a seed",
                )
                return
        hvd, step = context.hvd, context.indent_step
        called = f"{context.fresh('hvd_same_seed')}()"
        lines = [
            "",
            "",
            f"def {called}:",
            f"{step}# All ranks draw the same random numbers in Python, so that they split and shuffle the data alike.",
            f"{step}if {hvd}.size() > 1:",
            f"{step}{step}import random, secrets",
            f"{step}{step}import numpy",
            f"{step}{step}from horovod.tensorflow import broadcast_object",
            f"{step}{step}states = numpy.random.get_state(), random.getstate(), secrets.randbits(32)",
            f"{step}{step}state, python_state, seed = broadcast_object(states, root_rank=0, name='seed')",
            f"{step}{step}numpy.random.set_state(state)",
            f"{step}{step}random.setstate(python_state)",
            f"{step}{step}return seed",
            "",
            "",
            f"{context.fresh('hvd_seed')} = {called}" if unseeded else called,
        ]
        newline = context.module.newline
        edits = [context.insert(end, newline + newline.join(lines), 6)]
        for call in unseeded:
            edits.append(
                context.insert(context.module.span(call).end - 1, context.fresh("hvd_seed"))
            )
        yield Fix((draws or unseeded)[0], tuple(edits))


class DeviceEnvironment(Rule):
    """Remove assignments to `os.environ['CUDA_VISIBLE_DEVICES']`, and `set_visible_devices` of a GPU.

    With Horovod the local rank chooses the GPU. A program that hides all GPUs but
    one leaves none for the other ranks of the machine, or has all ranks share it.
    """

    code = "HVD102"
    name = "device environment"
    message = "The local rank chooses the GPU; CUDA_VISIBLE_DEVICES would hide the GPUs of the other ranks."
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
        for assign in context.roles.index.assigns:
            match assign.targets:
                case [
                    cst.AssignTarget(
                        target=cst.Subscript(
                            value=environ,
                            slice=[
                                cst.SubscriptElement(
                                    slice=cst.Index(value=cst.SimpleString() as key)
                                )
                            ],
                        )
                    )
                ] if (
                    key.evaluated_value == "CUDA_VISIBLE_DEVICES"
                    and context.roles.qualified(environ) == "os.environ"
                    and context.roles.kinds(assign.value) <= {Kind.CONSTANT}
                ):
                    if assign_value_hides_all(assign.value):
                        continue
                    yield Fix(assign, removal(context, assign))
        for call in context.roles.index.calls:
            if context.roles.qualified(call.func) in CHOOSING and not hides_all(call):
                statement = context.module.parent(call)
                if isinstance(statement, cst.Expr):
                    yield Fix(call, removal(context, statement))


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


RULES: tuple[type[Rule], ...] = (Initialise, DeviceEnvironment, SameSeed)
