"""HVD5: each rank trains on a share of the data of its own, and no rank runs out before the others."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import libcst as cst

from ...analysis.index import Binding
from ...analysis.library import Kind, Value
from ...analysis.syntax import argument, method, names_in, nodes_in
from ...analysis.uniformity import stored
from ...frameworks.tensorflow import tf_api
from ...frameworks.tensorflow.agreement import ASSIGNING
from ...frameworks.tensorflow.batch_sizes import is_number_of_rows
from ...frameworks.tensorflow.keras_loops import fit_argument
from ...frameworks.tensorflow.roles import Role
from ...frameworks.tensorflow.rowwise import Label
from ...source.edits import Edit, Layer
from ..base import Example, Finding, Fix, Problem, program
from .context import HOROVOD, TENSORFLOW, Context, Rule
from .questions import divides, is_of_environment, is_seen_by_rank, taken_whole

ENDLESS = (
    "No rank may run out of data before the others; how many steps an epoch has is said, so that a pass need not end with it, "
    "nor its batches be counted."
)
EQUAL_STEPS = (
    "No rank may have a batch more than the others: it would wait for their gradients forever."
)


#: Why, where the ranks agree on an order.
AGREED = (
    "Divided by agreement: all ranks shuffle in one order here, and each takes every N-th of what comes, "
    "so that each example is seen once an epoch."
)
#: Why, where a model answers.
ANSWERED = "Data are made of this, and must be one thing on all ranks: the answer is rank 0's."
ADVICE = "feed the training from a tf.data.Dataset that is made in this file"
#: What to do where a step is sent its batches.
CALLED = "make the step a function that is called on each batch, as `step(batch)`, and no generator that is sent them"


STATEFUL = program(
    """
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.GRU(8, stateful=True), tf.keras.layers.Dense(1)])
    model.compile('sgd', loss='mse')
    model.fit(sequences, epochs=10)
    """
)


class Share(Rule):
    """Give each rank its own share of a `tf.data` pipeline.

    Every N-th element is taken at the source, before the first shuffle: ranks shuffle
    each in an order of its own, and only before that do they agree on which example is
    which. So each example is seen by one rank, once an epoch. Where the shares give
    some ranks one batch more than others, that batch, of a single example, is left out:
    the rest would leave it waiting for their gradients forever. Where TensorFlow does not know how many batches there are, they
    are counted before training, once, and a pass that is shorter than the first goes on with the next one's: so it is as long on
    all ranks, whatever a filter draws. Data of which each `fit` says `steps_per_epoch` begin anew instead, and nothing is counted. A dataset to which a layer is
    adapted stays whole up to that place, and one of which windows or sequences are made, until these are made:
    of every N-th character, others would come. One that `take` and `skip` split is shuffled in one order on all ranks,
    split as a whole, and divided behind that: else they would train on one another's test data. Where one function trains and tests,
    what it is passed with `training=False`, or without an optimizer, stays whole; where that cannot be seen, it is told.

    A source that shuffles by itself (`image_dataset_from_directory` and its kin, `make_csv_dataset`,
    `list_files`) is divided by agreement: all ranks shuffle with one seed, and each takes every N-th
    of what comes. Batches that are left over are divided by rows.
    """

    code = "HVD502"
    name = "share of a dataset"
    rationale = "Divided exactly: each rank takes every N-th example, before anything shuffles, so that each example is seen once an epoch."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1000).batch(32), verbose=0)
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(tf.data.Dataset.from_tensor_slices((x, y)).shard(hvd.size(), hvd.rank()).shuffle(1000).batch(32).apply(jhvd.equal_steps), verbose=0)
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
                model.fit(train, verbose=0)
                """
            ),
            program(
                """
                import tensorflow as tf

                train = tf.keras.utils.image_dataset_from_directory('photos').apply(jhvd.shard_batches)
                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(train, verbose=0)
                """
            ),
            "A source that shuffles by itself does so in one order on all ranks (HVD103), and each takes every N-th batch.",
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for data in context.data.unclear_passes:
            yield Problem(
                data,
                "some calls of this function may train and others not, which is not seen: what all of them pass is divided, so"
                " that each rank sees its share of test data too",
                "say which train by a constant, as in run(test, training=False), or write a function for the test",
                "warning",
            )
        if context.sharding.divides_at_use:
            return
        counted = _counted_fits(context)
        fixes = {edit: Fix(d, (edit,), ENDLESS) for d, edit in counted.repeats.items()}
        for pipeline in context.data.pipelines:
            point = context.sharding.shard_point(pipeline)
            shared = context.module.span(point).end
            agreed = bool(context.pipelines.shuffles_before(pipeline, point))
            why = AGREED if agreed else ""
            if context.pipelines.gives_batches(pipeline, point):
                text = f".apply({context.runtime('shard_batches')})"
                share = context.insert(shared, text, Layer.SHARD)
                fixes[share] = Fix(point, (share,), why, (HOROVOD, "shard_batches"))
                if pipeline.last_batching(point) is point:
                    continue
            else:
                text = f".shard({context.backend.size}, {context.backend.rank})"
                share = context.insert(shared, text, Layer.SHARD)
                fixes[share] = Fix(point, (share,), why)
            last = pipeline.last_batching(point)
            if not pipeline.is_infinite and last not in counted.ends:
                batched = context.module.span(last).end
                text = f".apply({context.runtime('equal_steps')})"
                equal = context.insert(batched, text, Layer.EQUAL_STEPS)
                fixes[equal] = Fix(last, (equal,), EQUAL_STEPS, (HOROVOD, "equal_steps"))
        yield from fixes.values()


@dataclass(frozen=True)
class _Counted:
    """The `fit`s that say how many steps they take, which no rank may run out of before the others.

    Attributes:
        repeats: what makes their data begin anew. ends: the ends of those data, at which nothing has to be counted.
    """

    repeats: dict[cst.BaseExpression, Edit]
    ends: frozenset[cst.BaseExpression]


def _counted_fits(context: Context) -> _Counted:
    def ends(data: cst.BaseExpression) -> frozenset[cst.BaseExpression]:
        pipelines = (p for p in context.pipelines.of(data) if not p.is_infinite)
        return frozenset(p.last_batching(context.sharding.shard_point(p)) for p in pipelines)

    fits = context.data.fit_datasets
    counted = {data: ends(data) for fit, data in fits if _says_steps(context, fit)}
    counted = {data: behind for data, behind in counted.items() if behind}
    used = [data for iterables in context.data.loop_data.values() for data in iterables]
    used += [data for _, data in fits if data not in counted]
    otherwise = frozenset(end for data in used for end in ends(data))
    simple = all(isinstance(d, (cst.Name, cst.Attribute, cst.Call)) for d in counted)
    every = frozenset(end for behind in counted.values() for end in behind)
    if every & otherwise or not simple:
        return _Counted({}, frozenset())
    place = {data: context.module.span(data).end for data in counted}
    repeats = {d: context.insert(at, ".repeat()", Layer.EQUAL_STEPS) for d, at in place.items()}
    return _Counted(repeats, every)


def _says_steps(context: Context, fit: cst.Call) -> bool:
    """Whether a `fit` is passed a number of steps, and surely not None."""
    given = fit_argument(fit, "steps_per_epoch")
    return given is not None and not context.values.kinds(given.value) & {Kind.NONE, Kind.UNKNOWN}


class StepCounts(Rule):
    """Divide the counts of `take` and `skip`, and `steps_per_epoch`, by the number of ranks.

    Likewise the turns of a loop that draws a batch with `next`, over a `range`, one that is zipped with the data too, or until a counter
    that goes up by one (`while step < steps`), and only counts of what one rank sees: behind the
    place where the data are divided, and the number at which a loop is left, `if step == steps: break`. The `take(1)` that draws a picture stays:
    divided by two ranks it would be `take(0)`.
    """

    code = "HVD501"
    name = "counts of steps"
    rationale = "N ranks go on side by side, so each takes an N-th of the steps."
    partial = True
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                dataset = tf.data.Dataset.from_tensor_slices(data).repeat().shuffle(1000).batch(32)
                for picture, _ in dataset.take(1):
                    draw(picture)

                for x, y in dataset.take(5000):
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y - model(x)))
                    grads = tape.gradient(loss, model.trainable_variables)
                    opt.apply_gradients(zip(grads, model.trainable_variables))
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                dataset = tf.data.Dataset.from_tensor_slices(data).repeat().shuffle(1000).batch(32)
                for picture, _ in dataset.take(1):
                    draw(picture)

                for x, y in dataset.take(5000 // hvd.size() or 5000):
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y - model(x)))
                    grads = tape.gradient(loss, model.trainable_variables)
                    opt.apply_gradients(zip(grads, model.trainable_variables))
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        counts: dict[cst.BaseExpression, None] = {}
        pipelines = [] if context.sharding.divides_at_use else context.data.pipelines
        for pipeline in pipelines:
            for step in pipeline.after(context.sharding.shard_point(pipeline)):
                if method(step) in ("take", "skip"):
                    arg = argument(step, "count", 0)
                    if arg is not None and not isinstance(arg.value, cst.UnaryOperation):
                        counts[arg.value] = None
        for call in context.training.keras.shown_fits:
            arg = fit_argument(call, "steps_per_epoch")
            if arg is not None and not (
                isinstance(arg.value, cst.Name) and arg.value.value == "None"
            ):
                counts[arg.value] = None
        for count in counts:
            if not context.sharding.counts_shard(count):
                yield Fix(count, context.over_size(count))
        for loop in context.step_loops.loops:
            if isinstance(loop, cst.For):
                yield from self._in_range(context, loop.iter)
                continue
            limit = context.step_loops.counter_limit(loop)
            if limit is not None and not context.sharding.counts_shard(limit):
                yield Fix(limit, context.over_size(limit, compared=True))
        for zipped in context.step_loops.zipped_ranges:
            yield from self._in_range(context, zipped)
        for limit in context.stops.limits:
            whole = isinstance(limit, cst.Integer) and limit.value in ("0", "1")
            if not whole and not context.sharding.counts_shard(limit):
                yield Fix(limit, context.over_size(limit, compared=True))
        for test, alone in context.stops.unclear.items():
            yield Problem(
                test,
                "training stops here by a count of steps, and N ranks should stop at an N-th of it, but the number is not seen here",
                "count from 0 and compare with a number, `if step == steps: break`, or take(steps) of the data",
                "error" if alone else "warning",
            )
        stops = context.stops.limits or context.stops.unclear
        for data in () if stops else context.step_loops.unbounded_data:
            yield Problem(
                data,
                "these data never end, and where training stops is not a count of steps that could be divided here: N ranks take N times the examples",
                "count the steps with range(steps), `while step < steps` or take(steps), or divide where it stops by the number of ranks",
                "warning",
            )

    def _in_range(self, context: Context, turns: cst.BaseExpression) -> Iterator[Finding]:
        """The turns of a loop that draws its batches with `next`."""
        counts = context.values.flow.unwrap_iteration(turns)
        while isinstance(counts, cst.Name):  # `bar = tqdm(range(steps))`
            match context.values.flow.predecessors(counts):
                case [(bound, ())]:
                    counts = context.values.flow.unwrap_iteration(bound)
                case _:
                    break
        if not isinstance(counts, cst.Call):
            yield Problem(
                counts,
                "the turns of this loop are steps, and N ranks should take an N-th of them, but their number is not seen here",
                "count the steps with range(steps)",
                "warning",
            )
            return
        while not context.values.qualified(counts.func).endswith("range") and counts.args:
            inner = counts.args[0].value  # of `tqdm(range(steps))`
            if not isinstance(inner, cst.Call):
                break
            counts = inner
        match [arg.value for arg in counts.args if arg.keyword is None]:
            case [stop] if passed := context.data.passed_in_training(stop):
                for each in passed:
                    if not context.sharding.counts_shard(each):
                        yield Fix(each, context.over_size(each))
            case [stop] if not context.sharding.counts_shard(stop):
                if context.values.qualified(counts.func) == "tensorflow.range":
                    # Of a tensor, `a or b` cannot be asked in a compiled function.
                    edits = context.at_least_one(stop, f"{context.tf}.maximum")
                    yield Fix(stop, edits, needs=(HOROVOD, TENSORFLOW))
                else:
                    yield Fix(stop, context.over_size(stop))
            case [
                cst.Integer(value=start),
                cst.BinaryOperation(
                    left=cst.Name() | cst.Attribute() | cst.Call() as steps,
                    operator=cst.Add(),
                    right=cst.Integer(value=more),
                ) as stop,
            ] if start == more and not context.sharding.counts_shard(stop):
                yield Fix(stop, context.wrap(steps, "max(1, ", f" // {context.backend.size})"))
            case [cst.Integer(value=start), stop] if not context.sharding.counts_shard(stop):
                before, after = f"{start} + max(1, (", f" - {start}) // {context.backend.size})"
                simple = isinstance(stop, (cst.Name, cst.Integer, cst.Attribute, cst.Call))
                plain = simple or (
                    isinstance(stop, cst.BinaryOperation)
                    and isinstance(stop.operator, (cst.Add, cst.Subtract, cst.Multiply))
                )
                yield Fix(
                    stop,
                    context.wrap(stop, before, after)
                    if plain
                    else context.wrap(stop, f"{before}(", f"){after}"),
                )
            case [_] | [cst.Integer(), _]:
                return
            case _:
                yield Problem(
                    counts,
                    "the turns of this loop are steps, and N ranks should take an N-th of them, but its range has a start or step that cannot be divided here",
                    "count the steps with range(steps)",
                    "warning",
                )


class ArrayShare(Rule):
    """Give each rank its own rows of the arrays passed to `fit`."""

    code = "HVD503"
    name = "share of arrays"
    rationale = "Divided exactly: each rank takes every N-th row, so that each example is seen once an epoch."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, batch_size=64, verbose=0)
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(jhvd.shard_rows(x, 64), jhvd.shard_rows(y, 64), batch_size=64, verbose=0)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for fit in context.data.fit_arrays:
            size = f", {context.module.text(fit.batch_size)}" if fit.batch_size is not None else ""
            for array in fit.arrays:
                rows = context.wrap(array, f"{context.runtime('shard_rows')}(", f"{size})")
                yield Fix(array, rows, needs=(HOROVOD, "shard_rows"))


class BatchShare(Rule):
    """Give each rank its own batches of a generator, a `Sequence`, or an object of the program's own class, which it goes through.

    Every N-th batch is a rank's own. For that all ranks must make the same batches in
    the same order, so they draw the same random numbers (HVD103). A generator still makes every
    batch on every rank; a `Sequence` makes only the rank's own. Batches that are left over at
    the end, when all ranks have had as many, are divided by rows.
    """

    code = "HVD505"
    name = "share of batches"
    rationale = (
        "Divided by agreement: all ranks make the batches in one order, and each takes every N-th."
    )
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                def batches():
                    while True:
                        for start in range(0, 1000, 20):
                            yield x[start:start + 20], y[start:start + 20]

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(batches(), steps_per_epoch=50, verbose=0)
                """
            ),
            program(
                """
                import tensorflow as tf

                def batches():
                    while True:
                        for start in range(0, 1000, 20):
                            yield x[start:start + 20], y[start:start + 20]

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(jhvd.shard_batches(batches()), steps_per_epoch=50, verbose=0)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for batches in context.data.batch_sources:
            share = "shard_sequence" if batches.is_sequence else "shard_batches"
            shuffles = batches.is_sequence and context.randomness.draws
            closing = (
                ", shuffles=True)" if shuffles else ", beside=True)" if batches.is_beside else ")"
            )
            edits = context.wrap(batches.expression, f"{context.runtime(share)}(", closing)
            yield Fix(batches.expression, edits, needs=(HOROVOD, share))


class UnseenData(Rule):
    """Training whose data cannot be divided, because nothing tells where they come from.

    Without shares every rank takes the same steps on the same examples, at a learning
    rate meant for N times as many. A step that cannot be divided, a single picture's or that of all the data at once, stays whole on every
    rank, at one process's rate, which is told: averaged over ranks that do the same, it is one process's step. Where its rate
    may be another's too, or what it draws from is not understood, the program is refused.
    """

    code = "HVD504"
    name = "data that cannot be divided"
    rationale = "Ranks that all see the same data do the same work N times, at N times the rate."
    partial = True
    examples = (
        Example(
            program(
                """
                import tensorflow as tf
                from data import loader

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')

                for step in range(100):
                    model.train_on_batch(*loader.get_batch(32))
                """
            ),
            None,
            "Every rank might be given the same batches, at N times the rate.",
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        whole, told = taken_whole(context), set[cst.CSTNode | None]()
        alone = "" if divides(context) else ", and nothing else of this program is divided"
        unseen = sorted(context.data.unseen_loops.items(), key=lambda found: found[0] in whole)
        for call, data in unseen:  # what is refused first: what is told of a loop is told once
            function = context.module.function_of(call)
            if context.options.open_ended and function and not context.values.calls.sites(function):
                continue  # a later cell calls it, with data that are seen there
            around = context.module.enclosing(call, (cst.FunctionDef, cst.For, cst.While))
            by_hand = call in context.step_loops.cut or call in context.step_loops.drawn
            if data is not None or by_hand or (around is not None and around in told):
                continue
            told.add(around)
            if call in whole:
                updates = {
                    update.call
                    for update, sites in context.data.step_sites
                    if any(site.call is call for site in sites)
                }
                if (
                    not updates <= told and context.rowwise.shares(call) is None
                ):  # else HVD510 divides it
                    callers = context.values.calls.sites(function) if function else ()
                    ways = (_as_range(context, step) for step in (call, *callers))
                    if _goes_by_own_draws(context, updates):
                        what = (
                            f"every rank takes this step with random numbers of its own, and the gradients are averaged{alone}:"
                            " N times as much is drawn for a step, at the rate of one process"
                        )
                        way = (
                            f"to take no longer than needed, draw an N-th for a step on each rank, `n // {context.backend.size}` in the"
                            f" converted program; to learn faster of more, multiply the rate by {context.backend.size}"
                        )
                    else:
                        what = f"every rank takes this step on all its data, as one process would{alone}: that is right, and no faster"
                        way = f"to divide it, {next(filter(None, ways), ADVICE)}"
                    yield Problem(call, what, way, "warning")
                told |= updates
            else:
                iterables = context.data.loop_data[call]
                yield Problem(
                    iterables[0] if iterables else call,
                    "the data of this training loop cannot be divided among the ranks",
                    CALLED if _is_sent(context, call) else ADVICE,
                )
        for fit in context.data.fit_arrays:
            rows = (n for array in fit.arrays for n in context.values.flow.backward_slice(array))
            loops = (a for a in context.module.ancestors(fit.call) if isinstance(a, cst.While))
            if any(is_of_environment(context, loop.test) for loop in loops):
                continue  # HVD303 says so
            if any(map(context.step_loops.is_environment_s, rows)):
                yield Problem(
                    fit.call,
                    "this fit learns from what an environment has answered to this rank, of which others have no share",
                    "take the steps with a tf.GradientTape, as many on every rank: then each rank plays its own episodes",
                )
        for call in context.training.keras.shown_fits:
            if fit_argument(call, "x") is None:
                yield Problem(
                    call,
                    "it cannot be seen what data this fit is given, so they cannot be divided",
                    ADVICE,
                )


def _is_sent(context: Context, step: cst.CSTNode) -> bool:
    """Whether a step stands in a generator that takes what it is sent: `batch = yield loss`."""
    function = context.module.function_of(step)
    return function is not None and any(
        isinstance(n, cst.Yield) and not isinstance(context.module.parent(n), cst.Expr)
        for n in nodes_in(function)
    )


def _goes_by_own_draws(context: Context, updates: Collection[cst.CSTNode]) -> bool:
    """Whether what a step learns is drawn by each rank in its own way: actions, and so episodes."""
    alike = {*context.alike.draws}
    own = {c for c, made in context.randomness.of_tensorflow if made not in alike}
    applied = (u.applied[0] for u in context.training.updates if u.call in updates and u.applied)
    behind = {n for each in applied for n in context.values.flow.backward_slice(each)}
    return any(not context.alike.is_first_weight(call) for call in own & behind)


def _as_range(context: Context, step: cst.CSTNode) -> str:
    """How a `while` around a step that cuts batches by a number it counts itself is written so that its turns can be divided; else ''."""
    match context.module.enclosing(step, (cst.FunctionDef, cst.For, cst.While)):
        case cst.While(
            test=cst.Comparison(
                left=cst.Name(value=number),
                comparisons=[cst.ComparisonTarget(operator=cst.LessThan(), comparator=end)],
            ),
            body=cst.IndentedBlock(
                body=[
                    *lines,
                    cst.SimpleStatementLine(
                        body=[
                            cst.AugAssign(
                                target=cst.Name(value=counted), operator=cst.AddAssign(), value=by
                            ) as last
                        ]
                    ),
                ]
            ),
        ) if counted == number:
            text = context.module.text
            subscripts = (
                n for line in lines for n in nodes_in(line) if isinstance(n, cst.Subscript)
            )
            if any(name.value == number for each in subscripts for name in names_in(each)):
                line = f"for {number} in range({number}, {text(end)}, {text(by)}):"
                return f"write this loop as `{line}`, without `{text(last)}`"
    return ""


class RowShare(Rule):
    """Give each rank its own rows of arrays that a step takes whole.

    Each step of one process sees all examples, so N ranks take as many steps, at the same rate, and each works out the gradient of its own rows. Their
    mean is the gradient of all rows where it is seen that the loss is a mean over the rows, and that each row's part of it goes by that row and by weights
    alone: a linear model, or those of Keras' own layers that are known to answer each row by itself, a loss that is known. Other steps on all data stay whole (HVD504),
    and so do labels that do not stand beside the predictions row by row, as those of shape (n,) beside predictions of (n, 1).
    """

    code = "HVD510"
    name = "share of rows at each step"
    rationale = "Divided exactly: each step sees all rows, each rank its own, and the mean of the ranks' gradients is that of all rows."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)

                for epoch in range(100):
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y - model(x)))
                    grads = tape.gradient(loss, model.trainable_variables)
                    opt.apply_gradients(zip(grads, model.trainable_variables))
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)

                for epoch in range(100):
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(jhvd.own_rows(y, x) - model(jhvd.own_rows(x))))
                    grads = tape.gradient(loss, model.trainable_variables)
                    opt.apply_gradients(zip(grads, model.trainable_variables))
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        told, whole = set[cst.CSTNode](), taken_whole(context)
        for call in context.data.unseen_loops:
            shares = context.rowwise.shares(call) if call in whole else None
            if shares is None:
                continue
            rows = next(iter(shares.inputs))
            for each in (*shares.inputs, *shares.labels):
                if each in told:
                    continue
                told.add(each)
                label = shares.labels.get(each)
                closing = (
                    ")"
                    if label is None or each in shares.inputs
                    else f", {rows.value}{_beside(label)})"
                )
                edits = context.wrap(each, f"{context.runtime('own_rows')}(", closing)
                yield Fix(each, edits, needs=(HOROVOD, "own_rows"))


def _beside(label: Label) -> str:
    """How labels stand beside what a model answers, as `own_rows` is told."""
    dimensions = "" if label.dimensions == 0 else f", dimensions={label.dimensions}"
    return dimensions + (", is_squeezed=True" if label.is_squeezed else "")


class OwnChoice(Rule):
    """Data that are chosen, or weighted, by what each rank has seen of its own batches.

    Examples that are drawn by their last losses, a set that grows by what a step has found: each rank knows of its own share alone, and would divide
    data that are others on each rank. Where a loss is weighted by such numbers, that is told. What a model that is trained answers to all the data, as by
    `model.predict`, is rank 0's answer: before its first update a model is another on each rank, and so are the moving averages of batch normalisation.
    """

    code = "HVD509"
    name = "data that ranks choose by themselves"
    rationale = "Data that are divided must be one thing on all ranks, and losses of a rank's own batches are not."
    examples = (
        Example(
            program(
                """
                import numpy as np
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                last = np.ones(len(x))

                for epoch in range(10):
                    order = np.random.choice(len(x), len(x), p=last / last.sum())
                    for start in range(0, len(x), 32):
                        rows = order[start:start + 32]
                        with tf.GradientTape() as tape:
                            losses = tf.square(y[rows] - model(x[rows]))
                            loss = tf.reduce_mean(losses)
                        grads = tape.gradient(loss, model.trainable_variables)
                        opt.apply_gradients(zip(grads, model.trainable_variables))
                        last[rows] = losses.numpy()[:, 0]
                """
            ),
            None,
            "Each rank would know the losses of its own examples alone.",
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for call in context.untrained.asked_for_data:
            asked = f"{context.backend.broadcast_function}("
            edits = context.wrap(call, asked, ", root_rank=0)", Layer.FUNCTION)
            yield Fix(call, edits, ANSWERED)
        for data in context.alike.parted:
            if is_seen_by_rank(context, data, context.untrained.asked_for_data):
                yield Problem(
                    data,
                    "these data go by what each rank has seen of its own batches, so ranks would divide data that are not the same",
                    "compute what they go by from all the data behind the steps, as by model.predict",
                )
                return
        for gradient in context.training.training_gradients:
            yield from self._in_loss(context, gradient)

    def _is_carried(
        self, context: Context, place: cst.CSTNode, step: cst.CSTNode, gradient: cst.Call
    ) -> bool:
        """Whether what is bound at a place outlives the step: it stands in a loop around that, and not in what the step runs."""
        module, calls = context.module, context.values.calls
        function = module.function_of(place)
        inner = [place]
        for site in calls.sites(function) if function is not None else ():
            inner += calls.leading_to(site)
        if any(step in module.ancestors(each) for each in inner):
            return False
        around = {a for call in calls.leading_to(gradient) for a in module.ancestors(call)}
        return any(
            a in around for a in module.ancestors(place) if isinstance(a, (cst.For, cst.While))
        )

    def _is_left_to_next(
        self, context: Context, place: cst.CSTNode, step: cst.CSTNode, used: cst.CSTNode
    ) -> bool:
        """Whether what a turn binds behind the place where it is used is there in the next turn."""
        module = context.module
        inner, others = (
            {a for a in module.ancestors(n) if isinstance(a, cst.For | cst.While)}
            for n in (place, used)
        )
        loops = inner & others
        return (
            isinstance(step, cst.For | cst.While)
            and step in loops
            and loops <= {step, *module.ancestors(step)}
            and module.span(place).start > module.span(used).start
        )

    def _in_loss(self, context: Context, gradient: cst.Call) -> Iterator[Finding]:
        """What a loss goes by that earlier steps have seen: weights of tasks, a threshold, a margin."""
        target = argument(gradient, "target", 0)
        step = context.module.enclosing(gradient, (cst.FunctionDef, cst.For, cst.While))
        if isinstance(step, cst.For) and gradient in nodes_in(step.iter):  # `for v, g in zip(…)`
            step = context.module.enclosing(step, (cst.FunctionDef, cst.For, cst.While))
        if target is None or step is None:
            return
        kept, answers = self._kept(context), context.untrained.asked_for_data
        function = context.module.function_of(gradient)
        for node in context.values.flow.computed_from(target.value):
            beside = context.module.function_of(node) is function
            if beside and step not in (node, *context.module.ancestors(node)):
                continue  # what another step hands to a function that both call
            named = isinstance(node, (cst.Name, cst.Attribute)) and bool(kept)
            for value in context.values.of(node) if named else ():
                if value in kept:
                    yield Problem(
                        kept[value],
                        "the loss goes by this variable, which each rank changes by its own batches, so that ranks train by losses that differ",
                        "bring together what it is set to, with hvd.allgather, or with hvd.allreduce where it is a mean",
                        "warning",
                    )
                    return
            if not isinstance(node, cst.Name):
                continue
            bound = [
                (each.place, each.value)
                for each in context.values.definitions.reaching(node)
                if isinstance(each, Binding)
                and each.place is not None
                # else a batch
                and not isinstance(context.module.parent(each.value), cst.For | cst.CompFor)
            ]
            for place, made in (*bound, *stored(context.values, node)):
                carried = self._is_carried(context, place, step, gradient) or (
                    beside and self._is_left_to_next(context, place, step, node)
                )
                is_state = place in context.carried.states  # HVD508 says so
                if carried and not is_state and is_seen_by_rank(context, made, answers):
                    yield Problem(
                        place,
                        "the loss goes by this, which each rank makes of its own batches, so that ranks train by losses that differ",
                        "bring together what it is made of, with hvd.allreduce",
                        "warning",
                    )
                    return

    def _kept(self, context: Context) -> dict[Value, cst.Call]:
        """The variables, beside weights, that the training sets by what is not the same on every rank: a queue of keys, a threshold."""
        agreement, found = context.training.agreement, dict[Value, cst.Call]()
        for call in context.values.index.calls:
            if method(call) not in ASSIGNING or not call.args:
                continue
            assert isinstance(call.func, cst.Attribute)
            variable, given = call.func.value, call.args[0].value
            if agreement.is_weight(variable) or agreement.is_equal(given):
                continue
            is_state = call in context.carried.states  # HVD508 says so
            if not is_state and not context.alike.is_before_steps(call):
                of = context.values.of(variable)
                found.update((v, call) for v in of if v.kind is Role.VARIABLE and v.node)
        return found


class KeptState(Rule):
    """Layers that keep their state from one batch to the next, where each rank sees every N-th batch.

    A stateful layer takes each row of a batch for the continuation of the same row in the batch before. Divided data have no such
    order, so what the layer remembers is of other sequences.
    So it is where a loop carries a state by itself, `output, state = cell(x, state)`.
    A layer of the program's own that changes its variables by its inputs, as a codebook of moving averages, does so by each rank's own batches.
    """

    code = "HVD508"
    name = "state between batches"
    rationale = "Each rank sees every N-th batch, so a state that is kept from batch to batch belongs to other sequences."
    examples = (Example(STATEFUL, STATEFUL),)

    def find(self, context: Context) -> Iterator[Finding]:
        for call in context.values.index.calls:
            kept = argument(call, "stateful")
            named = context.values.qualified(call.func).startswith("tensorflow.keras.layers.")
            if named and kept and isinstance(kept.value, cst.Name) and kept.value.value == "True":
                yield Problem(
                    call,
                    "this layer keeps its state from batch to batch, and each rank sees every N-th batch, so the state is of other sequences",
                    "train without stateful=True, or give each rank whole sequences of its own",
                    "warning",
                )
        first = {name: place for place, name in reversed(context.carried.states.items())}
        for place in first.values():
            yield Problem(
                place,
                "this state is carried from batch to batch, and each rank sees every N-th batch, so the state is of other sequences",
                "begin with a new state at each batch, or give each rank whole sequences of its own",
                "warning",
            )
        if context.training.loop != "none":
            yield from self._own(context)

    def _own(self, context: Context) -> Iterator[Finding]:
        """The first place in each layer of the program's own that keeps what its inputs say."""
        told: set[cst.ClassDef] = set()
        for call in context.values.index.calls:
            if method(call) not in ASSIGNING or not call.args:
                continue
            layer = self._layer(context, call)
            if layer is None or layer in told:
                continue
            if any(
                self._is_input(context, n) for n in context.values.flow.backward_slice(call.args[0])
            ):
                told.add(layer)
                yield Problem(
                    call,
                    "this layer keeps what it makes of its inputs, and each rank does so of its own batches: what is trained through it sees others",
                    "where training is True, average what it is set to over the ranks, with hvd.allreduce",
                    "warning",
                )

    def _is_input(self, context: Context, node: cst.CSTNode) -> bool:
        """Whether a node names what a `call` is given."""
        for param in context.values.definitions.of(node) if isinstance(node, cst.Name) else ():
            if not isinstance(param, cst.Param) or param.name.value == "training":
                continue
            function = context.module.owner(param)
            if isinstance(function, cst.FunctionDef) and function.name.value == "call":
                return param is not function.params.params[0]
        return False

    def _layer(self, context: Context, call: cst.Call) -> cst.ClassDef | None:
        """The layer of the program's own in whose `call`, or in what that calls, a call stands."""
        for each in context.values.calls.leading_to(call):
            function = context.module.function_of(each)
            owner = context.module.class_of(function) if function is not None else None
            if owner is None or function is None or function.name.value != "call":
                continue
            if any(
                b.startswith(tf_api.OWNERS) for b in context.values.classes.library_bases(owner)
            ):
                return owner
        return None


class UseShare(Rule):
    """Divide data where training takes them, where it cannot be seen whence they come.

    An attribute, a property, a function of another module: what reaches `fit` or the loop is known when the program runs,
    and `jhvd.shard` divides it by what it is then: batches of a dataset, a generator or a `Sequence`, rows of arrays.
    What shuffles in this program does so in one order on all ranks (HVD103), so that the ranks' batches are not the same;
    data that something else shuffles, each rank draws independently: an N-th of the batches, some of them another rank's too.
    Data to which a layer is adapted after they were shuffled are divided here as well, and so are those that a model is evaluated on
    as it is trained on them, those that a loop beside the training goes through, those of which something is computed (`reduce`,
    `get_single_element`, a look at a batch from which a layer's constants are made), and those of which a function
    makes what is trained on and what is tested with alike: whatever does not train sees everything. Where one dataset of a program is
    divided so, all are.
    """

    code = "HVD506"
    name = "share at the place of use"
    rationale = (
        "Divided by agreement: where they are used, each rank takes every N-th batch, or row, of whatever comes. "
        "What shuffles in this file does so in one order on all ranks; what another file shuffles is drawn independently."
    )
    examples = (
        Example(
            program(
                """
                import tensorflow as tf
                from windows import window

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(window.train, verbose=0)
                """
            ),
            program(
                """
                import tensorflow as tf
                from windows import window

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(jhvd.shard(window.train), verbose=0)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        sizes = {
            given.value: context.module.text(size.value)
            for call in context.training.keras.shown_fits
            if (given := fit_argument(call, "x")) and (size := fit_argument(call, "batch_size"))
        }
        for data, is_fit in context.sharding.at_use.items():
            share = "shard" if is_fit else "shard_batches"
            closing = f", {sizes[data]})" if data in sizes else ")"
            taken = data if is_fit else context.data.source(data)
            edits = context.wrap(taken, f"{context.runtime(share)}(", closing)
            yield Fix(taken, edits, needs=(HOROVOD, share))


class WholeBatches(Rule):
    """Refuse batches of all rows, `batch_size=len(x)`.

    A rank's batch of its share is an N-th of the rows then, and all ranks together train on the batch of one process: its rate is
    the right one, and N times that rate may diverge. How many rows there are is written in the program as a length;
    that a number happens to be one is not seen.
    """

    code = "HVD511"
    name = "batch of all rows"
    rationale = (
        "A batch that has all rows already cannot become N times as large, so the rate must not."
    )
    partial = True
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile(tf.keras.optimizers.SGD(0.6), loss='mse')
                model.fit(x, y, batch_size=len(x), epochs=100)
                """
            ),
            None,
            "On two ranks each step would average over the same rows as before, at twice the rate.",
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        sizes = [fit.batch_size for fit in context.data.fit_arrays]
        for pipeline in context.data.pipelines:
            batching = pipeline.last_batching(context.sharding.shard_point(pipeline))
            if isinstance(batching, cst.Call) and method(batching) in ("batch", "padded_batch"):
                given = argument(batching, "batch_size", 0)
                sizes.append(given.value if given is not None else None)
        for size in dict.fromkeys(sizes):
            if size is not None and is_number_of_rows(context.values, size):
                yield Problem(
                    size,
                    "each batch has all rows: on N ranks it would have no more, and N times the rate may diverge",
                    "share each batch with one process's result, by --batch global, or train on smaller batches",
                )


RULES: tuple[type[Rule], ...] = (
    StepCounts,
    Share,
    ArrayShare,
    BatchShare,
    UseShare,
    UnseenData,
    RowShare,
    OwnChoice,
    KeptState,
    WholeBatches,
)
