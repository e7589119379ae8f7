"""What is compared, and what each comparison says. Pure functions of the records of the runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Sized
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal

from .losing import Loss
from .partings import Parting
from .probe import SAMPLED_STEPS

#: By what part a number of 32 bits may be off.
ROUNDING = 2.0**-23
#: The checks that take long, whose beginning is told.
IDENTICAL, NOT_STUCK, GOES_ON = "one rank identical", "no rank stuck", "goes on without a rank"
Outcome = Literal["running", "pass", "fail", "unknown"]


@dataclass(frozen=True)
class Record:
    """What the probe of one rank wrote down, see `Probe.finish`.

    Attributes:
        kept: names the file of its first weights.
        cpu_seconds: what each step had of all cores together, of the `cores` that it may use.
    """

    rank: int
    steps: int
    seconds: Sequence[float]
    weights: Sequence[str]
    optimizer_state: Sequence[str]
    learning_rates: Sequence[Sequence[float]]
    schedules: Sequence[Sequence[Sequence[float]]]
    broadcasts: Sequence[int]
    optimizer_broadcasts: Sequence[int]
    starts: Sequence[int]
    compiled_broadcasts: int
    rows: dict[str, int]
    endless: bool
    written: Sequence[str]
    here: str
    cpu_seconds: Sequence[float] = ()
    cores: int = 1
    names: Sequence[str] = ()
    updated_by: Sequence[int] = ()
    rounds_freely: bool = False
    kept: str = ""
    trail: Sequence[Mapping[str, Any]] = ()
    refused: Sequence[str] = ()
    printed: Sequence[str] = ()
    files: Sequence[str] = ()
    by_shell: Sequence[str] = ()


@dataclass(frozen=True)
class Run:
    """One run of a program: how it ended, and the record of each rank, in order.

    Attributes:
        stall: where the ranks were when they made no progress, and what it means; nothing where they did.
    """

    code: int
    report: str
    records: tuple[Record, ...]
    stall: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return self.code == 0 and bool(self.records)


@dataclass(frozen=True)
class Step:
    """How long a step takes: on one rank, what it has of all cores together there, and on `ranks` of them."""

    seconds: float
    cpu_seconds: float
    cores: int
    ranks: int
    ranks_seconds: float


@dataclass(frozen=True)
class Check:
    """One line of the table; `step` is there where steps were timed."""

    check: str
    status: Outcome
    detail: str
    step: Step | None = None

    def as_json(self) -> dict[str, Any]:
        said = {"check": self.check, "status": self.status, "detail": self.detail}
        return said if self.step is None else {**said, "step": asdict(self.step)}


def one_rank_identical(original: Run, single: Run, parting: Parting | None = None) -> Check:
    """The conversion on one rank does, bit for bit, what the original does.

    Args:
        parting: where their weights first differ by more than they may.
    """
    name = IDENTICAL
    if not original.holds:
        return Check(name, "unknown", f"the original does not run: {_last_line(original.report)}")
    if not single.holds:
        return Check(
            name, "fail", f"the conversion does not run on one rank: {_last_line(single.report)}"
        )
    before, after = original.records[0], single.records[0]
    if not before.weights:
        return Check(name, "unknown", "the original made no training step")
    differing = sum(a != b for a, b in zip(before.weights, after.weights, strict=False))
    unlike = len(before.weights) != len(after.weights) or before.steps != after.steps
    if differing and not unlike and before.rounds_freely and parting is None:
        return Check(name, "pass", f"{len(before.weights)} variables, but for rounding")
    if unlike or differing:
        return Check(
            name,
            "fail",
            f"{differing} of {len(before.weights)} variables differ after {before.steps} and {after.steps} steps"
            + (f"; {parting}" if parting else ""),
        )
    return Check(
        name, "pass", f"{len(before.weights)} variables bit for bit after {before.steps} steps"
    )


def nobody_stuck(job: Run, timeout: float) -> Check:
    """All ranks came to the end."""
    name = NOT_STUCK
    if job.code == 124:
        told = "\n".join([f"no end within {timeout:g} s: ranks wait for one another", *job.stall])
        return Check(name, "fail", told)
    if not job.holds:
        return Check(name, "fail", f"the job failed: {_last_line(job.report)}")
    steps = {record.steps for record in job.records}
    if len(steps) > 1:
        return Check(name, "fail", f"ranks made {sorted(steps)} steps")
    return Check(name, "pass", f"all made {steps.pop()} steps")


def ranks_agree(job: Run, partings: Mapping[int, Parting] | None = None) -> Check:
    """Ranks that began with different seeds end with the same weights and optimizer state.

    Args:
        partings: by rank, where its weights first differ from rank 0's by more than they may.
    """
    name = "ranks agree"
    if len(job.records) < 2 or not all(record.weights for record in job.records):
        return Check(name, "unknown", "not every rank has trained")
    partings = partings or {}
    if job.records[0].rounds_freely and not partings and same_sizes(job.records):
        return Check(
            name, "pass", f"{len(job.records)} ranks with different seeds, but for rounding"
        )
    for what in ("weights", "optimizer_state"):
        first = getattr(job.records[0], what)
        for record in job.records[1:]:
            differing = sum(a != b for a, b in zip(first, getattr(record, what), strict=False))
            if differing or len(first) != len(getattr(record, what)):
                which = what.replace("_", " ")
                return Check(
                    name,
                    "fail",
                    f"{differing} of {len(first)} {which} differ between rank 0 and {record.rank}"
                    + (f"; {partings[record.rank]}" if record.rank in partings else ""),
                )
    return Check(
        name,
        "pass",
        f"{len(job.records)} ranks with different seeds, {len(job.records[0].weights)} equal variables",
    )


def goes_on(loss: Loss, job: Run) -> Check:
    """An elastic job that loses a rank comes to its end, with equal weights on the ranks that are left.

    Args:
        job: the ranks that came to the end.
    """
    name = GOES_ON
    if loss.killed is None and loss.result.code == 0:
        return Check(name, "unknown", "the program ended before a rank could be killed")
    if loss.result.code == 124:
        return Check(name, "unknown", f"{loss.result.report}: the whole program takes longer")
    if loss.result.code != 0:
        return Check(name, "fail", f"the job failed: {_last_line(loss.result.report)}")
    agreed = ranks_agree(job)
    if agreed.status == "fail":
        return Check(name, "fail", f"after rank {loss.killed} was killed {agreed.detail}")
    kept = "" if loss.had_kept else ", before anything was kept"
    went_on = f"; {loss.goes_on[-1]}" if loss.goes_on else "; the program began anew"
    return Check(
        name,
        "pass",
        f"rank {loss.killed} was killed{kept}{went_on}; {loss.left} ranks came to the end with equal weights",
    )


def same_sizes(records: Sequence[Record]) -> bool:
    """Whether all ranks have as many weights, and as much optimizer state."""
    return len({(len(r.weights), len(r.optimizer_state)) for r in records}) == 1


def broadcast_once(job: Run) -> Check:
    """Every trained variable is broadcast once, outside compiled functions.

    A variable that several optimizers or fits train is broadcast where each begins, at most.
    """
    name = "broadcast once"
    if not job.records:
        return Check(name, "unknown", "no rank has a record")
    for record in job.records:
        if record.compiled_broadcasts:
            return Check(
                name,
                "fail",
                "a broadcast is compiled into the step: it runs never, or at every step",
            )
        counts = set(record.broadcasts)
        often = any(n > most for n, most in zip(record.broadcasts, record.starts, strict=True))
        if not counts or min(counts) < 1 or often:
            return Check(
                name,
                "fail",
                f"variables are broadcast {sorted(counts)} times on rank {record.rank}",
            )
    zero = job.records[0]
    when = "once each" if set(zero.broadcasts) == {1} else "once for each fit or optimizer"
    return Check(name, "pass", f"{len(zero.broadcasts)} variables, {when}")


def rate_scaled(original: Run, job: Run, kept: int = 0) -> Check:
    """Every learning rate is that of one process times the number of ranks, from the first to the last.

    Rates that are set one after another are compared in their order, or, where they are set at each step, the one at N ranks and
    step s with what one process has set around step N·s; so is a schedule.

    Args:
        kept: so many optimizers may keep their rate, since each rank takes their steps on all the data (HVD504).
    """
    name = "learning rate scaled"
    if not original.records or not job.records:
        return Check(name, "unknown", "there is nothing to compare")
    size = len(job.records)
    alone, rank = original.records[0], job.records[0]
    told: list[str] = []
    late: list[float] = []
    for ones, manys in zip(alone.learning_rates, rank.learning_rates, strict=False):
        if kept and ones == manys and any(ones):
            kept -= 1
            told.append(f"{ones[0]:g} kept, on whole data")
            continue
        by_steps = _goes_by_steps(ones, manys, size)
        for one, many in zip(ones, manys, strict=False):
            if not by_steps and not _between(many, [size * one]):
                return Check(name, "fail", f"{one:g} on one rank, {many:g} on {size}")
            told += [] if by_steps else [f"{one:g} → {many:g}"]
        told += [f"{len(manys)} rates, set by the steps of one process"] if by_steps else []
        if not by_steps and size * (rank.steps - 1) >= alone.steps:  # all of the data has been seen
            late += ones[len(manys) :]
    for ones_around, manys_around in zip(alone.schedules, rank.schedules, strict=False):
        if (
            kept and ones_around[0][0] == manys_around[0][0]
        ):  # at the first step, to which both count alike
            kept -= 1
            told.append("a schedule kept, on whole data")
            continue
        for step, around, (many, *_) in zip(SAMPLED_STEPS, ones_around, manys_around, strict=True):
            if not _between(many, [size * one for one in around]):
                return Check(
                    name,
                    "fail",
                    f"{around[0]:g} at step {size * step} on one rank, {many:g} at step {step} on {size}",
                )
        told.append(f"a schedule at {len(ones_around)} steps")
    if not told:
        return Check(name, "unknown", "no optimizer was seen")
    if late:
        return Check(
            name,
            "unknown",
            f"one process comes to {late[0]:g} in {alone.steps} steps, {size} ranks did not in {rank.steps} each: "
            f"where a count of steps decides, it comes {size} times as late",
        )
    return Check(name, "pass", ", ".join(told[:4]) + (", …" if len(told) > 4 else ""))


def _goes_by_steps(ones: Sequence[float], manys: Sequence[float], size: int) -> bool:
    """Whether the k-th rate of N ranks is one that one process has around its N·k-th."""
    reached = min(len(manys), len(ones) // size)
    return reached > 1 and all(
        _between(
            manys[k], [size * one for one in ones[max(0, size * (k - 1)) : size * (k + 1) + 1]]
        )
        for k in range(reached)
    )


def _between(value: float, bounds: Sequence[float]) -> bool:
    """Whether a value is one of the bounds or between them, but for rounding: a schedule is computed in 32 bits, by some
    dozens of operations.
    """
    slack = 64 * ROUNDING * max(map(abs, bounds))
    return min(bounds) - slack <= value <= max(bounds) + slack


def work_divided(original: Run, job: Run, ways: Sequence[str] = ()) -> Check:
    """In the first epoch each example is seen by one rank, once.

    Args:
        ways: how the data are divided, as the changes say.
    """
    found = _work_divided(original, job)
    return replace(found, detail="; ".join([found.detail, *ways]))


def _work_divided(original: Run, job: Run) -> Check:
    name = "work divided"
    if not original.records or len(job.records) < 2:
        return Check(name, "unknown", "there is nothing to compare")
    if any(record.endless for record in (*original.records, *job.records)):
        return Check(name, "unknown", "the data have no end, so an epoch cannot be counted")
    whole = Counter(original.records[0].rows)
    shares = [Counter(record.rows) for record in job.records]
    if not whole:
        return Check(
            name, "unknown", "training data were not seen: the loop draws them in its own way"
        )
    seen: Counter[str] = sum(shares, Counter())
    sizes = " + ".join(str(share.total()) for share in shares)
    if seen == whole:
        return Check(name, "pass", f"{whole.total()} examples = {sizes}, each seen once")
    shared = sum(len(a.keys() & b.keys()) for i, a in enumerate(shares) for b in shares[:i])
    if seen.total() == whole.total() and not shared and max(whole.values()) > 1:
        return Check(name, "pass", f"{whole.total()} draws = {sizes}, no example on two ranks")
    # One that one process has not seen at all is made as it is read: noise is added, or data in random orders are paired.
    if len(seen.keys() - whole.keys()) >= len(shares):
        return Check(
            name, "unknown", f"examples change as they are read; {whole.total()} become {sizes}"
        )
    more, less = (seen - whole).total(), (whole - seen).total()
    if more + less < len(shares):
        return Check(
            name,
            "pass",
            f"{whole.total()} examples ≈ {sizes}: {more} twice, {less} left out, to keep steps equal",
        )
    return Check(
        name,
        "fail",
        f"{whole.total()} examples, ranks see {sizes}: {more} too many, {less} not seen",
    )


def only_rank_zero_writes(job: Run, temporary: Sequence[str]) -> Check:
    """No rank but 0 prints or writes files."""
    name = "output from rank 0 only"
    if not job.records:
        return Check(name, "unknown", "no rank has a record")
    for record in job.records[1:]:
        if record.printed:
            return Check(name, "fail", f"rank {record.rank} prints {record.printed[0][:60]!r}")
        strange = [
            path
            for path in record.written
            if not path.startswith((record.here, *temporary)) and "__pycache__" not in path
        ]
        names = [*record.files, *(Path(path).name for path in strange)]
        names = [name for name in names if name not in record.by_shell]
        own = f"-{record.rank}-of-{len(job.records)}"  # a cache of this rank's share
        written = [name for name in names if own not in name]
        if written:
            return Check(name, "fail", f"rank {record.rank} writes {written[0]}")
    zero = job.records[0]
    lines, files = _counted(zero.printed, "line"), _counted(zero.files, "file")
    return Check(name, "pass", f"{lines} and {files}, all from rank 0")


def _counted(things: Sized, noun: str) -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"


def saved_models_load(faults: Sequence[tuple[str, str | None]], saved: int) -> Check:
    """A model that the converted program saves is one that anybody can load.

    Args:
        faults: each model that tells something of the conversion, and what is wrong with it.
        saved: how many models rank 0 saves.
    """
    name = "saved models load"
    for model, fault in faults:
        if fault is not None:
            return Check(name, "fail", f"{model}, without Horovod and this package: {fault}")
    if not saved:
        return Check(name, "pass", "within these steps no model is saved")
    if not faults:
        return Check(name, "unknown", "without the program's own classes they cannot be loaded")
    which = ", ".join(model for model, _ in faults)
    return Check(name, "pass", f"{which}: without Horovod and this package")


def files_untouched(refused: Sequence[str], changes: Sequence[str]) -> Check:
    """The files beside the program are as they were: it has worked on copies.

    Args:
        refused: files that the program was kept from changing.
        changes: the files that are not what they were when the first run began.
    """
    name = "your files untouched"
    if refused:
        return Check(
            name,
            "fail",
            f"the program wants to change {refused[0]}, which was refused: it may write below its working folder",
        )
    if changes:
        also = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
        return Check(
            name,
            "unknown",
            f"{changes[0]}{also} changed meanwhile: by the program, under a full path, or by somebody else",
        )
    return Check(name, "pass", "the programs worked on copies")


def step_time(single: Run, job: Run) -> Check:
    """How long a step takes on one rank and on all."""
    name = "step time"
    if not single.records or not job.records:
        return Check(name, "unknown", "there is nothing to compare")
    alone = single.records[0]
    one, many = alone.seconds[1:], job.records[0].seconds[1:]
    if len(one) < 2 or len(many) < 2:
        return Check(name, "unknown", "too few steps to time: try more with --steps")
    ratio = median(many) / median(one)
    detail = (
        f"{median(one) * 1e3:.1f} ms on 1 rank, {median(many) * 1e3:.1f} ms on {len(job.records)} (× {ratio:.2f}),"
        f" all on {alone.cores} cores of this machine"
    )
    step = Step(
        median(one),
        median(alone.cpu_seconds[1:] or one),
        alone.cores,
        len(job.records),
        median(many),
    )
    return Check(name, "pass", detail, step)


def _last_line(report: str) -> str:
    lines = [line for line in report.strip().splitlines() if line.strip()]
    return lines[-1] if lines else "no message"
