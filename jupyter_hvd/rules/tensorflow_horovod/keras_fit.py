"""HVD4: `fit` starts from equal weights, shows progress once, and its callbacks agree."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...analysis.library import Kind, Value
from ...analysis.syntax import argument, has_star, method, nodes_in
from ...frameworks.tensorflow import tf_api
from ...frameworks.tensorflow.keras_loops import POSITIONS, fit_argument
from ...frameworks.tensorflow.roles import Role
from ...source.edits import Edit, Layer
from ..base import Example, Finding, Fix, Problem, program
from .choices import DECIDED, choices
from .context import HOROVOD, TENSORFLOW, Context, Rule
from .questions import callback_values, decided_from

VERBOSE_POSITIONS = {"evaluate": 3, "predict": 2} | {
    name: positions["verbose"] for name, positions in POSITIONS.items()
}
#: Callbacks that run on all ranks and tell what they do, with the place of `verbose`.
TELLING = {"EarlyStopping": 3, "ReduceLROnPlateau": 3, "LearningRateScheduler": 1}

#: Methods of lists by which one more callback is added, the last of their arguments.
ADDING = frozenset({"append", "insert"})
#: Methods of callbacks that see the metrics of a batch.
BATCH_ENDS = ("on_train_batch_end", "on_batch_end")


class FitCallbacks(Rule):
    """Give every `fit` the callback that broadcasts rank 0's weights and optimizer state.

    It comes first in `callbacks=`, whatever stands there: a list, a name, one
    callback, `None`, nothing. `EarlyStopping` and `ReduceLROnPlateau` must run on all
    ranks and decide alike, or some ranks stop and the others wait for them forever:
    before them the metrics are averaged, as they are where the history is kept, so that it is that of all ranks; before
    `TerminateOnNaN`, and callbacks of the program's own that stop or set rates by a batch, those of each batch are. Keras 3 compiles steps with XLA unless told otherwise,
    which the same callback sees to where there are several ranks.
    """

    code = "HVD401"
    name = "broadcast and average in fit"
    rationale = (
        "All ranks go on from rank 0's weights, and their steps are compiled without XLA, which cannot hold what ranks exchange; "
        "callbacks that decide from metrics must see the same metrics on every rank."
    )
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                history = model.fit(x, y, callbacks=[tf.keras.callbacks.EarlyStopping()], verbose=0)
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                history = model.fit(x, y, callbacks=[jhvd.BroadcastGlobalVariablesCallback(0), jhvd.MetricAverageCallback(), tf.keras.callbacks.EarlyStopping()], verbose=0)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        deciding = self._deciding(context)
        for call in context.training.keras.shown_fits:
            arg = fit_argument(call, "callbacks")
            callbacks = {"BroadcastGlobalVariablesCallback": "0"}
            kept = not isinstance(context.module.parent(call), cst.Expr)
            if kept or call in deciding or self._needs_average(context, call):
                given = {tf_api.callback(value.name) for value in callback_values(context, call)}
                each = given & tf_api.BATCH_CALLBACKS or self._decides_by_batch(context, call)
                callbacks["MetricAverageCallback"] = "each_batch=True" if each else ""
            warmup = context.options.warmup_epochs
            if warmup:
                assert isinstance(call.func, cst.Attribute)
                rate = f"float({context.module.text(call.func.value)}.optimizer.learning_rate)"
                callbacks["LearningRateWarmupCallback"] = f"{rate}, warmup_epochs={warmup}"
            added = [f"{context.runtime(name)}({given})" for name, given in callbacks.items()]
            edits = tuple(self._add(context, call, arg, added))
            flattened = any(f"{context.tf}.nest." in edit.text for edit in edits)
            yield Fix(call, edits, needs=(HOROVOD, *callbacks, *([TENSORFLOW] * flattened)))

    def _decides_by_batch(self, context: Context, call: cst.Call) -> bool:
        """Whether a callback of the program's own reads the metrics of a batch, and ends the training or sets rates or weights."""
        for value in callback_values(context, call):
            if not isinstance(value.node, cst.ClassDef):
                continue
            named = context.values.classes.methods(value.node, *BATCH_ENDS)
            logs = [
                (each, each.params.params[2].name.value)
                for each in named
                if len(each.params.params) > 2
            ]
            reads = any(
                isinstance(node, cst.Name) and node.value == name
                for function, name in logs
                for node in nodes_in(function.body)
            )
            if reads and any(
                isinstance(node, cst.Attribute) and node.attr.value in DECIDED
                for node in nodes_in(value.node)
            ):
                return True
        return False

    def _deciding(self, context: Context) -> set[cst.Call]:
        """The fits whose history says how long another one goes on."""
        fits = context.training.keras.fits
        counts = (argument(fit, name) for fit in fits for name in ("epochs", "steps_per_epoch"))
        behind = {
            node
            for count in counts
            if count is not None
            for node in (
                *context.values.flow.backward_slice(count.value),
                *decided_from(context, count.value),
            )
        }
        return {fit for fit in fits if fit in behind} | choices(context).fits

    def _needs_average(self, context: Context, call: cst.Call) -> bool:
        for value in callback_values(context, call):
            name = tf_api.callback(value.name)
            if name in tf_api.METRIC_CALLBACKS | tf_api.BATCH_CALLBACKS or value.kind in (
                Kind.INSTANCE,
                Kind.UNKNOWN,
            ):
                return True
            made = value.node if name == "ModelCheckpoint" else None
            if isinstance(made, cst.Call) and argument(made, "save_best_only", 3) is not None:
                return True
        return False

    def _add(
        self, context: Context, call: cst.Call, arg: cst.Arg | None, added: list[str]
    ) -> Iterator[Edit]:
        text = ", ".join(added)
        if arg is None:
            yield context.add_keyword(call, f"callbacks=[{text}]", Layer.CALLBACKS)
            return
        value = arg.value
        values = context.values.of(value)
        kinds = {v.kind for v in values}
        if isinstance(value, cst.List) and not value.lpar:
            yield self._first_in(context, value, text)
        elif kinds == {Kind.NONE}:
            yield context.replace(value, f"[{text}]")
        elif kinds == {Kind.CONTAINER}:
            yield from context.wrap(value, f"[{text}] + list(", ")", Layer.LIST)
        elif kinds == {Role.CALLBACK}:
            if any(tf_api.callback(v.name) in tf_api.RANK_ZERO_CALLBACKS for v in values):
                yield from context.wrap(
                    value,
                    f"[{text}] + ([",
                    f"] if {context.backend.is_rank_zero} else [])",
                    Layer.LIST,
                )
            else:
                yield from context.wrap(value, f"[{text}, ", "]", Layer.LIST)
        else:  # one callback, several, or none
            flat = f"[{text}] + {context.tf}.nest.flatten("
            yield from context.wrap(value, flat, " or [])", Layer.LIST)

    def _first_in(self, context: Context, elements: cst.List, text: str) -> Edit:
        """One more element in front; on a line of its own where the others have lines of their own."""
        start = context.module.span(elements).start + 1
        if not elements.elements:
            return context.insert(start, text, Layer.FIRST_ELEMENT)
        first = context.module.span(elements.elements[0]).start
        if context.module.line(first) == context.module.line(start):
            return context.insert(start, f"{text}, ", Layer.FIRST_ELEMENT)
        indent = context.module.indentation(first)
        return context.insert(
            context.module.line_start(first),
            f"{indent}{text},{context.module.newline}",
            Layer.FIRST_ELEMENT,
        )


class HiddenArguments(Rule):
    """Give a `fit` whose arguments are hidden in `*` or `**` what the other rules give one that shows them.

    `jhvd.distributed_fit` sees the arguments when the program runs: it divides the data, completes the callbacks, divides
    the steps and shows progress on rank 0. Where one `fit` of a program is so, all data are divided where they
    are used (HVD506).
    """

    code = "HVD404"
    name = "hidden arguments"
    rationale = (
        "Divided by agreement: what this fit is given is known when the program runs; there each rank takes every N-th batch or row, "
        "and gets the callbacks that all ranks need."
    )
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, **options)
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                jhvd.distributed_fit(model.fit)(x, y, **options)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for call in context.training.keras.hidden_fits:
            opening = f"{context.runtime('distributed_fit')}("
            edits = context.wrap(call.func, opening, ")", Layer.FUNCTION)
            yield Fix(call, edits, needs=(HOROVOD, "distributed_fit"))
            if context.options.warmup_epochs:
                yield Problem(
                    call,
                    "the arguments of fit are hidden in * or **, so its rate does not grow in the first epochs",
                    "pass the arguments by name",
                    "warning",
                )


class Tuners(Rule):
    """Let all ranks make the same trials, each trial on all ranks.

    The function that builds the models is converted like any other, so that each model trains on all ranks;
    `search` is a `fit` whose arguments are known when the program runs (HVD404). The ranks choose the same trials by one
    seed and by averaged metrics. Rank 0 keeps its results where the program says; the others keep theirs aside.
    """

    code = "HVD405"
    name = "tuners"
    rationale = "All ranks make the same trials, by one seed and by averaged metrics; each trial trains on all of them."
    examples = (
        Example(
            program(
                """
                import keras_tuner
                import tensorflow as tf


                def build(choices):
                    model = tf.keras.Sequential([tf.keras.layers.Dense(choices.Int('width', 8, 64))])
                    model.compile('adam', loss='mse')
                    return model


                tuner = keras_tuner.RandomSearch(build, objective='val_loss')
                tuner.search(x, y, validation_split=0.2)
                """
            ),
            program(
                """
                import keras_tuner
                import tensorflow as tf


                def build(choices):
                    model = tf.keras.Sequential([tf.keras.layers.Dense(choices.Int('width', 8, 64))])
                    model.compile('adam', loss='mse')
                    return model


                tuner = jhvd.distributed_tuner(keras_tuner.RandomSearch)(build, objective='val_loss')
                tuner.search(x, y, validation_split=0.2)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for call in context.values.index.calls:
            if tf_api.makes_tuner(context.values.qualified(call.func)):
                opening = f"{context.runtime('distributed_tuner')}("
                edits = context.wrap(call.func, opening, ")", Layer.FUNCTION)
                yield Fix(call, edits, needs=(HOROVOD, "distributed_tuner"))


class Estimators(Rule):
    """Let estimators of scikit-learn's that fit Keras models do so on all ranks, with searches and cross-validation around them.

    The function that builds the models is converted like any other. `jhvd.distributed_estimator` lets the class fit on all
    ranks: every model that it builds trains on each rank's rows, from equal weights, with an optimizer that averages; what
    the class itself makes an optimizer of, a name, gets the rate of all ranks. All ranks must be given the same data and choose
    the same parameters, by agreed random numbers (HVD103); where they differ, all stop and say so. scikit-learn's own workers,
    `n_jobs`, would each fit alone, in processes that are no ranks.
    """

    code = "HVD408"
    name = "estimators for scikit-learn"
    rationale = (
        "Divided by agreement: each model that this builds is fitted on all ranks, each on its rows; scores and choices are "
        "then the same on all of them."
    )
    examples = (
        Example(
            program(
                """
                import scikeras.wrappers
                import tensorflow as tf
                from sklearn.model_selection import GridSearchCV


                def build(width=8):
                    model = tf.keras.Sequential([tf.keras.layers.Dense(width)])
                    model.compile('adam', loss='mse')
                    return model


                regressor = scikeras.wrappers.KerasRegressor(build, width=8)
                search = GridSearchCV(regressor, {'width': [8, 16]}, n_jobs=-1, verbose=2)
                search.fit(x, y)
                """
            ),
            program(
                """
                import scikeras.wrappers
                import tensorflow as tf
                from sklearn.model_selection import GridSearchCV


                def build(width=8):
                    model = tf.keras.Sequential([tf.keras.layers.Dense(width)])
                    model.compile('adam', loss='mse')
                    return model


                regressor = jhvd.distributed_estimator(scikeras.wrappers.KerasRegressor)(build, width=8)
                search = GridSearchCV(regressor, {'width': [8, 16]}, n_jobs=1, verbose=2 if hvd.rank() == 0 else 0)
                search.fit(x, y)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        calls = context.values.index.calls
        bases = (arg.value for owner in context.values.index.classes for arg in owner.bases)
        for made in (*bases, *(call.func for call in calls)):
            if tf_api.makes_estimator(context.values.qualified(made)):
                opening = f"{context.runtime('distributed_estimator')}("
                edits = context.wrap(made, opening, f"{context.optimizer_options})", Layer.FUNCTION)
                yield Fix(made, edits, needs=(HOROVOD, "distributed_estimator"))
        keras = context.training.keras
        for call in calls if keras.estimators else ():
            around = context.values.qualified(call.func).startswith("sklearn.")
            if not (around and keras.holds(arg.value for arg in call.args)):
                continue
            workers, verbose = argument(call, "n_jobs"), argument(call, "verbose")
            if workers is not None and context.module.text(workers.value) not in ("1", "None"):
                yield Fix(
                    workers.value,
                    (context.replace(workers.value, "1"),),
                    "Workers of scikit-learn's are no ranks: what they fit, they would fit alone.",
                )
            if verbose is not None:
                yield from silenced(context, verbose.value)


class RankZeroCallbacks(Rule):
    """Keep callbacks that write files, or draw, on rank 0 alone.

    `ModelCheckpoint`, `TensorBoard`, `CSVLogger` of several ranks write into one
    another's files. None of them changes the training, so the other ranks do without, and without those of a class of the
    program's own that inherits one and says nothing of what `fit` calls. What another such class does in `fit` all ranks may need: it is told, as is a
    callback that no condition can be placed at.
    """

    code = "HVD402"
    name = "callbacks that write"
    rationale = "Several ranks would write the same files at the same time; one is enough."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=0, callbacks=[tf.keras.callbacks.TensorBoard('logs')])
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=0, callbacks=[*([tf.keras.callbacks.TensorBoard('logs')] if hvd.rank() == 0 else [])])
                """
            ),
        ),
        Example(
            program(
                """
                import tensorflow as tf


                class Table(tf.keras.callbacks.CSVLogger):
                    def __init__(self, name):
                        super().__init__(f'{name}.csv')


                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                callbacks = []
                callbacks.insert(0, tf.keras.callbacks.TensorBoard('logs'))
                callbacks += [Table('losses')]
                model.fit(x, y, verbose=0, callbacks=callbacks)
                """
            ),
            program(
                """
                import tensorflow as tf


                class Table(tf.keras.callbacks.CSVLogger):
                    def __init__(self, name):
                        super().__init__(f'{name}.csv')


                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                callbacks = []
                if hvd.rank() == 0:
                    callbacks.insert(0, tf.keras.callbacks.TensorBoard('logs'))
                callbacks += [*([Table('losses')] if hvd.rank() == 0 else [])]
                model.fit(x, y, verbose=0, callbacks=callbacks)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        kept: list[cst.BaseExpression] = []  # by rank 0 alone
        for call in context.values.index.calls:
            added = call.args[-1].value if method(call) in ADDING and call.args else None
            statement = context.statement_of(call)
            if added is None or not isinstance(statement, cst.Expr) or statement.value is not call:
                continue
            if self._writes(context, added):
                kept.append(added)
                yield self._under_condition(context, statement, call)
        for element in self._elements(context):
            if self._writes(context, element.value):
                kept.append(element.value)
                yield Fix(
                    element.value,
                    context.wrap(
                        element.value, "*([", f"] if {context.backend.is_rank_zero} else [])"
                    ),
                )
        yield from self._on_all_ranks(context, kept)

    def _under_condition(self, context: Context, statement: cst.Expr, call: cst.Call) -> Fix:
        """A call whose line rank 0 alone runs, or which it alone makes where others stand on that line."""
        line = context.module.parent(statement)
        if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
            return context.on_rank_zero(line, line)
        choice = f" if {context.backend.is_rank_zero} else None"
        return Fix(call, (context.behind(call, choice, Layer.CHOICE),))

    def _elements(self, context: Context) -> Iterator[cst.Element]:
        """The elements of the lists that a `fit` is given, and of what is added to such a list; never of one that is unpacked."""
        found: dict[cst.CSTNode, None] = {}
        for call in context.training.keras.fits:
            arg = fit_argument(call, "callbacks")
            if arg is None:
                continue
            behind = context.values.flow.backward_slice(arg.value)
            parts = [arg.value, *(node for node in behind if self._is_added(context, node))]
            values = (value for part in parts for value in context.values.of(part))
            found |= dict.fromkeys(value.node for value in values if value.node is not None)
        for listed in found:
            if isinstance(listed, cst.List) or (isinstance(listed, cst.Tuple) and listed.lpar):
                yield from (each for each in listed.elements if isinstance(each, cst.Element))

    def _is_added(self, context: Context, node: cst.CSTNode) -> bool:
        """What is added in `cbs + […]`, `cbs += […]`, `[*cbs, *[…]]`, `cbs.extend([…])`, `list(…)`."""
        match context.module.parent(node):
            case cst.BinaryOperation() | cst.AugAssign() | cst.StarredElement():
                return True
            case cst.Arg() as arg:
                call = context.module.parent(arg)
                return isinstance(call, cst.Call) and (
                    method(call) == "extend"
                    or context.values.qualified(call.func) == "builtins.list"
                )
        return False

    def _on_all_ranks(self, context: Context, kept: list[cst.BaseExpression]) -> Iterator[Problem]:
        """What writes on every rank, since no condition can be placed, or its class does more than write."""
        fits = context.training.keras.shown_fits
        given_alone = (
            arg.value for arg in (fit_argument(call, "callbacks") for call in fits) if arg
        )
        under_condition = [
            *kept,
            *(each for each in given_alone if context.values.kinds(each) == {Role.CALLBACK}),
        ]
        behind = context.values.flow.backward_slice
        placed = {node for each in under_condition for node in behind(each)}
        given = {value for call in fits for value in callback_values(context, call)}
        hidden = bool(context.training.keras.hidden_fits)  # there it is seen when the program runs
        for made in context.values.index.calls:
            values = frozenset(v for v in context.values.of(made) if is_made(context, v, made))
            if (
                any(written_by(context, value) for value in values)
                and not isinstance(context.module.parent(made), cst.Expr)  # of no use
                and made not in placed
                and not (hidden and values.isdisjoint(given))
            ):
                yield Problem(
                    made,
                    f"{context.module.text(made.func)} writes the same files on every rank here",
                    f"where it decides nothing of the training, add it to the callbacks under: if {context.backend.is_rank_zero}",
                    "warning",
                )

    def _writes(self, context: Context, expression: cst.BaseExpression) -> bool:
        """Whether an expression gives nothing but callbacks that write, and do nothing else."""
        values = context.values.of(expression)
        return bool(values) and all(
            written_by(context, value) and not does_more(context, value) for value in values
        )


def is_made(context: Context, value: Value, call: cst.Call) -> bool:
    """Whether it is this call that makes a value, or of which class it is, and not a function that it calls."""
    return value.node is call or (
        isinstance(value.node, cst.ClassDef) and call in context.values.calls.sites(value.node)
    )


def written_by(context: Context, value: Value) -> bool:
    """Whether a value is a callback of Keras' that writes, or of a class of the program's own that inherits one."""
    names = {value.name}
    if isinstance(value.node, cst.ClassDef):
        names = context.values.classes.library_bases(value.node)
    return any(tf_api.callback(name) in tf_api.RANK_ZERO_CALLBACKS for name in names)


def does_more(context: Context, value: Value) -> bool:
    """Whether the program's own class of a callback is called by `fit`: what it does there, all ranks may need."""
    if not isinstance(value.node, cst.ClassDef):
        return False
    return any(
        isinstance(member, cst.FunctionDef) and member.name.value.startswith(("on_", "set_"))
        for owner in context.values.classes.lineage(value.node)
        for member in owner.body.body
    )


class Verbose(Rule):
    """Show the progress of `fit`, `evaluate` and `predict`, and what callbacks tell, on rank 0 alone.

    What the program asks for is kept there: `verbose=2` stays 2, `verbose=0` stays silent.
    """

    code = "HVD403"
    name = "progress on rank 0"
    rationale = "N ranks would draw N progress bars over one another."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                stop = tf.keras.callbacks.EarlyStopping(verbose=1)
                model.fit(x, y, verbose=2)
                model.evaluate(x, y)
                model.predict(x, verbose=0)
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                stop = tf.keras.callbacks.EarlyStopping(verbose=1 if hvd.rank() == 0 else 0)
                model.fit(x, y, verbose=2 if hvd.rank() == 0 else 0)
                model.evaluate(x, y, verbose=1 if hvd.rank() == 0 else 0)
                model.predict(x, verbose=0)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for call in context.values.index.calls:
            name = method(call)
            if name not in VERBOSE_POSITIONS or not isinstance(call.func, cst.Attribute):
                continue
            if call not in context.training.keras.fits and not context.training.keras.is_model(
                call.func.value
            ):
                continue
            arg = argument(call, "verbose", VERBOSE_POSITIONS[name])
            choice = f" if {context.backend.is_rank_zero} else 0"
            if arg is None:
                if not has_star(call):
                    yield Fix(
                        call, (context.add_keyword(call, f"verbose=1{choice}", Layer.VERBOSE),)
                    )
            else:
                yield from silenced(context, arg.value)
        for call in context.values.index.calls:
            name = tf_api.callback(context.values.qualified(call.func)) or ""
            arg = argument(call, "verbose", TELLING.get(name)) if name in TELLING else None
            if arg is not None:
                yield from silenced(context, arg.value)


def silenced(context: Context, verbose: cst.BaseExpression) -> Iterator[Fix]:
    """What is asked for, on rank 0; silence on the others."""
    if isinstance(verbose, (cst.Integer, cst.Name)) and verbose.value in ("0", "False"):
        return
    choice = f" if {context.backend.is_rank_zero} else 0"
    simple = (cst.Name, cst.Integer, cst.Attribute, cst.SimpleString, cst.Call)
    if isinstance(verbose, simple) or verbose.lpar:
        yield Fix(verbose, (context.behind(verbose, choice, Layer.CHOICE),))
    else:
        yield Fix(verbose, context.wrap(verbose, "(", f"){choice}"))


RULES: tuple[type[Rule], ...] = (
    FitCallbacks,
    HiddenArguments,
    Tuners,
    Estimators,
    RankZeroCallbacks,
    Verbose,
)
