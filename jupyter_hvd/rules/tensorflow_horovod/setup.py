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
from ...frameworks.tensorflow.randomness import Seed
from ...source.edits import IN_FRONT, Edit, Layer
from ..base import BATCHES, Example, Finding, Fix, Problem, program
from . import standalone
from .context import HOROVOD, RUNTIME, TENSORFLOW, Context, Rule
from .environment import assignments
from .imports import MARK, StartPlace, end_of_imports, first_import, start_place

#: What sets a variable of the environment, which TensorFlow reads when it is loaded.
ENVIRONMENT = re.compile(r"\benviron\b|\bputenv\b|\bset_env\b|\bload_dotenv\b")
#: Why a definition stands in the program.
STANDALONE = "A program that goes where this package is not has what it needs of it written in."


class Initialise(Rule):
    """Import Horovod and start it where TensorFlow is imported.

    Horovod must start before TensorFlow touches a GPU, so the lines follow the
    imports at once, or stand in front of a line that needs them, where one prints or writes
    before. `jhvd.start()` joins the other ranks and takes the one GPU that the local rank
    names. However many imports name TensorFlow, this happens once.

    This rule has what the changes of others need, and nothing else: where none of them is made,
    it changes nothing, and where one is, no option leaves it out.
    With `--standalone` the functions of `jupyter_hvd.runtime` that are needed are written into
    the program, which then runs where this package is not.

    The same program runs on Keras 2, `tf_keras` and Keras 3. Where Keras computes with something
    else than TensorFlow, or two Kerases are loaded, it stops at once and says what to do.
    """

    code = "HVD101"
    name = "start Horovod"
    rationale = "Each rank is a process of its own: it must join the others and take one GPU before TensorFlow takes all."
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
                import jupyter_hvd.runtime as jhvd
                jhvd.start()  # Horovod, added by jupyter hvd: one process per rank, each with a GPU of its own

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
        if first_import(context) is None:
            yield Problem(
                next(iter(context.values.index.imports), context.module.tree),
                "TensorFlow is not imported at the top level of the program, so there is no place to start Horovod",
                "import tensorflow at the top, outside every function",
            )

    def provide(self, context: Context, name: str, users: Sequence[Fix]) -> Fix | Problem | None:
        place = start_place(context, users)
        if name == HOROVOD and place.in_front and (late := self._late_setting(context, place)):
            return late
        if name == TENSORFLOW and not self._has_tensorflow(context, place):
            lines = [(Layer.TENSORFLOW, f"import tensorflow as {context.tf}")]
            return self._at(place, context, name, lines)
        if name == HOROVOD:
            return self._horovod(context, place)
        if name == RUNTIME and context.options.open_ended:
            imported = f"import jupyter_hvd.runtime as {context.jhvd}"
            return self._at(place, context, name, [(Layer.RUNTIME, imported)])
        if context.writes_runtime and name in standalone.definitions():
            return self._definition(context, place, standalone.definitions()[name])
        return None

    def _horovod(self, context: Context, place: StartPlace) -> Fix:
        """Horovod, the runtime library and the start; ranks that share each batch have the last two already."""
        if context.options.shares_batches:
            imported = (Layer.HOROVOD, f"import horovod.tensorflow as {context.hvd}")
            joined = (Layer.START, f"{context.hvd}.init()")
            return self._at(place, context, HOROVOD, [imported, joined])
        guard = "" if context.options.guard else "guard=False"
        start = f"{context.runtime('start')}({guard})  {MARK}"
        blank = "\n\n" if context.options.standalone else ""  # behind definitions
        lines: list[tuple[int, str]] = [
            (Layer.HOROVOD, f"import horovod.tensorflow as {context.hvd}"),
            (Layer.START, f"{blank}{start}"),
        ]
        if not context.options.standalone:
            lines.append((Layer.RUNTIME, f"import jupyter_hvd.runtime as {context.jhvd}"))
        return self._at(place, context, HOROVOD, lines, ("start",))

    def _definition(
        self, context: Context, place: StartPlace, definition: standalone.Definition
    ) -> Fix:
        """A function of the runtime library, or what it uses, written into the program."""
        lines = standalone.text_of(
            definition, context.runtime_names, context.indent_step(context.module.tree)
        )
        if definition.stands_apart:
            lines = f"\n\n{lines}"
        layer = Layer.DEFINITION + definition.index
        fix = self._at(place, context, definition.name, [(layer, lines)], definition.needs)
        return replace(fix, why=STANDALONE)

    def _at(
        self,
        place: StartPlace,
        context: Context,
        name: str,
        lines: Sequence[tuple[int, str]],
        needs: tuple[str, ...] = (),
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
        return Fix(place.anchor, tuple(edits), needs=needs, provides=name)

    def _late_setting(self, context: Context, place: StartPlace) -> Problem | None:
        """What the program sets in its environment for TensorFlow, where Horovod would load that before."""
        first = first_import(context)
        assert first is not None
        end = end_of_imports(context, first)
        for statement in context.module.tree.body:
            span = context.module.span(statement)
            text = context.module.source[span.start : span.end]
            if place.offset <= span.start < end and ENVIRONMENT.search(text):
                return Problem(
                    statement,
                    "the environment is set here for TensorFlow, but a line above must run on one rank alone, "
                    "and what tells the ranks apart loads TensorFlow",
                    "set the environment first, or import tensorflow above what prints and writes",
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


#: Why noise is broadcast.
OF_RANK_ZERO = "Noise that weights are given is to be the same on all ranks, or its mean over them is smaller, or they part."


class SameSeed(Rule):
    """Let all ranks draw the same random numbers in Python, where the program draws any without a seed.

    `train_test_split`, `np.random.shuffle`, a generator that shuffles: ranks that did this each
    in its own way would train on one another's test data, and on some examples several times. So all go
    on from the state of rank 0's random numbers, of NumPy and of Python, and a random generator without a
    seed gets one, as does what is seeded with None, by a clock, or on a condition alone. Where data are shuffled before the ranks part, by a source that shuffles itself, that is done in one order
    on all ranks. What TensorFlow draws before the steps, or makes the data of, is to be learned: that is drawn alike, each call
    by itself. So is what it, or Keras, draws to set weights, between epochs or in a callback, with an initializer too; noise that a compiled step, or an optimizer of the program's own, adds to weights is rank 0's. The rest of TensorFlow's random numbers stay each rank's own, since noise and dropout should differ.
    (Layers of Keras 3 take their seed from Python's, so that these drop the same places on all ranks, each of its own examples.)
    One rank alone changes nothing.
    """

    code = "HVD103"
    name = "same random numbers"
    rationale = (
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
                hvd_seed = jhvd.same_seed()

                rng = np.random.default_rng(hvd_seed)
                order = rng.permutation(len(x))
                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x[order[100:]], y[order[100:]])
                """
            ),
        ),
        Example(
            program(
                """
                import tensorflow as tf

                train = tf.keras.utils.image_dataset_from_directory('photos')
                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(train)
                """
            ),
            program(
                """
                import tensorflow as tf
                hvd_seed = jhvd.same_seed()

                train = jhvd.in_one_order(tf.keras.utils.image_dataset_from_directory, hvd_seed)('photos')
                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(train)
                """
            ),
        ),
        Example(
            program(
                """
                import tensorflow as tf

                x = tf.random.normal((1000, 3))
                y = x @ tf.random.normal((3, 1))
                model = tf.keras.Sequential([tf.keras.layers.Dense(1), tf.keras.layers.Dropout(0.5)])
                model.compile('sgd', loss='mse')
                model.fit(x, y)
                """
            ),
            program(
                """
                import tensorflow as tf
                hvd_seed = jhvd.same_seed()

                x = jhvd.draw_alike(tf.random.normal, hvd_seed)((1000, 3))
                y = x @ jhvd.draw_alike(tf.random.normal, hvd_seed)((3, 1))
                model = tf.keras.Sequential([tf.keras.layers.Dense(1), tf.keras.layers.Dropout(0.5)])
                model.compile('sgd', loss='mse')
                model.fit(x, y)
                """
            ),
            "What is learned is one thing on all ranks.",
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for call in context.alike.compiled:
            yield Fix(
                call,
                context.wrap(call, f"{context.runtime('of_rank_zero')}(", ")"),
                OF_RANK_ZERO,
                needs=(HOROVOD, "of_rank_zero"),
            )
        draws = (*context.randomness.draws, *context.untrained.makers)
        unseeded = context.randomness.unseeded
        wrapped = dict.fromkeys(context.sharding.in_one_order, "in_one_order")
        wrapped |= dict.fromkeys(context.alike.draws, "draw_alike")
        drawing = (*draws, *unseeded, *wrapped)
        first = first_import(context)
        if first is None or not drawing:
            return
        called = f"{context.runtime('same_seed')}()"
        seed = context.fresh("hvd_seed")
        line = f"{seed} = {called}" if unseeded or wrapped else called
        edits = [self._line(context, first, drawing, line)]
        for call, given in unseeded.items():
            edits += self._seeded(context, call, given, seed)
        for call, wrapper in wrapped.items():
            opening, closing = f"{context.runtime(wrapper)}(", f", {seed})"
            edits += context.wrap(call.func, opening, closing, Layer.FUNCTION)
        needs = (HOROVOD, "same_seed", *dict.fromkeys(wrapped.values()))
        yield Fix(drawing[0], tuple(edits), needs=needs)

    def _seeded(self, context: Context, call: cst.Call, given: Seed, seed: str) -> tuple[Edit, ...]:
        """Edits by which random numbers get the seed of all ranks, where the program has none that is the same on all."""
        if given.given is None:
            return (context.insert(context.module.span(call).end - 1, seed),)
        text = context.module.text(given.given)
        if given.or_own:
            return context.wrap(given.given, f"{seed} if {text} is None else ", "")
        if text == "None":
            return (context.replace(given.given, seed),)
        return context.wrap(given.given, f"{seed} or ", "")

    def _line(
        self, context: Context, first: cst.CSTNode, draws: Sequence[cst.Call], line: str
    ) -> Edit:
        """The line behind the imports, or in front of the first draw where that is earlier."""
        end = end_of_imports(context, first)
        early = [
            context.module.span(context.module.top_level_statement(call)).start
            for call in draws
            if context.module.function_of(call) is None and context.module.span(call).start < end
        ]
        if early:
            return context.insert(
                min(early), f"{line}{context.module.newline}", Layer.SEED + IN_FRONT
            )
        return context.insert(end, f"{context.module.newline}{line}", Layer.SEED)


class DeviceEnvironment(Rule):
    """Remove assignments to `os.environ['CUDA_VISIBLE_DEVICES']`, and `set_visible_devices` of a GPU.

    With Horovod the local rank chooses the GPU. A program that hides all GPUs but
    one leaves none for the other ranks of the machine, or has all ranks share it.
    """

    code = "HVD102"
    name = "device environment"
    rationale = "The local rank chooses the GPU; CUDA_VISIBLE_DEVICES would hide the GPUs of the other ranks."
    batches = BATCHES
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
    batches = BATCHES
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
                started = () if context.options.shares_batches else (HOROVOD,)
                yield Fix(call, (own,), needs=(*started, TENSORFLOW))


NUMBERED = program(
    """
    import tensorflow as tf

    number = {label: n for n, label in enumerate(set(labels))}
    y = [number[label] for label in labels]
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile('sgd', loss='mse')
    model.fit(x, y, verbose=0)
    """
)


class SetOrder(Rule):
    """Tell where the order of a set numbers something: labels, words.

    Python goes through a set of words in another order in each process, so that the ranks would give one label several
    numbers. All that starts ranks here sets `PYTHONHASHSEED` for them; who starts them by other means must do so, or sort the set.
    """

    code = "HVD105"
    name = "order of sets"
    rationale = "Each process goes through a set of words in an order of its own."
    examples = (Example(NUMBERED, NUMBERED),)

    def find(self, context: Context) -> Iterator[Finding]:
        for call in context.values.index.calls:
            name = context.values.qualified(call.func).removeprefix("builtins.")
            if name not in ("enumerate", "list", "tuple", "zip"):
                continue
            argument_of = [*context.module.ancestors(call)][1:2]
            sinks = [
                context.values.qualified(a.func) for a in argument_of if isinstance(a, cst.Call)
            ]
            if {sink.removeprefix("builtins.") for sink in sinks} & UNORDERED:
                continue
            for arg in call.args:
                if self._is_set(context, arg.value):
                    yield Problem(
                        arg.value,
                        "a set gives words in another order in each process, unless all have one PYTHONHASHSEED, as ranks of `jupyter hvd` do",
                        "sort it,  sorted(…) , if the ranks are to be started by other means",
                        "warning" if context.options.standalone else "info",
                    )

    def _is_set(self, context: Context, e: cst.CSTNode) -> bool:
        if isinstance(e, cst.Call):
            return context.values.qualified(e.func) in ("builtins.set", "builtins.frozenset")
        if isinstance(e, cst.Name):
            sources = context.values.flow.predecessors(e)
            return bool(sources) and all(
                not path and self._is_set(context, n) for n, path in sources
            )
        return isinstance(e, (cst.Set, cst.SetComp))


#: Functions that ask for no order of what they are given.
UNORDERED = frozenset("sorted len sum min max set frozenset any all".split())

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


RULES: tuple[type[Rule], ...] = (Initialise, DeviceEnvironment, SameSeed, Strategy, SetOrder)
