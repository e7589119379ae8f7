"""What the ranks get from the notebook for a cell, in its call or before it, and what is said of that."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from types import ModuleType
from typing import Any

from ..ranks import remote, training_state
from ..ranks.paths import TRAINED, AccessPath, Reached, weighted_objects
from ..ranks.remote import InitialState, Sync
from ..ranks.reply import Reply
from ..ranks.serialization import (
    SMALL,
    SerializedValue,
    digest_value,
    explain_not_transferable,
    is_plain,
    keras_kind,
    pack_module,
    pack_value,
    rate_of,
    unpack_value,
)
from .cell_names import names_of
from .cell_output import CellOutput
from .errors import DistributeError
from .held_ranks import HeldRanks
from .monitor import Run
from .planning import CellPlan, RanksState
from .program import masked
from .recovery import recover_from_run
from .transfer import Push, needs_own_call, push_values
from .weights import WeightedObject, make_weighted_object, shortest_path

# What is to be pushed


def values_for(plan: CellPlan, namespace: Mapping[str, Any]) -> dict[str, SerializedValue]:
    """Return the values that must be pushed before anything runs, since no cell creates them.

    Raises:
        DistributeError: a value cannot be pushed.
    """
    values = {}
    for name in sorted(plan.needs.push):
        packed = pack_copied(namespace[name])
        if packed.kind == "none":
            way = "Make it in a cell, or in this one"
            if pack_copied(namespace[name], limit=None).kind != "none":
                way += f", or send it with  %hvd push {name}"
            raise DistributeError(
                f"`{name}` is needed on the ranks, but no cell that has run makes it, "
                f"and {packed.why}. {way}."
            )
        values[name] = packed
    return values


def replaced_names(plan: CellPlan, namespace: Mapping[str, Any]) -> set[str]:
    """Return the names whose values needed cells have just overwritten on the ranks, and that must be pushed again."""
    run = [names_of(masked(plan.program.sources[n])) for n in plan.needs.run]
    bound = {name for names in run for name in names.binds}
    changed = {name for names in run for name in names.changes}
    names = (bound & plan.needs.given) | ((bound | changed) & plan.needs.push)
    return names & namespace.keys()


def push_of_replaced(held: HeldRanks, plan: CellPlan) -> Push:
    """Return the plain values of `replaced_names`, to push again; in `held.state` they count as not pushed."""
    namespace = held.history.namespace
    names = replaced_names(plan, namespace)
    values = {name: pack_value(namespace[name], limit=None) for name in sorted(names)}
    held.state = held.state.without_cells((), names).with_given(
        sorted(names & plan.needs.given), plan.number - 1
    )
    return push_of_changed({n: v for n, v in values.items() if v.kind not in TRAINED}, held.state)


def push_of_changed(values: Mapping[str, SerializedValue], state: RanksState) -> Push:
    """Return those of some values whose digests differ from what the ranks were sent last."""
    digests = {n: digest_value(v) for n, v in values.items()}
    fresh = [n for n in values if digests[n] != state.pushed.get(n)]
    return Push({AccessPath(n): values[n] for n in fresh}, {n: digests[n] for n in fresh})


def plain_values(plan: CellPlan, held: HeldRanks) -> dict[str, SerializedValue]:
    """Return the plain values that a cell uses and that other cells may have set differently on the ranks.

    Names that the conversion makes differ between ranks are left out.
    """
    namespace = held.history.namespace
    used = filter(held.history.has_value, plan.needs.names - plan.program.differing_names)
    return {n: pack_value(namespace[n], limit=None) for n in sorted(used) if is_plain(namespace[n])}


def collect_weighted_objects(
    held: HeldRanks, plan: CellPlan, names: Sequence[str]
) -> list[WeightedObject]:
    """Return the kernel's objects with weights or state, each with the weights that the ranks should have.

    Args:
        names: the names from which they are searched.
    """
    every = weighted_objects(held.history.namespace, names, TRAINED)
    ways = [tuple(path for path in each.paths if not path.is_unordered) for each in every]
    there = [Reached(e.value, paths) for e, paths in zip(every, ways, strict=True) if paths]
    return [
        make_weighted_object(each.value, each.paths, plan.needs.names, weights)
        for each in there
        if (weights := _initial_weights(held, each, there)).data
    ]


def _initial_weights(
    held: HeldRanks, target: Reached, candidates: Sequence[Reached]
) -> SerializedValue:
    """Return the weights that a model starts with on the ranks.

    They are the kernel's, or rescued ones if the kernel's have not changed since.

    Args:
        candidates: all objects that are sent, among which state refers to other objects.
    """
    own = training_state.pack_state(target, candidates)
    for path in map(str, target.paths):
        rescued, before = held.rescued.get(path, (own, 0))
        if before == digest_value(own):
            return rescued
        held.rescued.pop(path, None)  # the notebook has later ones
    return own


def learning_rates(namespace: Mapping[str, Any], names: Sequence[str]) -> dict[AccessPath, float]:
    """Return the learning rates of the optimizers that can be reached from some names, by access path."""
    return {
        path: rate
        for each in weighted_objects(namespace, names, TRAINED)
        if hasattr(each.value, "apply_gradients") and (rate := rate_of(each.value)) is not None
        for path in each.paths
    }


# Pushing it


def sync_with(
    held: HeldRanks, push: Push, beginning: InitialState | None, screen: CellOutput
) -> tuple[Sync, Push]:
    """Return what ranks receive together with a call, and those of its values that are not yet recorded as sent.

    Large values are pushed first, in a call of their own.

    Raises:
        DistributeError: this call failed.
    """
    if needs_own_call(held.require_cluster(), push.values):
        failed = push_now(held, push.values, screen)
        held.state = held.state.with_pushed(_arrived(push.digests, failed))
        push = Push()
    return Sync(pickle.dumps(dict(push.values), protocol=5), beginning), push


def push_now(
    held: HeldRanks, values: Mapping[AccessPath, SerializedValue], screen: CellOutput
) -> Mapping[str, str]:
    """Push values to all ranks in a call of its own, show what arrived, and return why others did not, by path.

    Raises:
        DistributeError: the call failed.
    """
    run = push_values(held.require_cluster(), values)
    recover_from_run(held, run, screen, "values could not be pushed")
    failed: dict[str, str] = run.replies[0]
    _report_pushed(held, values, failed, screen)
    return failed


def note_arrived(held: HeldRanks, push: Push, run: Run, screen: CellOutput) -> None:
    """Show which values arrived together with a call, and record that the ranks have them."""
    reply = run.replies.get(0)
    if isinstance(reply, Reply) and reply.failed is not None:
        _report_pushed(held, push.values, reply.failed, screen)
        held.state = held.state.with_pushed(_arrived(push.digests, reply.failed))


def _arrived(digests: Mapping[str, int], failed: Collection[str]) -> dict[str, int]:
    """Return the digests of the values that arrived."""
    return {name: digest for name, digest in digests.items() if name not in failed}


def _report_pushed(
    held: HeldRanks,
    values: Mapping[AccessPath, SerializedValue],
    failed: Mapping[str, str],
    screen: CellOutput,
) -> None:
    """Show which values arrived, and which did not."""
    for line in pushed_lines(values, failed, held.rescued.keys()):
        screen.add_line(line)


def pushed_lines(
    values: Mapping[AccessPath, SerializedValue], failed: Mapping[str, str], rescued: Set[str]
) -> Iterator[str]:
    """Yield lines that say which values arrived on the ranks, and which did not.

    Args:
        failed: why values did not arrive, by path.
        rescued: paths to weights of the previous ranks.
    """
    if plain := [str(path) for path, value in values.items() if value.kind not in TRAINED]:
        yield f"pushed: {', '.join(plain)}"
    of_weights: dict[int, list[AccessPath]] = {}
    for path, value in values.items():
        if value.kind in TRAINED:
            of_weights.setdefault(id(value), []).append(path)
    again, own = list[str](), dict[str, list[str]]()
    for paths in of_weights.values():
        among, value = {*map(str, paths)}, values[paths[0]]
        if among <= failed.keys():
            known = f"the {value.kind} of `{shortest_path(paths)}` on the ranks"
            verb = "are" if value.kind == "weights" else "is"
            yield f"{known} {verb} not the notebook's: {failed[str(paths[0])]}"
        else:
            of_kind = own.setdefault(value.kind, []) if rescued.isdisjoint(among) else again
            of_kind.append(shortest_path(paths))
    if again:
        yield f"with the weights that the ranks before had: {', '.join(again)}"
    for kind, names in own.items():
        yield f"with the notebook's {kind}: {', '.join(names)}"


# `%hvd push` and `%hvd pull`


def push_named(held: HeldRanks, names: Iterable[str]) -> None:
    """Push values from the kernel to every rank, whatever their size.

    Raises:
        DistributeError: a name does not exist, or its value cannot be sent.
    """
    namespace = held.history.namespace
    values = {}
    for name in names:
        if name not in namespace:
            raise DistributeError(f"there is no `{name}` in the notebook")
        values[name] = pack_value(namespace[name], limit=None)
        if values[name].kind == "none":
            raise DistributeError(f"`{name}`: {values[name].why}")
        held.rescued.pop(name, None)  # it is the notebook's that the ranks are to have
    held.require_ready()
    failed = push_now(held, {AccessPath(n): v for n, v in values.items()}, held.make_screen())
    arrived = {name: value for name, value in values.items() if name not in failed}
    weights = {n: digest_value(v) for n, v in arrived.items() if v.kind in TRAINED}
    # Weights are set in what a cell has made; that cell is needed as before.
    plain = [name for name in arrived if name not in weights]
    held.state = held.state.with_pushed(weights).with_given(plain, len(held.history.texts) - 1)


def pull_named(held: HeldRanks, names: Sequence[str]) -> None:
    """Copy values from rank 0 into the kernel; weights are set in the kernel's own objects.

    Raises:
        DistributeError: a name does not exist, or its value cannot be sent.
    """
    run = held.require_ready().run(
        remote.get_values, [AccessPath(name) for name in names], ranks=[0]
    )
    recover_from_run(held, run, held.make_screen())
    values: dict[str, SerializedValue] = run.replies[0]
    namespace = held.history.namespace
    for name in names:
        packed = values.get(name)
        if packed is None:
            raise DistributeError(f"there is no `{name}` on rank 0")
        try:
            namespace[name] = unpack_value(packed, namespace.get(name))
        except Exception as error:
            raise DistributeError(f"`{name}`: {error}") from None
        if packed.kind in TRAINED:
            own = {name: digest_value(pack_value(namespace[name]))}
            held.state = held.state.with_pushed(own)


def pack_copied(value: Any, limit: int | None = SMALL) -> SerializedValue:
    """Serialize a value for a name that the ranks do not have; of kind "none" if only weights could be sent.

    Args:
        limit: the largest size in bytes; None for no limit.
    """
    if isinstance(value, ModuleType):
        return pack_module(value)
    packed = pack_value(value, limit)
    if packed.kind not in TRAINED:
        return packed
    return SerializedValue("none", why=explain_not_transferable(value))


def is_copied(value: Any) -> bool:
    """Whether a value can be sent as a copy, however large."""
    kind = keras_kind(value)
    return is_plain(value) if kind is None else kind not in TRAINED
