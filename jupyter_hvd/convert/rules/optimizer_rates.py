"""The program's optimizers, which of them keep the rate of one process, and what depends on their rates."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...analysis.library import Kind
from ...analysis.syntax import argument
from ..tensorflow import tf_api
from ..tensorflow.updates import Update
from .context import Context
from .optimizers import RATES, is_optimizer

#: Callbacks that set the learning rate.
RATE_CALLBACKS = (".LearningRateScheduler", ".ReduceLROnPlateau")

#: What a program reads, sets or stores an optimizer's rate and count of steps by.
RATE_ATTRIBUTES = frozenset({*RATES, "iterations", "_learning_rate", "_decayed_lr", "get_config"})


def depends_on_rates(context: Context) -> bool:
    """Whether the program reads or sets an optimizer's rate or step count after its creation, itself or by a callback."""
    values = context.values
    for node in values.index.attributes:
        if node.attr.value in RATE_ATTRIBUTES and may_be_of_optimizer(context, node.value):
            return True
    for call in values.index.calls:
        name = values.qualified(call.func)
        configures = tf_api.configures_optimizer(name) and not name.endswith(".get")
        if name.endswith((*RATE_CALLBACKS, ".load_model")) or configures:
            return True
    bases = (base for owner in values.index.classes for base in values.classes.library_bases(owner))
    return any(base.endswith(RATE_CALLBACKS) for base in bases)


def may_be_of_optimizer(context: Context, owner: cst.BaseExpression) -> bool:
    """Whether an attribute's owner is an optimizer, or nothing is known about it."""
    if is_optimizer(context, owner):
        return True
    is_self = isinstance(owner, cst.Name) and owner.value == "self"
    kinds = context.values.kinds(owner)
    return not is_self and (not kinds or Kind.UNKNOWN in kinds)


def find_unseen_optimizers(context: Context) -> Iterator[cst.BaseExpression]:
    """Yield the optimizer arguments of `compile` that may be a name, a configuration, or unknown."""
    for call in context.training.keras.compiles:
        arg = argument(call, "optimizer", 0)
        if arg is None or isinstance(arg.value, cst.SimpleString):
            continue
        kinds = context.values.kinds(arg.value)
        if not kinds or kinds & {Kind.CONSTANT, Kind.CONTAINER, Kind.UNKNOWN, Kind.OTHER}:
            yield arg.value


def find_loaded_models(context: Context) -> list[cst.Call]:
    """Return the calls that load a model which is trained further, without a new `compile`, with its saved optimizer and rate."""
    grown, fits = context.batch_sizes.grown, context.training.keras.fits
    receivers = [f.func.value for f in fits if f in grown and isinstance(f.func, cst.Attribute)]
    compiled = {
        context.module.text(call.func.value)
        for call in context.training.keras.compiles
        if isinstance(call.func, cst.Attribute)
    }
    made = (
        value.node
        for receiver in receivers
        if context.module.text(receiver) not in compiled
        for value in context.values.of(receiver)
    )
    loaded = (node for node in made if isinstance(node, cst.Call))
    is_loader = lambda call: context.values.qualified(call.func).endswith(".load_model")  # noqa: E731
    return list(dict.fromkeys(filter(is_loader, loaded)))


def find_unscaled_constructors(context: Context) -> frozenset[cst.CSTNode]:
    """Return the constructor calls of optimizers that only train on batches that do not grow, so their rates stay."""
    grown = context.batch_sizes.grown
    kept: set[cst.CSTNode] = set()
    scaled: set[cst.CSTNode] = set()
    for update, sites in context.data.step_sites:
        if update.optimizer is not None:
            grows = any(site.call in grown for site in sites)
            (scaled if grows else kept).update(find_constructors(context, update))
    for call in context.training.keras.compiles:
        assert isinstance(call.func, cst.Attribute)
        model = context.module.text(call.func.value)
        fits = context.training.keras.fits
        own = [f for f in fits if context.module.text(f.func.value) == model]  # type: ignore[attr-defined]
        trained = own or fits
        tuners = context.training.keras.tuners
        if tuners.searches and tuners.builds(call):
            grows = all(training in grown for training in tuners.trainings)
            (scaled if grows else kept).update(find_compiled_constructors(context, call))
        elif trained:
            grows = any(fit in grown for fit in trained)
            (scaled if grows else kept).update(find_compiled_constructors(context, call))
    return frozenset(kept - scaled)


def find_summed_loss_constructors(context: Context) -> frozenset[cst.CSTNode]:
    """Return the constructor calls of optimizers that only minimize sums over the rows of a growing batch."""
    summed: set[cst.CSTNode] = set()
    others: set[cst.CSTNode] = set()
    for update, _ in context.data.step_sites:
        (summed if minimizes_sum(context, update) else others).update(
            find_constructors(context, update)
        )
    compiled = [
        made
        for c in context.training.keras.compiles
        for made in find_compiled_constructors(context, c)
    ]
    for update in context.training.updates:
        if context.training.keras.runs(update.function):
            makers = find_constructors(context, update) or compiled
            (summed if minimizes_sum(context, update) else others).update(makers)
    for call in context.training.keras.compiles:
        if (loss := argument(call, "loss", 1)) is not None:
            is_sum = is_summing_loss(context, loss.value)
            (summed if is_sum else others).update(find_compiled_constructors(context, call))
    return frozenset(summed - others)


def minimizes_sum(context: Context, update: Update) -> bool:
    """Whether an update applies gradients of sums over the rows of a batch, and of nothing else."""
    applied = context.training.gradients.flowing_into(*update.applied) if update.applied else ()
    targets = [arg.value for g in applied if (arg := argument(g, "target", 0)) is not None]
    return bool(targets) and all(is_sum_over_rows(context, each) for each in targets)


def is_summing_loss(context: Context, loss: cst.BaseExpression) -> bool:
    """Whether a loss for `compile` is created with `reduction="sum"`, or with Keras 2's `Reduction.SUM`."""
    computed = context.values.flow.computed_from(loss)
    given = [a for n in computed if isinstance(n, cst.Call) if (a := argument(n, "reduction"))]
    return any(_names_sum(arg.value) for arg in given)


def _names_sum(reduction: cst.BaseExpression) -> bool:
    """Whether an argument is `"sum"` or `….SUM`."""
    match reduction:
        case cst.SimpleString():
            return reduction.evaluated_value == "sum"
        case cst.Attribute():
            return reduction.attr.value == "SUM"
    return False


def is_sum_over_rows(context: Context, loss: cst.BaseExpression) -> bool:
    """Whether a loss is a sum that grows with the rows of a batch."""
    computed = context.values.flow.computed_from(loss)
    names = (context.values.qualified(n.func) for n in computed if isinstance(n, cst.Call))
    is_summed = any(name.startswith("tensorflow.") and name.endswith("sum") for name in names)
    return is_summed and context.scales.exponent(loss) == 1


def find_constructors(context: Context, update: Update) -> frozenset[cst.CSTNode]:
    """Return the constructor calls of an update's optimizer; for a model's update, of all optimizers that models are compiled
    with.
    """
    if update.is_of_model:
        compiles = context.training.keras.compiles
        return frozenset(
            made for call in compiles for made in find_compiled_constructors(context, call)
        )
    values = context.values.of(update.optimizer) if update.optimizer is not None else ()
    return frozenset(value.node for value in values if value.node is not None)


def find_compiled_constructors(context: Context, call: cst.Call) -> frozenset[cst.CSTNode]:
    """Return the constructor calls of the optimizer in a `compile` call; the `compile` call itself if it names none."""
    arg = argument(call, "optimizer", 0)
    if arg is None:
        return frozenset({call})
    made = {value.node for value in context.values.of(arg.value) if value.node is not None}
    return frozenset(made | {arg.value})
