"""HVD5: each rank trains on a share of the data of its own, and no rank runs out before the others."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...analysis.syntax import argument, method
from ...source.edits import Edit, Layer
from ..base import Example, Finding, Fix, Problem, program
from .context import HOROVOD, Context, Rule

EQUAL_STEPS = (
    "No rank may have a batch more than the others: it would wait for their gradients forever."
)


class Share(Rule):
    """Give each rank its own share of a `tf.data` pipeline.

    Every N-th element is taken at the source, before the first shuffle: ranks shuffle
    each in an order of its own, and only before that do they agree on which example is
    which. So each example is seen by one rank, once an epoch. Where the shares give
    some ranks one batch more than others, that batch, of a single example, is left out:
    the rest would leave it waiting for their gradients forever. A dataset to which a layer is
    adapted stays whole up to that place; a layer that is adapted to a rank's share is refused.
    """

    code = "HVD502"
    name = "share of a dataset"
    message = "Each rank takes every N-th example, before anything shuffles, so that each example is seen once an epoch."
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

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                files = tf.data.Dataset.list_files('data/*.tfrecord')
                model.compile('sgd', loss='mse')
                model.fit(tf.data.TFRecordDataset(files).batch(32))
                model.fit(files)
                """
            ),
            None,
            "`list_files` shuffles the names, on every rank in another order.",
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        fixes: dict[Edit, Fix] = {}
        for pipeline in context.data.pipelines:
            keyword = context.pipelines.shuffles_at_source(pipeline)
            if keyword is not None:
                split = isinstance(pipeline.source, cst.Call) and argument(
                    pipeline.source, "validation_split"
                )
                folders = "; without it validation_split would take whole classes away, so keep the validation files in a folder of their own"
                yield Problem(
                    pipeline.source,
                    "this source shuffles by itself, in another order on every rank, so its examples cannot be divided",
                    f"pass {keyword}=False, and shuffle afterwards" + (folders if split else ""),
                )
                continue
            point = context.sharding.shard_point(pipeline)
            shared = context.module.span(point).end
            share = context.insert(
                shared, f".shard({context.backend.size}, {context.backend.rank})", Layer.SHARD
            )
            fixes[share] = Fix(point, (share,))
            if not pipeline.is_infinite:
                last = pipeline.last_batching(point)
                batched = context.module.span(last).end
                text = f".apply({context.runtime('equal_steps')})"
                equal = context.insert(batched, text, Layer.EQUAL_STEPS)
                fixes[equal] = Fix(last, (equal,), EQUAL_STEPS, (HOROVOD, "equal_steps"))
        yield from fixes.values()
        yield from self._problems(context)

    def _problems(self, context: Context) -> Iterator[Problem]:
        """Uses of the data that a rank's share does not do for."""
        for anchor, looked_at in context.sharding.other_uses:
            if not any(map(context.sharding.is_shard, looked_at)):
                continue
            if isinstance(anchor, cst.Call):
                yield Problem(
                    anchor,
                    "this layer would learn from one rank's share of the data, and every rank's would differ",
                    "adapt it to the dataset before that is shuffled and batched",
                )
            else:
                yield Problem(
                    anchor,
                    "this loop sees one rank's share of the training data",
                    "where it counts or collects something, let it run over the dataset before that is shuffled and batched",
                    "warning",
                )
        for pipeline in context.sharding.double_sharded:
            yield Problem(
                pipeline.source,
                "two datasets that are trained on come from this one, each with a part of its own, so that one of them would be divided twice",
                "split both off it, with take and skip",
            )


class Take(Rule):
    """Divide the counts of `take` and `skip`, and `steps_per_epoch`, by the number of ranks.

    Likewise the turns of a loop that draws a batch with `next`, over a `range` or until a counter
    that goes up by one (`while step < steps`), and only counts of what one rank sees: behind the
    place where the data are divided. The `take(1)` that draws a picture stays:
    divided by two ranks it would be `take(0)`.
    """

    code = "HVD501"
    name = "counts of steps"
    message = "N ranks go on side by side, so each takes an N-th of the steps."
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
        for pipeline in context.data.pipelines:
            for step in pipeline.after(context.sharding.shard_point(pipeline)):
                if method(step) in ("take", "skip"):
                    arg = argument(step, "count", 0)
                    if arg is not None and not isinstance(arg.value, cst.UnaryOperation):
                        counts[arg.value] = None
        for call in context.training.fits:
            arg = argument(call, "steps_per_epoch", 10)
            if arg is not None and not (
                isinstance(arg.value, cst.Name) and arg.value.value == "None"
            ):
                counts[arg.value] = None
        for count in counts:
            if not context.sharding.counts_shard(count):
                yield Fix(count, context.over_size(count))
        for loop in context.step_loops.loops:
            if isinstance(loop, cst.For):
                yield from self._in_range(context, loop)
                continue
            limit = context.step_loops.counter_limit(loop)
            if limit is not None and not context.sharding.counts_shard(limit):
                yield Fix(limit, context.over_size(limit, compared=True))
        for data in context.step_loops.unbounded_data:
            yield Problem(
                data,
                "these data never end, and where training stops is not a count of steps that could be divided here: N ranks take N times the examples",
                "count the steps with range(steps), `while step < steps` or take(steps), or divide where it stops by the number of ranks",
                "warning",
            )

    def _in_range(self, context: Context, loop: cst.For) -> Iterator[Finding]:
        """The turns of a loop that draws its batches with `next`."""
        counts = loop.iter
        assert isinstance(counts, cst.Call)
        while not context.values.qualified(counts.func).endswith("range") and counts.args:
            inner = counts.args[0].value  # of `tqdm(range(steps))`
            if not isinstance(inner, cst.Call):
                break
            counts = inner
        match [arg.value for arg in counts.args if arg.keyword is None]:
            case [stop] if not context.sharding.counts_shard(stop):
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
    message = "Each rank takes every N-th row, so that each example is seen once an epoch."
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
    """Give each rank its own batches of a generator, or of a `Sequence`, that the program makes itself.

    Every N-th batch is a rank's own. For that all ranks must make the same batches in
    the same order, so they draw the same random numbers (HVD103). A generator still makes every
    batch on every rank; a `Sequence` makes only the rank's own. Batches that are left over at
    the end, when all ranks have had as many, are divided by rows.
    """

    code = "HVD505"
    name = "share of batches"
    message = "Each rank takes every N-th batch, so that each example is seen once an epoch."
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
            closing = ", shuffles=True)" if shuffles else ")"
            edits = context.wrap(batches.expression, f"{context.runtime(share)}(", closing)
            yield Fix(batches.expression, edits, needs=(HOROVOD, share))


class UnseenData(Rule):
    """Training whose data cannot be divided, because nothing tells where they come from.

    Without shares every rank takes the same steps on the same examples, at a learning
    rate meant for N times as many.
    """

    code = "HVD504"
    name = "data that cannot be divided"
    message = "Ranks that all see the same data do the same work N times, at N times the rate."
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
            None,
            "Every rank would take the same step on all the data.",
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        advice = "feed the training from a tf.data.Dataset that is made in this file"
        shared = {batches.expression for batches in context.data.batch_sources}
        for call, iterables in context.data.loop_data.items():
            function = context.module.function_of(call)
            if context.options.open_ended and function and not context.values.calls.sites(function):
                continue  # a later cell calls it, with data that are seen there
            if not any(
                context.values.flow.unwrap_iteration(data) in shared or context.pipelines.of(data)
                for data in iterables
            ):
                anchor = iterables[0] if iterables else call
                yield Problem(
                    anchor,
                    "the data of this training loop cannot be divided among the ranks",
                    advice,
                )
        seen = {call for call, _ in context.data.fit_datasets}
        seen |= {fit.call for fit in context.data.fit_arrays}
        for call in context.training.fits:
            data = argument(call, "x", 0)
            if call not in seen and (data is None or data.value not in shared):
                anchor = data.value if data is not None else call
                yield Problem(
                    anchor,
                    "it cannot be seen what data this fit is given, so they cannot be divided",
                    advice,
                )
        for call, dataset in context.data.fit_datasets:
            if not context.pipelines.of(dataset):
                yield Problem(
                    call,
                    "it cannot be seen where this dataset comes from, so it cannot be divided",
                    advice,
                )


RULES: tuple[type[Rule], ...] = (Take, Share, ArrayShare, BatchShare, UnseenData)
