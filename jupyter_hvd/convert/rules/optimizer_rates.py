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
    """Whether anything depends on an optimizer's rate or step count after its creation."""
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
    """Whether an attribute may be an optimizer's: its owner is one, or nothing is known of it."""
    if is_optimizer(context, owner):
        return True
    is_self = isinstance(owner, cst.Name) and owner.value == "self"
    kinds = context.values.kinds(owner)
    return not is_self and (not kinds or Kind.UNKNOWN in kinds)


def find_unseen_optimizers(context: Context) -> Iterator[cst.BaseExpression]:
    """The optimizer arguments of `compile` that may be a name, a configuration, or unknown."""
    for call in context.training.keras.compiles:
        arg = argument(call, "optimizer", 0)
        if arg is None or isinstance(arg.value, cst.SimpleString):
            continue
        kinds = context.values.kinds(arg.value)
        if not kinds or kinds & {Kind.CONSTANT, Kind.CONTAINER, Kind.UNKNOWN, Kind.OTHER}:
            yield arg.value


def find_loaded_models(context: Context) -> list[cst.Call]:
    """The calls that load models which are trained on with the optimizer that they were saved with, at one process's rate."""
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


def makers_with_kept_rates(context: Context) -> frozenset[cst.CSTNode]:
    """The constructors of optimizers whose batches do not grow: they keep the rates of one process."""
    grown = context.batch_sizes.grown
    kept: set[cst.CSTNode] = set()
    scaled: set[cst.CSTNode] = set()
    for update, sites in context.data.step_sites:
        if update.optimizer is not None:
            grows = any(site.call in grown for site in sites)
            (scaled if grows else kept).update(makers_of(context, update))
    for call in context.training.keras.compiles:
        assert isinstance(call.func, cst.Attribute)
        model = context.module.text(call.func.value)
        fits = context.training.keras.fits
        own = [f for f in fits if context.module.text(f.func.value) == model]  # type: ignore[attr-defined]
        trained = own or fits
        tuners = context.training.keras.tuners
        if tuners.searches and tuners.builds(call):
            grows = all(training in grown for training in tuners.trainings)
            (scaled if grows else kept).update(compiled_makers(context, call))
        elif trained:
            grows = any(fit in grown for fit in trained)
            (scaled if grows else kept).update(compiled_makers(context, call))
    return frozenset(kept - scaled)


def makers_for_summed_losses(context: Context) -> frozenset[cst.CSTNode]:
    """The constructors of optimizers that only minimize sums over the rows of a batch that grows."""
    summed: set[cst.CSTNode] = set()
    others: set[cst.CSTNode] = set()
    for update, _ in context.data.step_sites:
        (summed if minimizes_sum(context, update) else others).update(makers_of(context, update))
    compiled = [
        made for c in context.training.keras.compiles for made in compiled_makers(context, c)
    ]
    for update in context.training.updates:
        if context.training.keras.runs(update.function):
            makers = makers_of(context, update) or compiled
            (summed if minimizes_sum(context, update) else others).update(makers)
    for call in context.training.keras.compiles:
        if (loss := argument(call, "loss", 1)) is not None:
            is_sum = is_summing_loss(context, loss.value)
            (summed if is_sum else others).update(compiled_makers(context, call))
    return frozenset(summed - others)


def minimizes_sum(context: Context, update: Update) -> bool:
    """Whether the gradients that an update applies are those of sums over the rows of a batch."""
    applied = context.training.gradients.flowing_into(*update.applied) if update.applied else ()
    targets = [arg.value for g in applied if (arg := argument(g, "target", 0)) is not None]
    return bool(targets) and all(is_sum_over_rows(context, each) for each in targets)


def is_summing_loss(context: Context, loss: cst.BaseExpression) -> bool:
    """Whether a loss that a model is compiled with is made with `reduction="sum"`, or with Keras 2's `Reduction.SUM`."""
    computed = context.values.flow.computed_from(loss)
    given = [a for n in computed if isinstance(n, cst.Call) if (a := argument(n, "reduction"))]
    return any(_is_sum(arg.value) for arg in given)


def _is_sum(reduction: cst.BaseExpression) -> bool:
    match reduction:
        case cst.SimpleString():
            return reduction.evaluated_value == "sum"
        case cst.Attribute():
            return reduction.attr.value == "SUM"
    return False


def is_sum_over_rows(context: Context, loss: cst.BaseExpression) -> bool:
    """Whether a loss is a sum, and grows with the rows of a batch."""
    computed = context.values.flow.computed_from(loss)
    names = (context.values.qualified(n.func) for n in computed if isinstance(n, cst.Call))
    is_summed = any(name.startswith("tensorflow.") and name.endswith("sum") for name in names)
    return is_summed and context.scales.exponent(loss) == 1


def makers_of(context: Context, update: Update) -> frozenset[cst.CSTNode]:
    """The constructors of an update's optimizer; for a model's update, of any optimizer that the program compiles a model with."""
    if update.is_of_model:
        compiles = context.training.keras.compiles
        return frozenset(made for call in compiles for made in compiled_makers(context, call))
    values = context.values.of(update.optimizer) if update.optimizer is not None else ()
    return frozenset(value.node for value in values if value.node is not None)


def compiled_makers(context: Context, call: cst.Call) -> frozenset[cst.CSTNode]:
    """The constructors of the optimizer that a model is compiled with; the call itself where it names none."""
    arg = argument(call, "optimizer", 0)
    if arg is None:
        return frozenset({call})
    made = {value.node for value in context.values.of(arg.value) if value.node is not None}
    return frozenset(made | {arg.value})
