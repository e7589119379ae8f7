"""After a call on the ranks: reports what went wrong, and makes the ranks usable for the next cell."""

from __future__ import annotations

from typing import Any

from ..ranks.paths import TRAINED, weighted_objects
from ..ranks.serialization import is_plain, keras_kind
from ..ranks.trained_weights import compare_trained
from .cell_names import names_of
from .cell_output import CellOutput
from .errors import named_error
from .held_ranks import HeldRanks, quote_names
from .monitor import Run
from .planning import CellPlan, find_recovery
from .program import Program
from .reports import failure_of, headed_failure


def recover_from_run(
    held: HeldRanks,
    run: Run,
    screen: CellOutput,
    heading: str | None = None,
    timeout: float | None = None,
    plan: CellPlan | None = None,
    same_end: bool = True,
) -> None:
    """If a run failed, interrupt, synchronize or restart the ranks until they are usable, and raise its error.

    Args:
        heading: a line above the report.
        timeout: the seconds that the run was given.
        plan: the plan of the cell that ran, if it was one.
        same_end: whether all ranks ran the same code.

    Raises:
        DistributeError: the run failed.
    """
    failure = failure_of(run, held.files, timeout)
    if failure is None:
        return
    screen.show_rest()
    if run.has_trained:
        held.state = held.state.after_failed_training()
    lines = [
        *([heading] if heading else []),
        *failure.lines,
        *_recover_ranks(held, run, plan, same_end),
    ]
    raise named_error(failure.name, failure.message, lines)


def compare_weights(held: HeldRanks, run: Run, program: Program, screen: CellOutput) -> None:
    """Compare the ranks' weights if a run has trained and digests differ. Calls all ranks.

    For programs that use Horovod themselves, a difference is only shown.

    Raises:
        DistributeError: they differ.
    """
    if not run.has_trained or run.is_replicated:
        return
    met = held.require_cluster().run(compare_trained)
    recover_from_run(held, met, screen)
    told: str = next(filter(None, met.replies.values()), "")
    if told and program.uses_horovod:
        screen.add_line(told)
    elif told:
        failure = headed_failure("RanksDiffer", told, "The notebook keeps the weights that it had.")
        raise named_error(failure.name, failure.message, list(failure.lines))


def _recover_ranks(held: HeldRanks, run: Run, plan: CellPlan | None, same_end: bool) -> list[str]:
    """Make the ranks usable for the next cell: as they are, synchronized, or restarted; return lines that say which."""
    cluster = held.require_cluster()
    usable = run.is_usable and not run.waited and cluster.ranks_agree()
    if usable and (run.in_step or not same_end):
        return []
    # Those that share each batch begin no training with a broadcast.
    goes_on = not cluster.shares_batches
    if goes_on and (usable or (run.is_usable and cluster.rejoin_horovod())):
        found = _synchronize_ranks(held, plan)
        if found is not None:
            how = "are usable" if usable else "live on, and Horovod is restarted in them"
            return [f"The ranks {how}: what is on them is kept.", *found]
    rescued = held.rescue_weights(run)
    held.renew()
    lines = [
        "The ranks are restarted; what was on them is gone. "
        "The next %%distribute runs the cells that it needs again."
    ]
    if rescued:
        lines.append(
            f"It goes on with the weights that the ranks had of {quote_names(rescued)}; optimizers are as in the notebook. "
            "`%hvd restart` forgets them."
        )
    return lines


def _synchronize_ranks(held: HeldRanks, plan: CellPlan | None) -> list[str] | None:
    """Make the ranks usable as one program after a cell was interrupted on them at different points.

    The next training broadcasts rank 0's weights. Other data that the cell changed, and iterators that it used, may
    differ between ranks; their cells run again when they are needed.

    Returns:
        Lines for the user; None if the ranks are not usable.
    """
    if plan is None or plan.program.uses_horovod:
        return []  # what is as it was; and ranks that may mean to differ
    namespace = held.history.namespace
    cells = held.history.cells_before(plan.number)
    bound = {name for cell in cells for name in names_of(cell.source).binds}
    weights = {n for n in bound if n in namespace and is_trained(namespace[n])}
    weights |= {
        path.name for each in weighted_objects(namespace, sorted(bound)) for path in each.paths
    }
    data = {n for n in plan.needs.changed if n in namespace and is_plain(namespace[n])}
    ordered = held.require_cluster().synchronize_ranks(plan.needs.names)
    if ordered is None:
        return None
    again, left = find_recovery(held.state, cells, ordered | data, weights)
    left |= data & held.state.given.keys()
    held.state = held.state.without_cells(again, data)
    lines = ["The next training begins with rank 0's weights on all of them."] * bool(weights)
    if left:
        lines.append(
            f"They may have stopped at different points in {quote_names(left)}: `%hvd restart` starts all of them with the "
            "notebook's weights."
        )
    return lines


def is_trained(value: Any) -> bool:
    """Whether a value has training state: a model, a layer, a variable, an optimizer."""
    return keras_kind(value) in TRAINED or hasattr(value, "apply_gradients")
