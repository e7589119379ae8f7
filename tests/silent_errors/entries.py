"""Silent errors of distributed training, each a small program: published ones, their twins in TensorFlow, and our own.

An entry is a right program of `tests/against/right` and the edits that plant the error, or a file of `tests/against/wrong`, or a
program of its own. Lines that end with `# fault` are those that a verdict may name: where the error stands, or the statement of
the training step at which it takes effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

AGAINST = Path(__file__).parents[1] / "against"
#: Who is to find an error: `verify --against` on two ranks, the ranks themselves while they run (a guard), `verify` of
#: programs that this package shares or scales, or the conversion, which refuses the program.
Finder = Literal["verify --against", "guard", "verify", "conversion"]
Edit = tuple[str, str]


@dataclass(frozen=True)
class Entry:
    """One error.

    Attributes:
        source: where it was met. error: what goes wrong. program: what is patched, or is wrong as it stands.
        both: edits of the right program and of its original alike; `original_edits`, `right_edits` of one of them. Without those of
            `edits` the program is right.
        edits: what plants the error.
        apart: whether it needs processes of its own, as it hangs or sets up what a process can set up once.
        mutant: the fault of `tests/exact/sharing_mutants` that is planted into the runtime.
    """

    name: str
    source: str
    error: str
    program: str
    edits: tuple[Edit, ...] = ()
    both: tuple[Edit, ...] = ()
    finder: Finder = "verify --against"
    mutant: str = ""
    apart: bool = False
    original_edits: tuple[Edit, ...] = ()
    right_edits: tuple[Edit, ...] = ()
    own_text: str = ""

    @property
    def path(self) -> Path:
        """The file that is patched."""
        return AGAINST / f"{self.program}.py"

    @property
    def text(self) -> str:
        """The program with the error."""
        if self.own_text:
            return self.own_text
        return apply(self.right_text, self.edits)

    @property
    def right_text(self) -> str:
        """The program without it."""
        return apply(self.path.read_text(), (*self.both, *self.right_edits))

    @property
    def original(self) -> str:
        """The program for one process."""
        said = next(line for line in self.path.read_text().splitlines() if line.startswith("# original: "))  # fmt: skip
        path = AGAINST / "originals" / f"{said.removeprefix('# original: ')}.py"
        return apply(path.read_text(), (*self.both, *self.original_edits))

    @property
    def lines(self) -> tuple[int, ...]:
        """The numbers of the lines that a verdict may name."""
        return tuple(
            n for n, line in enumerate(self.text.splitlines(), 1) if line.endswith("# fault")
        )


def apply(text: str, edits: tuple[Edit, ...]) -> str:
    """A text with each of the edits, whose old text is there once.

    Raises:
        ValueError: it is not.
    """
    for old, new in edits:
        if text.count(old) != 1:
            raise ValueError(f"{old!r} is there {text.count(old)} times")
        text = text.replace(old, new)
    return text


def issue(repository: str, number: int) -> str:
    return f"[{repository}#{number}](https://github.com/{repository}/issues/{number})"


def horovod(number: int) -> str:
    return issue("horovod/horovod", number)


TRAINCHECK = "TrainCheck (OSDI'25)"
TTRACE = "TTrace (arXiv 2506.09280)"
SCALING_UP = "old converter"
DOCUMENTATION = "Horovod's documentation"
TF_PAGES = "tf.distribute's guide"

# Lines that many programs have.
MODEL = 'model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])\n'
ADAM = "optimizer = keras.optimizers.Adam(0.01)\n"
LOSS = "        loss = loss_of(y, model(x, training=True))\n"
TAPE = "    tape = hvd.DistributedGradientTape(tape)\n"
TAPE_GRADIENT = (
    "    gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])\n"
)
AVERAGE = "    gradients = [hvd.allreduce(g, op=hvd.Average) for g in gradients]\n"
APPLY = "    optimizer.apply_gradients(zip(gradients, model.trainable_variables))\n"
FAULTY_APPLY = APPLY.replace("\n", "  # fault\n")
FAULTY_TAPE = TAPE_GRADIENT.replace("\n", "  # fault\n")
SHARD = ".shard(hvd.size(), hvd.rank()).batch(16 // hvd.size())"
SCALED_SHARD = ".shard(hvd.size(), hvd.rank()).batch(16)"
BROADCAST = "hvd.broadcast_variables([v.value for v in [*model.variables, *optimizer.variables]], root_rank=0)\n"
FAULTY_DATA = (".batch(16 // hvd.size())\n", ".batch(16 // hvd.size())  # fault\n")
FAULTY_SCHEDULE = ("SGD(schedule, momentum=0.9)\n", "SGD(schedule, momentum=0.9)  # fault\n")
RATE = "optimizer = keras.optimizers.Adam(0.01 * hvd.size())\n"
EPOCHS = "for epoch in range(3):\n"
STEP = "        loss = train_step(bx, by)\n"
WORKERS_LOSS = "            loss = tf.nn.compute_average_loss(losses, global_batch_size=16)\n"
WORKERS_GRADIENT = "        gradients = tape.gradient(loss, model.trainable_variables)\n"
WORKERS_APPLY = "        optimizer.apply_gradients(zip(gradients, model.trainable_variables))\n"
FAULTY_WORKERS_GRADIENT = (WORKERS_GRADIENT, WORKERS_GRADIENT.replace("\n", "  # fault\n"))
FAULTY_WORKERS_APPLY = (WORKERS_APPLY, WORKERS_APPLY.replace("\n", "  # fault\n"))
COMPILED_FIT = (
    'model.compile(DistributedSGD(0.05, momentum=0.9), "mse", metrics=["mae"], jit_compile=False)\n'
)

PLAIN_GRADIENT = "    gradients = tape.gradient(loss, model.trainable_variables)\n"
SUM = AVERAGE.replace("Average", "Sum")
PENALTY = "0.01 * tf.add_n([tf.nn.l2_loss(v) for v in model.trainable_variables])"
KEEP = "        keep = tf.cast(x[:, :1] > 0.3, tf.float32)\n"
SQUARES = "        loss = tf.reduce_sum(keep * tf.square(y - model(x, training=True))) / "
WORKERS_MEAN = "        gradients = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, gradients)\n"

#: Programs of `tests/against/wrong`: where each error was met, and what goes wrong.
FILES = {
    "averaged_twice": (
        horovod(843),
        "averaged gradients are divided by the number of ranks once more",
    ),
    "clipped_first": (
        horovod(1346),
        "each rank clips its own gradients, and the clipped ones are averaged",
    ),
    "distributed_optimizer": (
        DOCUMENTATION,
        "`hvd.DistributedOptimizer` around an optimizer of Keras 3, which Horovod does not know",
    ),
    "half_data": (horovod(1504), "the ranks together take half of the data"),
    "loss_divided": (
        TTRACE,
        "the loss is divided by the rows of all ranks, and its gradients are averaged",
    ),
    "no_broadcast": (DOCUMENTATION, "ranks begin with weights of their own"),
    "no_broadcast_fit": (
        horovod(828),
        "the callback that broadcasts the weights is left out of `fit`",
    ),
    "not_averaged": (
        issue("deepmodeling/deepmd-kit", 1104),
        "gradients are taken around the wrapper, and never averaged",
    ),
    "not_averaged_scaled": (horovod(141), "the same, with batches and rate scaled up"),
    "one_of_two_averaged": (
        horovod(1512),
        "of two optimizers, one gets gradients that are not averaged",
    ),
    "other_weights": (DOCUMENTATION, "another seed than the original's"),
    "own_exit": (horovod(3140), "each rank stops early by its own loss"),
    "own_mean": (DOCUMENTATION, "each rank subtracts the mean of its own data"),
    "own_metric": (horovod(2740), "validation metrics are those of rank 0's data"),
    "partly_averaged": (horovod(260), "some variables' gradients are averaged, others not"),
    "rate_not_scaled": (horovod(1648), "batches are scaled up, the rate is not"),
    "rate_scaled_alone": (horovod(390), "the rate is scaled up, batches are not"),
    "rate_scaled_twice": (
        issue("mala-project/mala", 380),
        "the rate is multiplied by the number of ranks twice",
    ),
    "same_data": (horovod(2623), "no rank takes a shard: all take the same batches"),
    "same_data_scaled": (horovod(223), "the same, with batches and rate scaled up"),
    "state_on_rank_0": (horovod(526), "only rank 0 restores the optimizer's state"),
    "summed": (horovod(843), "gradients are summed instead of averaged"),
    "summed_scaled": (horovod(390), "the same, with batches and rate scaled up"),
    "uneven_batches": (horovod(1095), "ranks average the means of batches of different sizes"),
    "workers_rate_not_scaled": (TF_PAGES, "the global batch is scaled up, the rate is not"),
    "workers_same_data": (TF_PAGES, "each worker takes the full dataset"),
    "workers_summed": (
        issue("tensorflow/tensorflow", 45923),
        "the mean over a replica's rows as loss: gradients are summed over replicas",
    ),
}

NORMALIZED = MODEL.replace(
    "keras.layers.Dense(1)", "keras.layers.LayerNormalization(), keras.layers.Dense(1)"
)

PATCHES = (
    Entry(
        "clip_on_rank_0",
        f"{TRAINCHECK}: {issue('microsoft/DeepSpeed', 1801)}, BLOOM-176B",
        "one rank alone clips its gradients, and weights drift apart",
        "right/loop_clip",
        (
            (
                "    gradients, _ = tf.clip_by_global_norm(gradients, 0.5)\n" + APPLY,
                "    if hvd.rank() == 0:\n        gradients, _ = tf.clip_by_global_norm(gradients, 0.5)  # fault\n"
                + FAULTY_APPLY,
            ),
        ),
    ),
    Entry(
        "wrapper_lost",
        f"{TRAINCHECK}: {issue('pytorch/pytorch', 104336)}",
        "gradients are averaged in the first epoch only: the wrapper is lost later",
        "right/loop_tape",
        (
            ("def train_step(x, y):\n", "def train_step(x, y, wrapped):\n"),
            (TAPE, "    if wrapped:\n        tape = hvd.DistributedGradientTape(tape)  # fault\n"),
            (APPLY, FAULTY_APPLY),
            (STEP, "        loss = train_step(bx, by, epoch == 0)\n"),
        ),
    ),
    Entry(
        "wrapped_now_and_then",
        f"{TRAINCHECK}: [x-jxmnop, DDP out of sync](https://x.com/jxmnop/status/1778520637193240892)",
        "every second step trains the model without its wrapper",
        "right/loop_tape",
        (
            ("def train_step(x, y):\n", "def train_step(x, y, wrapped):\n"),
            (TAPE, "    if wrapped:\n        tape = hvd.DistributedGradientTape(tape)  # fault\n"),
            (APPLY, FAULTY_APPLY),
            (STEP, "        loss = train_step(bx, by, step % 2 == 0)\n"),
        ),
    ),
    Entry(
        "layers_frozen",
        f"{TRAINCHECK}: [PyTorch forum 84911](https://discuss.pytorch.org/t/84911)",
        "a layer is frozen, and never learns",
        "right/loop_tape",
        ((ADAM, "model.layers[0].trainable = False  # fault\n" + ADAM), (APPLY, FAULTY_APPLY)),
    ),
    Entry(
        "layers_not_frozen",
        f"{TRAINCHECK}: {issue('open-mmlab/mmpretrain', 702)}",
        "a layer that is to stay frozen is trained",
        "right/loop_tape",
        (("model.layers[0].trainable = False\n", ""), (APPLY, FAULTY_APPLY)),
        ((ADAM, "model.layers[0].trainable = False\n" + ADAM),),
    ),
    Entry(
        "gradients_accumulate",
        f"{TRAINCHECK}: [Stack Overflow 60335387](https://stackoverflow.com/questions/60335387)",
        "gradients of earlier steps are never reset",
        "right/loop_allreduce",
        (
            (
                ADAM,
                ADAM
                + "sums = [tf.Variable(tf.zeros(v.shape)) for v in model.trainable_variables]\n",
            ),
            (
                AVERAGE + APPLY,
                AVERAGE
                + "    gradients = [s.assign_add(g) for s, g in zip(sums, gradients)]  # fault\n"
                + FAULTY_APPLY,
            ),
        ),
    ),
    Entry(
        "same_noise",
        f"{TRAINCHECK}: [Stack Overflow 67180955](https://stackoverflow.com/questions/67180955); {horovod(173)}",
        "all ranks draw the same random augmentation for their rows",
        "right/loop_tape",
        (
            (
                ".enumerate().map(noisy).shard(hvd.size(), hvd.rank())",
                ".shard(hvd.size(), hvd.rank()).enumerate().map(noisy)",
            ),
            FAULTY_DATA,
            (TAPE_GRADIENT, FAULTY_TAPE),
        ),
        (
            (
                "data = tf.data.Dataset.from_tensor_slices((x, y))",
                "noisy = lambda n, row: (row[0] + 0.1 * tf.random.stateless_normal((6,), (1, n)), row[1])\n"
                "data = tf.data.Dataset.from_tensor_slices((x, y)).enumerate().map(noisy)",
            ),
        ),
    ),
    Entry(
        "communication_loses_data",
        f"{TRAINCHECK}: {issue('pytorch/pytorch', 84803)}, {issue('baichuan-inc/Baichuan2', 86)}",
        "what one rank sends arrives as zeros",
        "right/loop_allreduce",
        (
            (
                AVERAGE + APPLY,
                "    gradients[0] *= float(hvd.rank() == 0)  # fault\n" + AVERAGE + FAULTY_APPLY,
            ),
        ),
    ),
    Entry(
        "updates_stop",
        f"{TRAINCHECK}: {issue('pytorch/pytorch', 115607)}",
        "after a few steps, updates are no longer made",
        "right/loop_allreduce",
        (
            ("def train_step(x, y):\n", "def train_step(x, y, frozen):\n"),
            (AVERAGE + APPLY, AVERAGE + "    if not frozen:\n    " + FAULTY_APPLY),
            (STEP, "        loss = train_step(bx, by, epoch > 0)  # fault\n"),
        ),
    ),
    Entry(
        "half_precision",
        f"{TRAINCHECK}: {issue('Lightning-AI/lightning-thunder', 725)}; {TTRACE}",
        "what the model gives is rounded to half precision",
        "right/loop_tape",
        (
            (
                LOSS,
                "        loss = loss_of(y, tf.cast(tf.cast(model(x, training=True), tf.bfloat16), tf.float32))  # fault\n",
            ),
            (TAPE_GRADIENT, FAULTY_TAPE),
        ),
    ),
    Entry(
        "normalization_not_averaged",
        f"{TTRACE}; {issue('NVIDIA/Megatron-LM', 1446)}",
        "the gradients of a layer normalisation are left out of the averaging",
        "right/loop_allreduce",
        (
            (
                AVERAGE + APPLY,
                "    gradients = [hvd.allreduce(g, op=hvd.Average) if len(g.shape) > 1 else g for g in gradients]  # fault\n"
                + FAULTY_APPLY,
            ),
        ),
        ((MODEL, NORMALIZED),),
    ),
    Entry(
        "tied_weights_counted_twice",
        f"{TTRACE}: gradients of tied embeddings",
        "a gradient that is used by two layers is averaged, and added once more as it was",
        "right/loop_allreduce",
        (
            (
                AVERAGE + APPLY,
                "    local = gradients[0]\n"
                + AVERAGE
                + "    gradients[0] = (gradients[0] + local) / 2  # fault\n"
                + FAULTY_APPLY,
            ),
        ),
    ),
    Entry(
        "stale_gradients",
        f"{TTRACE}: overlapped communication",
        "each step applies the gradients of the step before",
        "right/loop_allreduce",
        (
            (
                ADAM,
                ADAM
                + "stale = [tf.Variable(tf.zeros(v.shape)) for v in model.trainable_variables]\n",
            ),
            (
                AVERAGE + APPLY,
                AVERAGE
                + "    before = [tf.identity(s) for s in stale]\n"
                + "    with tf.control_dependencies(before):\n"
                + "        for s, g in zip(stale, gradients):\n            s.assign(g)\n"
                + "    gradients = before  # fault\n"
                + FAULTY_APPLY,
            ),
        ),
    ),
    Entry(
        "wrong_process_set",
        f"{TTRACE}: all-reduce in the wrong group",
        "gradients are averaged within a process set that holds one rank",
        "right/loop_allreduce",
        (
            (
                "hvd.init()\n",
                "sets = [hvd.ProcessSet([0]), hvd.ProcessSet([1])]\nhvd.init(process_sets=sets)\n",
            ),
            (
                AVERAGE + APPLY,
                "    gradients = [hvd.allreduce(g, op=hvd.Average, process_set=sets[hvd.rank()]) for g in gradients]  # fault\n"
                + FAULTY_APPLY,
            ),
        ),
        apart=True,
    ),
    Entry(
        "mean_of_own_tokens",
        f"{TTRACE}: loss scaling; {issue('meta-pytorch/torchtune', 1875)}",
        "each rank divides its masked loss by its own number of kept rows",
        "right/loop_tape",
        (
            (
                "hvd.allreduce(tf.reduce_sum(keep), op=hvd.Average)\n",
                "tf.reduce_sum(keep)  # fault\n",
            ),
            (TAPE_GRADIENT, FAULTY_TAPE),
        ),
        original_edits=((LOSS, KEEP + SQUARES + "tf.reduce_sum(keep)\n"),),
        right_edits=(
            (LOSS, KEEP + SQUARES + "hvd.allreduce(tf.reduce_sum(keep), op=hvd.Average)\n"),
        ),
    ),
    Entry(
        "regularization_per_rank",
        f"{issue('keras-team/keras', 20609)}; {issue('tensorflow/models', 6195)}",
        "the regularisation is added on every rank, and summed with the losses",
        "right/loop_sum",
        (
            (f"{PENALTY} / hvd.size()\n", f"{PENALTY}  # fault\n"),
            (SUM + APPLY, SUM + FAULTY_APPLY),
            (PLAIN_GRADIENT, PLAIN_GRADIENT.replace("\n", "  # fault\n")),
        ),
        original_edits=((LOSS, f"{LOSS}        loss += {PENALTY}\n"),),
        right_edits=(
            (PLAIN_GRADIENT, f"        loss += {PENALTY} / hvd.size()\n{PLAIN_GRADIENT}"),
        ),
    ),
    Entry(
        "shards_of_updates",
        f"{TTRACE}: parameters not updated by a distributed optimizer",
        "each rank updates its part of the variables, and nobody gathers them",
        "right/loop_allreduce",
        (
            (
                APPLY,
                "    gradients = [g * float(n % hvd.size() == hvd.rank()) for n, g in enumerate(gradients)]  # fault\n"
                + FAULTY_APPLY,
            ),
        ),
    ),
    Entry(
        "restored_on_rank_0",
        horovod(1964),
        "only rank 0 loads a checkpoint, after the broadcast",
        "right/loop_allreduce",
        (
            (
                BROADCAST,
                BROADCAST
                + "if hvd.rank() == 0:\n    model.set_weights([0.9 * w for w in model.get_weights()])  # fault\n",
            ),
            (APPLY, FAULTY_APPLY),
        ),
    ),
    Entry(
        "stale_checkpoint",
        horovod(120),
        "all ranks begin with the weights of an old checkpoint",
        "right/loop_allreduce",
        (
            (
                BROADCAST,
                "model.set_weights([0.9 * w for w in model.get_weights()])  # fault\n" + BROADCAST,
            ),
            (APPLY, FAULTY_APPLY),
        ),
    ),
    Entry(
        "optimizer_not_wrapped_again",
        horovod(1920),
        "a loaded model's optimizer is not the distributed one",
        "right/fit_optimizer",
        (
            (
                COMPILED_FIT,
                COMPILED_FIT.replace("DistributedSGD", "keras.optimizers.SGD").replace(
                    "\n", "  # fault\n"
                ),
            ),
            (
                "callbacks=[Broadcast(), MetricAverage()], verbose=0)",
                "callbacks=[Broadcast(), MetricAverage()], verbose=0)  # fault",
            ),
        ),
    ),
    Entry(
        "part_broadcast",
        horovod(370),
        "some of the variables are broadcast, others begin with numbers of their rank",
        "right/loop_allreduce",
        (
            (
                BROADCAST,
                BROADCAST.replace("*model.variables,", "*model.variables[:2],").replace(
                    "\n", "  # fault\n"
                ),
            ),
            (APPLY, FAULTY_APPLY),
        ),
    ),
    Entry(
        "broadcast_before_build",
        f"{DOCUMENTATION}; {horovod(1238)}",
        "weights are broadcast before the model has any",
        "right/loop_allreduce",
        (
            ("optimizer.build(model.trainable_variables)\n", ""),
            (
                BROADCAST,
                "if model.built:\n    hvd.broadcast_variables([v.value for v in model.variables], root_rank=0)  # fault\n",
            ),
            (APPLY, FAULTY_APPLY),
            (MODEL, MODEL.replace("keras.Input((6,)), ", "")),
        ),
        (),
    ),
    Entry(
        "slots_broadcast_alone",
        DOCUMENTATION,
        "the optimizer's state is broadcast, the model's weights are not",
        "right/loop_tape",
        (
            (
                "            hvd.broadcast_variables([v.value for v in model.variables], root_rank=0)\n",
                "",
            ),
            (APPLY, FAULTY_APPLY),
        ),
    ),
    Entry(
        "seed_of_rank",
        f"{horovod(1252)}; {horovod(828)}",
        "each rank sets a seed of its own, and nothing is broadcast",
        "right/loop_allreduce",
        (
            (BROADCAST, ""),
            ("hvd.init()\n", "hvd.init()\nkeras.utils.set_random_seed(7 + hvd.rank())  # fault\n"),
            (APPLY, FAULTY_APPLY),
        ),
    ),
    Entry(
        "first_half_on_all_ranks",
        horovod(1504),
        "`take` cuts off the first rows, the same ones on each rank",
        "right/loop_scaled",
        (
            (SCALED_SHARD, ".take(64 // hvd.size()).batch(16)  # fault"),
            (TAPE_GRADIENT, FAULTY_TAPE),
        ),
    ),
    Entry(
        "shards_of_other_orders",
        horovod(1252),
        "ranks shuffle with seeds of their own before they take shards: rows are taken twice, others never",
        "right/loop_scaled",
        (
            (
                SCALED_SHARD,
                ".shuffle(64, seed=hvd.rank(), reshuffle_each_iteration=False).shard(hvd.size(), hvd.rank()).batch(16)  # fault",
            ),
            (TAPE_GRADIENT, FAULTY_TAPE),
        ),
    ),
    Entry(
        "labels_of_other_rows",
        horovod(89),
        "one rank's labels are those of other rows",
        "right/loop_tape",
        (
            (
                "data = tf.data",
                "if hvd.rank() == 1:\n    y = np.roll(y, 1, 0)  # fault\ndata = tf.data",
            ),
            (TAPE_GRADIENT, FAULTY_TAPE),
        ),
    ),
    Entry(
        "epochs_not_divided",
        f"{horovod(1008)}; {horovod(2469)}",
        "each rank makes as many steps as one process, on other rows in each",
        "right/loop_scaled",
        (
            (SCALED_SHARD, ".shuffle(64, seed=hvd.rank()).batch(16)"),
            ("hvd.init()\n", "hvd.init()\ntf.random.set_seed(5 + hvd.rank())\n"),
            (APPLY, FAULTY_APPLY),
        ),
    ),
    Entry(
        "decay_steps_not_divided",
        f"{SCALING_UP}; {horovod(3142)}",
        "a schedule's steps are those of one process: the rate falls N times too late",
        "right/loop_schedule",
        (
            (SHARD, SCALED_SHARD),
            FAULTY_SCHEDULE,
            ("ExponentialDecay(0.05, 4, 0.5)", "ExponentialDecay(0.05 * hvd.size(), 4, 0.5)"),
            (APPLY, FAULTY_APPLY),
        ),
    ),
    Entry(
        "decay_steps_divided_twice",
        SCALING_UP,
        "a schedule's steps are divided by the number of ranks twice",
        "right/loop_schedule",
        (
            (SHARD, SCALED_SHARD),
            FAULTY_SCHEDULE,
            (
                "ExponentialDecay(0.05, 4, 0.5)",
                "ExponentialDecay(0.05 * hvd.size(), 4 // hvd.size() ** 2, 0.5)",
            ),
            (APPLY, FAULTY_APPLY),
        ),
    ),
    Entry(
        "schedule_not_scaled",
        SCALING_UP,
        "batches are scaled up, the rates of a schedule are not",
        "right/loop_schedule",
        (
            (SHARD, SCALED_SHARD),
            FAULTY_SCHEDULE,
            ("ExponentialDecay(0.05, 4, 0.5)", "ExponentialDecay(0.05, 4 // hvd.size(), 0.5)"),
            (APPLY, FAULTY_APPLY),
        ),
    ),
    Entry(
        "floor_not_scaled",
        SCALING_UP,
        "the least rate of a schedule is that of one process",
        "right/loop_schedule",
        (
            (SHARD, SCALED_SHARD),
            FAULTY_SCHEDULE,
            (
                "PolynomialDecay(0.05, 8, 0.01)",
                "PolynomialDecay(0.05 * hvd.size(), 8 // hvd.size(), 0.01)",
            ),
            (APPLY, FAULTY_APPLY),
        ),
        (("ExponentialDecay(0.05, 4, 0.5)", "PolynomialDecay(0.05, 8, 0.01)"),),
    ),
    Entry(
        "one_cycle_by_steps",
        SCALING_UP,
        "a one-cycle's steps are divided in its formula, and not where they are compared",
        "right/loop_schedule",
        (
            (SHARD, SCALED_SHARD),
            FAULTY_SCHEDULE,
            ("cycle(0.01, 6)", "cycle(0.01 * hvd.size(), 6 / hvd.size(), 6)"),
            (
                "def __init__(self, top, half):\n        self.top, self.half = top, half\n",
                "def __init__(self, top, half, turn):\n        self.top, self.half, self.turn = top, half, turn\n",
            ),
            ("tf.where(step < self.half,", "tf.where(step < self.turn,"),
            (APPLY, FAULTY_APPLY),
        ),
        (
            (
                "schedule = keras.optimizers.schedules.ExponentialDecay(0.05, 4, 0.5)\n",
                "class cycle(keras.optimizers.schedules.LearningRateSchedule):\n"
                "    def __init__(self, top, half):\n        self.top, self.half = top, half\n\n"
                "    def __call__(self, step):\n"
                "        step = tf.cast(step, tf.float32) + 1.0\n"
                "        return self.top * tf.where(step < self.half, step / self.half, 2.0 - step / self.half)\n\n\n"
                "schedule = cycle(0.01, 6)\n",
            ),
        ),
    ),
    Entry(
        "rate_reduced_on_rank_0",
        horovod(1095),
        "only rank 0 reduces the rate, because only it has the validation loss",
        "right/loop_allreduce",
        (
            (
                EPOCHS,
                EPOCHS
                + "    if epoch == 1 and hvd.rank() == 0:\n        optimizer.learning_rate = 0.001  # fault\n",
            ),
            (APPLY, FAULTY_APPLY),
        ),
        (),
    ),
    Entry(
        "rate_by_own_loss",
        horovod(1206),
        "each rank reduces the rate by its own loss, as metrics are averaged after that",
        "right/loop_allreduce",
        (
            (
                STEP,
                STEP
                + "        if float(loss) > 10.9:\n            optimizer.learning_rate = 0.001  # fault\n",
            ),
            (APPLY, FAULTY_APPLY),
        ),
    ),
    Entry(
        "rate_of_rank",
        horovod(291),
        "each rank has a learning rate of its own",
        "right/loop_allreduce",
        (
            (BROADCAST, BROADCAST + "optimizer.learning_rate = 0.01 * (hvd.rank() + 1)  # fault\n"),
            (APPLY, FAULTY_APPLY),
        ),
    ),
    Entry(
        "warmup_not_ended",
        horovod(1921),
        "a resumed run takes the rate of its warm-up for the initial one",
        "right/loop_allreduce",
        ((ADAM, "optimizer = keras.optimizers.Adam(0.01 / 3)  # fault\n"), (APPLY, FAULTY_APPLY)),
    ),
    Entry(
        "validation_unweighted",
        f"{horovod(2897)}; {horovod(1095)}",
        "validation metrics of shards of different sizes are averaged without weights",
        "right/fit_optimizer",
        (
            (
                "mine = range(hvd.rank(), 32, hvd.size())\n",
                "mine = range(0, 8) if hvd.rank() == 0 else range(8, 32)  # fault\n",
            ),
            (
                "callbacks=[Broadcast(), MetricAverage()], verbose=0)",
                "callbacks=[Broadcast(), MetricAverage()], verbose=0)  # fault",
            ),
        ),
    ),
    Entry(
        "clipping_left_out",
        issue("tensorflow/tensorflow", 33929),
        "the distributed program does not clip",
        "right/loop_clip",
        (
            ("    gradients, _ = tf.clip_by_global_norm(gradients, 0.5)\n", ""),
            (APPLY, FAULTY_APPLY),
        ),
    ),
    Entry(
        "clipped_by_value_first",
        f"{horovod(303)}; {horovod(1346)}",
        "each rank clips the entries of its own gradients before these are averaged",
        "right/loop_allreduce",
        (
            (
                AVERAGE
                + "    gradients = [tf.clip_by_value(g, -0.1, 0.1) for g in gradients]\n"
                + APPLY,
                "    gradients = [tf.clip_by_value(g, -0.1, 0.1) for g in gradients]  # fault\n"
                + AVERAGE
                + FAULTY_APPLY,
            ),
        ),
        ((APPLY, "    gradients = [tf.clip_by_value(g, -0.1, 0.1) for g in gradients]\n" + APPLY),),
    ),
    Entry(
        "sparse_summed",
        f"{horovod(2279)}; {horovod(459)}",
        "sparse gradients are summed, dense ones averaged",
        "right/loop_embedding",
        (
            (
                APPLY,
                "    gradients = [tf.IndexedSlices(g.values * hvd.size(), g.indices, g.dense_shape) if isinstance(g, tf.IndexedSlices) else g for g in gradients]  # fault\n"
                + FAULTY_APPLY,
            ),
        ),
    ),
    Entry(
        "weight_decay_lost",
        SCALING_UP,
        "the distributed program has no weight decay",
        "right/loop_allreduce",
        (("AdamW(0.01, weight_decay=0.1)\n", "Adam(0.01)  # fault\n"), (APPLY, FAULTY_APPLY)),
        ((ADAM, "optimizer = keras.optimizers.AdamW(0.01, weight_decay=0.1)\n"),),
    ),
    Entry(
        "other_momentum",
        horovod(144),
        "another momentum than in one process",
        "right/loop_allreduce",
        (
            (ADAM, "optimizer = keras.optimizers.Adam(0.01, beta_1=0.5)  # fault\n"),
            (APPLY, FAULTY_APPLY),
        ),
    ),
    Entry(
        "other_loss",
        issue("tensorflow/tensorflow", 35093),
        "another loss function than in one process",
        "right/loop_tape",
        (
            ("keras.losses.MeanSquaredError()\n", "keras.losses.Huber()  # fault\n"),
            (TAPE_GRADIENT, FAULTY_TAPE),
        ),
    ),
    Entry(
        "evaluation_mode",
        f"{TRAINCHECK}: layers in the wrong mode, {issue('huggingface/transformers', 33844)}",
        "the step trains the model in evaluation mode, so that batch normalisation does not learn its moments",
        "right/loop_tape",
        (
            ("model(x, training=True)", "model(x, training=False)"),
            (TAPE_GRADIENT, FAULTY_TAPE),
            (
                LOSS.replace("True", "False"),
                LOSS.replace("True", "False").replace("\n", "  # fault\n"),
            ),
        ),
        (
            (
                MODEL,
                "model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8), keras.layers.BatchNormalization(), keras.layers.Dense(1)])\n",
            ),
        ),
    ),
    Entry(
        "dropout_left_out",
        f"{TRAINCHECK}: layers in the wrong mode",
        "the distributed program has no dropout",
        "right/loop_dropout",
        ((", keras.layers.Dropout(0.5)", ""), (TAPE_GRADIENT, FAULTY_TAPE)),
    ),
    Entry(
        "augmentation_left_out",
        SCALING_UP,
        "the distributed program trains on rows without the original's augmentation",
        "right/loop_tape",
        (
            (".map(lambda x, y: (1.5 * x, y)).shard", ".shard"),
            FAULTY_DATA,
            (TAPE_GRADIENT, FAULTY_TAPE),
        ),
        (
            (
                "data = tf.data.Dataset.from_tensor_slices((x, y))",
                "data = tf.data.Dataset.from_tensor_slices((x, y)).map(lambda x, y: (1.5 * x, y))",
            ),
        ),
    ),
    Entry(
        "weights_averaged_late",
        horovod(1053),
        "ranks train apart, and average their weights at the end of each epoch",
        "right/loop_allreduce",
        (
            (AVERAGE + APPLY, FAULTY_APPLY),
            (
                "    if hvd.rank() == 0:\n",
                "    for v in model.trainable_variables:\n        v.assign(hvd.allreduce(v.value, op=hvd.Average))\n    if hvd.rank() == 0:\n",
            ),
        ),
    ),
    Entry(
        "weights_changed_between_steps",
        SCALING_UP,
        "a moving average overwrites the weights between steps",
        "right/loop_allreduce",
        (
            (
                STEP,
                STEP
                + "        for v in model.trainable_variables:\n            v.assign(0.999 * v)  # fault\n",
            ),
            (APPLY, FAULTY_APPLY),
        ),
    ),
    Entry(
        "workers_divided_twice",
        f"{issue('keras-team/keras', 16285)}; {issue('keras-team/keras', 19891)}",
        "the loss of a replica is divided by the global batch, and by the number of replicas once more",
        "right/workers_loop",
        (
            (
                WORKERS_LOSS,
                WORKERS_LOSS.replace("\n", " / strategy.num_replicas_in_sync  # fault\n"),
            ),
            FAULTY_WORKERS_GRADIENT,
        ),
        apart=True,
    ),
    Entry(
        "workers_regularization",
        f"{issue('tensorflow/models', 6195)}; {issue('tensorflow/tensorflow', 48875)}",
        "the regularisation of each replica is not divided by their number",
        "right/workers_loop",
        (
            (f"{PENALTY} / strategy.num_replicas_in_sync\n", f"{PENALTY}  # fault\n"),
            FAULTY_WORKERS_GRADIENT,
        ),
        original_edits=((LOSS, f"{LOSS}        loss += {PENALTY}\n"),),
        right_edits=(
            (
                WORKERS_LOSS,
                f"{WORKERS_LOSS}            loss += {PENALTY} / strategy.num_replicas_in_sync\n",
            ),
        ),
        apart=True,
    ),
    Entry(
        "workers_clip_first",
        issue("tensorflow/tensorflow", 33929),
        "each replica clips its own gradients before they are added up",
        "right/workers_loop",
        (
            (f"{WORKERS_MEAN}        gradients, _", "        gradients, _"),
            ("(gradients, 0.5)\n", "(gradients, 0.5)  # fault\n"),
            FAULTY_WORKERS_APPLY,
        ),
        original_edits=(
            (APPLY, "    gradients, _ = tf.clip_by_global_norm(gradients, 0.5)\n" + APPLY),
        ),
        right_edits=(
            (
                WORKERS_APPLY,
                f"{WORKERS_MEAN}        gradients, _ = tf.clip_by_global_norm(gradients, 0.5)\n"
                "        gradients = [g / strategy.num_replicas_in_sync for g in gradients]\n"
                + WORKERS_APPLY,
            ),
        ),
        apart=True,
    ),
    Entry(
        "workers_batch_per_replica",
        issue("keras-team/keras", 16922),
        "the batch of a replica is taken for the global one",
        "right/workers_loop",
        ((WORKERS_LOSS, WORKERS_LOSS.replace("=16)\n", "=8)  # fault\n")), FAULTY_WORKERS_APPLY),
        apart=True,
    ),
)

#: Programs that ranks stop for: each rank computes on its own data, labels or weights.
GUARDED = tuple(
    Entry(name, "sharing at run time", error, f"../exact/programs/{name}", finder="guard")
    for name, error in (
        ("different_data", "ranks share batches that are not the same ones"),
        ("different_labels", "ranks share rows whose labels differ"),
        ("different_weights", "ranks share a model whose weights differ"),
    )
)
#: What a conversion that goes by the form of a program would leave as it is, so that each rank trains for itself.
REFUSED_TEXTS = {
    "estimator": (
        "an Estimator trains in a session of its own, out of Horovod's reach",
        "import tensorflow as tf\nmodel = tf.estimator.LinearClassifier([])  # fault\nmodel.train(lambda: None, steps=10)\n",
    ),
    "parameter_servers": (
        "a training that parameter servers distribute already is distributed once more",
        "import tensorflow as tf\nstrategy = tf.distribute.experimental.ParameterServerStrategy(None)  # fault\n"
        "with strategy.scope():\n    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])\n"
        "    model.compile('sgd', 'mse')\nmodel.fit([[1.0]], [[1.0]])\n",
    ),
    "horovod_already": (
        "a program that uses Horovod is converted again: its rate would be scaled twice",
        "import horovod.tensorflow as hvd  # fault\nimport tensorflow as tf\nhvd.init()\n"
        "model = tf.keras.Sequential([tf.keras.layers.Dense(1)])\nmodel.compile(tf.keras.optimizers.SGD(0.1 * hvd.size()), 'mse')\n"
        "model.fit([[1.0]], [[1.0]])\n",
    ),
    "tensorflow_1": (
        "a training in a session of TensorFlow 1 has no tape, and its gradients would not be averaged",
        "import tensorflow.compat.v1 as tf\ntf.disable_v2_behavior()  # fault\nw = tf.Variable(1.0)\n"
        "step = tf.train.GradientDescentOptimizer(0.1).minimize(w * w)  # fault\n"
        "with tf.Session() as session:\n    session.run(step)\n",
    ),
    "other_backend": (
        "Keras computes with JAX, whose gradients Horovod does not see",
        "import os\nos.environ['KERAS_BACKEND'] = 'jax'  # fault\nimport keras\n"
        "model = keras.Sequential([keras.layers.Dense(1)])\nmodel.compile('sgd', 'mse')\nmodel.fit([[1.0]], [[1.0]])\n",
    ),
}
REFUSED = tuple(
    Entry(name, "conversion", error, "", own_text=text, finder="conversion")
    for name, (error, text) in REFUSED_TEXTS.items()
)
#: Faults of our own runtime, which `tests/exact/sharing_mutants` plants, and what they do.
MUTANTS = {
    "no_average": "gradients are not averaged",
    "gather_without_factor": "what is gathered has 1/N of its gradient",
    "split_without_factor": "what is split has N times its gradient",
    "local_moments": "batch normalisation takes the moments of a rank's rows",
    "variance_without_means": "the variance of all rows leaves out how far the ranks' means are apart",
    "moments_without_gradient": "no gradient flows through the moments of the other ranks' rows",
    "other_seed": "ranks draw with other seeds",
    "own_draws": "each rank draws numbers for its own rows alone",
    "first_draws": "all ranks draw the numbers of the first rows",
    "dropped_last_row": "a row is dropped where N does not divide the batch",
    "repeated_rows_count": "rows that fill up the last shard count twice",
    "rows_by_rank": "gathered rows come in the order of the ranks",
    "sparse_not_averaged": "sparse gradients are not averaged",
    "sparse_not_divided": "sparse gradients are summed",
    "sum_of_gradients": "gradients are summed",
    "averaged_twice": "gradients are divided by N twice",
    "jacobian_not_averaged": "Jacobians are not averaged",
    "second_input_not_split": "the second input of a model is not split",
    "stale_optimizer_state": "one rank's optimizer state is that of the step before",
    "other_learning_rate": "one rank has another learning rate",
    "update_left_out": "one rank leaves out an update",
    "early_exit_on_a_rank": "one rank stops early",
    "one_verdict_for_all_switches": "the row check of a call is made once for all its modes",
    "mask_of_first_rows": "all ranks take the mask of the first rows",
}
FAULTS = tuple(
    Entry(f"runtime_{name}", "our runtime", error, "", finder="verify", mutant=name)
    for name, error in MUTANTS.items()
)

#: Files of `FILES` that need processes of their own.
APART = (
    "distributed_optimizer",
    "own_exit",
    "workers_rate_not_scaled",
    "workers_same_data",
    "workers_summed",
)
FILE_ENTRIES = tuple(
    Entry(name, source, error, f"wrong/{name}", apart=name in APART)
    for name, (source, error) in FILES.items()
)
ENTRIES = (*FILE_ENTRIES, *PATCHES, *GUARDED, *REFUSED, *FAULTS)
