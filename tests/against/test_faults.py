"""What kind of error a difference looks like: pure functions of observed steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from jupyter_hvd.verify.against.faults import (
    Mode,
    compare_ranks,
    compare_with_original,
    find_data_fault,
    find_exit_fault,
    find_metric_fault,
    find_mode,
    find_overlap_fault,
    find_scaled_count_fault,
    find_scaling_fault,
    generate_own_data,
    take_same_examples,
)
from jupyter_hvd.verify.against.judgement import Judgement, judge_runs
from jupyter_hvd.verify.against.steps import Process, Step, process_of
from jupyter_hvd.verify.against.verification import AgainstVerification
from jupyter_hvd.verify.checks import Check
from jupyter_hvd.verify.exact.records import Event, Fit, Record, Site

ROWS = np.arange(1.0, 9.0)
GRADIENT = np.array([[0.5, 1.0], [-0.25, 0.5]])
WEIGHTS = np.array([[1.0, 2.0], [0.3, 0.4]])
OWN = Step(
    names=("kernel", "bias"),
    rate=0.1,
    update_line="train.py, line 9",
    before=WEIGHTS,
    applied=GRADIENT,
    after=WEIGHTS - 0.1 * GRADIENT,
    gradients=GRADIENT,
    loss=2.0,
    gradient_line="train.py, line 8",
    rows=ROWS,
)
#: What two ranks compute from half of the rows each: their gradients, and losses, differ.
APART = np.array([[0.2, 0.2], [0.1, 0.1]])
RANKS = tuple(
    replace(OWN, gradients=GRADIENT + sign * APART, loss=2.0 + sign, rows=ROWS[rank::2])
    for rank, sign in enumerate((1, -1))
)


def process(*steps: Step) -> Process:
    return Process(Record(), steps)


def kinds(*ranks: Step, own: Step = OWN) -> tuple[str, str]:
    """The kinds of fault that show beside the original, and between the ranks."""
    processes = [process(step) for step in ranks]
    walks = [walk(process(own), processes, 1e-4) for walk in (compare_with_original, compare_ranks)]
    exact, between = (w.fault.kind if w.fault else w.unjudged for w in walks)
    return exact, between


def test_a_right_step() -> None:
    assert kinds(*RANKS) == ("", "")


def test_gradients() -> None:
    local = [replace(step, applied=step.gradients) for step in RANKS]
    assert kinds(*local) == ("not averaged", "not averaged")
    summed = [replace(step, applied=2 * GRADIENT) for step in RANKS]
    assert kinds(*summed) == ("summed instead of averaged", "summed instead of averaged")
    halved = [replace(step, applied=GRADIENT / 2) for step in RANKS]
    assert kinds(*halved) == ("averaged twice", "averaged twice")
    clips = replace(OWN, applied=0.1 * GRADIENT)
    clipped = [replace(step, applied=0.1 * GRADIENT + 0.01) for step in RANKS]
    assert kinds(*clipped, own=clips) == ("clipped before averaging", "")
    assert kinds(*RANKS, own=clips) == ("gradients not changed before the update", "")


def test_losses_that_are_divided_are_summed() -> None:
    ranks = [
        replace(s, applied=GRADIENT, gradients=s.gradients / 2, loss=s.loss / 2)
        for s in RANKS
        if s.gradients is not None
    ]
    assert kinds(*ranks) == ("", "")


def test_rates_and_updates() -> None:
    assert kinds(*[replace(s, rate=0.2) for s in RANKS])[0] == "rate scaled, batch not"
    assert kinds(RANKS[0], replace(RANKS[1], rate=0.2)) == ("other rate", "other rate")
    moved = replace(RANKS[1], after=OWN.after + 0.01)
    assert kinds(RANKS[0], moved)[1] == "optimizer state not broadcast"
    assert kinds(*[replace(s, after=OWN.after + 0.01) for s in RANKS])[0] == "other update"


def test_weights() -> None:
    others = [replace(s, before=WEIGHTS + 0.1, after=OWN.after + 0.1) for s in RANKS]
    assert kinds(*others)[0] == "other initial weights"
    apart = replace(RANKS[1], before=WEIGHTS + 0.1, after=OWN.after + 0.1)
    assert kinds(RANKS[0], apart) == ("ranks begin with different weights", "")
    ranks = [process(RANKS[0], RANKS[0]), process(apart, apart)]
    found = compare_ranks(process(OWN, OWN), ranks, 1e-4).fault
    assert found is not None
    assert (found.kind, found.step) == ("weights not broadcast", 2)


def test_ranks_that_draw_the_same_examples_with_equal_seeds() -> None:
    """Each rank takes as many examples as there are: so many may never be drawn, whatever the number of ranks."""
    rng = np.random.default_rng(0)
    examples = np.arange(64.0)
    own = process(*[replace(OWN, rows=rng.permutation(examples)) for _ in range(2)])
    drawn = [replace(OWN, rows=rng.choice(examples, 16)) for _ in range(5)]
    never = 64 - len(np.unique(np.concatenate([step.rows for step in drawn])))
    assert never > 13
    assert find_data_fault(own, [process(*drawn)] * 4)[0] is None
    half = [replace(OWN, rows=examples[:16]), replace(OWN, rows=examples[16:32])] * 8
    found = find_data_fault(own, [process(*half)] * 2)[0]
    assert found is not None
    assert "32 of 64 examples of one process are never taken" in found.detail


def test_a_first_step_that_is_overwritten() -> None:
    """It makes the optimizer's state, and need not be averaged; all later ones must be."""
    local = [replace(s, applied=s.gradients, after=WEIGHTS - 0.1 * s.gradients) for s in RANKS]  # type: ignore[operator]
    original = process(*[OWN] * 3)
    begun = [process(first, step, step) for first, step in zip(local, RANKS, strict=True)]
    found = compare_ranks(original, begun, 1e-4)
    assert found.fault is None
    assert found.counts["averaged gradients"] == 2
    apart = replace(RANKS[1], before=local[1].after)
    kept = [process(local[0], RANKS[0]), process(local[1], apart)]
    assert compare_ranks(original, kept, 1e-4).fault is not None
    later = [process(first, first) for first in local]
    found = compare_ranks(original, later, 1e-4)
    assert found.fault is not None
    assert (found.fault.kind, found.fault.step) == ("not averaged", 2)


def test_data() -> None:
    epochs = process(*[OWN] * 4)
    shared = [process(*[step] * 4) for step in RANKS]
    assert find_data_fault(epochs, shared)[0] is None
    assert not take_same_examples(shared)
    assert take_same_examples([shared[0], shared[0]])
    assert compare_with_original(epochs, [shared[0], shared[0]], 1e-4).unjudged
    half = find_data_fault(epochs, [process(*[RANKS[0]] * 8)] * 2)[0]
    assert half is not None
    assert half.kind == "other data on a rank"
    foreign = process(replace(RANKS[1], rows=ROWS[1::2] + 0.5))
    found = find_data_fault(epochs, [shared[0], foreign])[0]
    assert found is not None
    assert "of rank 1" in found.detail


@pytest.mark.parametrize(
    ("factor", "kind"),
    [(1, "rate not scaled"), (2, ""), (4, "rate scaled twice"), (3, "")],
)
def test_scaled_rates(factor: int, kind: str) -> None:
    ranks = [process(replace(s, rate=0.1 * factor, rows=ROWS)) for s in RANKS]
    fault, said = find_scaling_fault(process(OWN), ranks)
    assert (fault.kind if fault else "") == kind
    assert said.startswith("not judged") == (factor == 3)
    assert find_mode(process(OWN), ranks)[0] == "scaled"
    assert find_mode(process(OWN), [process(s) for s in RANKS])[0] == "exact"


def test_steps_are_read_from_a_record() -> None:
    sites = tuple(
        Site(kind, f"train.py, line {line}", ("kernel",))
        for line, kind in enumerate(("batch", "gradient", "before", "applied", "update"), 1)
    )
    numbers = ((4, ROWS[:4]), (2.0, [1, 1]), (0.1, [3, 3]), (0.1, [1, 1]), (0.1, [2, 2]))
    once = tuple(Event(n, v, np.array(m, float)) for n, (v, m) in enumerate(numbers))
    found = process_of(Record(sites=sites, events=(*once, *once, *once[:2])))
    assert [step.update_line for step in found.steps] == ["train.py, line 5"] * 2
    assert (found.begun, found.batch_size, found.steps[0].loss) == (3, 4, 2.0)
    assert found.steps[0].change == pytest.approx([-1.0])
    ended = replace(found, record=replace(found.record, events=found.record.events[:5]))
    short = replace(ended, steps=found.steps[:1])
    fault = find_exit_fault([found, process_of(short.record)])
    assert fault is not None
    assert (fault.kind, fault.step) == ("early exit on one rank", 2)


def sharding(*steps: list[float], line: str = "train.py, line 5") -> Process:
    """A process that takes these rows, step by step, of data that it has sharded."""
    made = [replace(OWN, rows=np.array(rows)) for rows in steps]
    return Process(Record(shard_line=line), tuple(made))


def test_shards_that_overlap() -> None:
    own = process(*[replace(OWN, rows=ROWS[first : first + 4]) for first in (0, 4, 0, 4)])
    apart = [sharding([1, 3], [5, 7], [2, 3]), sharding([2, 4], [6, 8], [1, 4])]
    assert find_overlap_fault(own, apart) is None  # the third steps are those of another epoch
    overlapping = [sharding([1, 3], [5, 7]), sharding([2, 4], [6, 7])]
    found = find_overlap_fault(own, overlapping)
    assert found is not None
    assert (found.kind, found.step, found.line) == ("shards overlap", 2, "train.py, line 5")
    assert "the same 1 example," in found.detail
    drawn = [sharding([1, 3], line=""), sharding([2, 3], line="")]
    assert (
        find_overlap_fault(own, drawn) is None
    )  # a program that does not shard may draw any examples
    repeating = process(*[replace(OWN, rows=ROWS[:4])] * 2, replace(OWN, rows=ROWS[4:]))
    assert find_overlap_fault(repeating, overlapping) is None
    for judged in (
        judge_runs(own, tuple(overlapping), (), "exact", 1e-4),
        judge_runs(own, tuple(apart), tuple(overlapping), "exact", 1e-4),
    ):
        assert judged.first_fault is not None
        assert judged.first_fault.kind == "shards overlap"


def test_steps_of_ranks_that_draw_their_own_examples() -> None:
    """As a benchmark does: one batch that each rank draws by its random numbers, again and again."""
    own, ranks = process(*[OWN] * 4), [process(*[replace(OWN, rate=0.2)] * 4)] * 2
    own, *ranks = (
        replace(
            p,
            record=replace(
                p.record, sites=(Site("update", "", ()),), events=(Event(0, 0.1, ROWS),) * 4
            ),
        )
        for p in (own, *ranks)
    )
    seeded = (ranks[0], process(*[replace(OWN, rows=ROWS + 0.5)] * 3))
    assert generate_own_data(own, seeded)
    assert not generate_own_data(own, (ranks[0], process(*[replace(OWN, rows=ROWS[::-1])] * 3)))
    augmented = process(*[replace(OWN, rows=ROWS + 10 * n) for n in range(4)])
    assert not generate_own_data(augmented, seeded)
    judged = judge_runs(own, tuple(ranks), (), "scaled", 1e-4)
    assert judged.needs_own_seeds
    judged = judge_runs(own, tuple(ranks), seeded, "scaled", 1e-4)
    assert "number of steps not divided" not in {fault.kind for fault in judged.all_faults}
    steps = next(check for check in judged.list_checks(2) if check.check == "2 ranks: steps")
    assert (steps.status, "as in a benchmark" in steps.detail) == ("unknown", True)


def test_rounding_explains_what_it_makes_as_well_and_no_more() -> None:
    local = [process(replace(s, loss=s.loss + 0.5, rows=ROWS[r::2])) for r, s in enumerate(RANKS)]
    normalized = replace(process(OWN), record=Record(normalizations=("norm",)))
    moved = replace(OWN, after=OWN.after + np.array([[0.0, 0.0], [0.01, 0.0]]))
    again, rounded = process(OWN), process(moved)
    found = judge_runs(normalized, tuple(local), (), "exact", 1e-4, (again, rounded))
    assert found.first_fault is not None
    assert (found.first_fault.kind, found.noise) == ("moments of batch normalisation local", "")
    also_lost = process(replace(OWN, loss=2.5))
    found = judge_runs(normalized, tuple(local), (), "exact", 1e-4, (also_lost, rounded))
    assert found.first_fault is None
    assert found.noise.startswith(
        "two runs of the original with equal seeds differ from step 1 on ("
    )
    assert {c.status for c in found.list_checks(2) if c.check == "2 ranks: loss"} == {"unknown"}


def test_an_original_that_takes_other_examples_each_time_judges_none_of_them() -> None:
    """Whole runs are compared where no step is: here losses differ, too."""
    own = process(OWN, OWN)  # two epochs
    other = [replace(s, rows=s.rows + 7, loss=s.loss + 7) for s in RANKS]
    ranks = tuple(process(s, s) for s in other)
    found = judge_runs(own, ranks, (), "exact", 1e-4)
    assert found.first_fault is not None
    assert (found.first_fault.kind, found.needs_noise) == ("other data on a rank", True)
    step = replace(OWN, rows=OWN.rows + 3, loss=OWN.loss + 3)
    again = process(step, step)
    random = judge_runs(own, ranks, (), "exact", 1e-4, (again, again))
    assert random.first_fault is None
    assert random.noise.startswith(
        "two runs of the original with equal seeds differ from step 1 on ("
    )
    same = judge_runs(own, ranks, (), "exact", 1e-4, (own, own))
    assert same.first_fault is not None
    assert same.first_fault.kind == "other data on a rank"


def test_no_check_passes_on_what_was_not_observed() -> None:
    bare = process(replace(OWN, rows=None, gradients=None, loss=float("nan")))
    found = judge_runs(bare, (bare, bare), (), "exact", 1e-4)
    passed = {c.check for c in found.list_checks(2) if c.status == "pass"}
    assert not passed & {"2 ranks: data", "2 ranks: loss", "2 ranks: broadcast", "2 ranks: history"}


def test_other_variables() -> None:
    one = replace(
        OWN, names=("kernel",), before=WEIGHTS[:1], applied=GRADIENT[:1], after=OWN.after[:1]
    )
    found = compare_with_original(process(OWN), [process(one), process(one)], 1e-4).fault
    assert found is not None
    assert (found.kind, found.step) == ("other variables updated", 1)
    twice = process(one, replace(one, names=("bias",)))
    assert compare_with_original(process(OWN), [twice, twice], 1e-4).unjudged


def test_gradients_in_half_precision() -> None:
    rounded = [replace(step, applied=GRADIENT * (1 + 2.0**-11)) for step in RANKS]
    exact, between = kinds(*rounded)
    assert "half precision" in exact
    assert between == ""


def scheduled(
    rates: list[float], rows: int, lines: tuple[str, ...] = ("train.py, line 9",)
) -> Process:
    """A process that makes an update at each rate, of so many rows, observed as by `Observer`."""
    sites = tuple(
        Site(kind, line, ("kernel",), "train.py, line 4" * (kind == "update"))
        for line in lines
        for kind in ("batch", "before", "applied", "update")
    )
    events = [
        Event(site, value, np.array(measures, float))
        for n, rate in enumerate(rates)
        for site, value, measures in (
            (0, rows, np.arange(rows) + n * rows),
            (1, rate, [1, 1]),
            (2, rate, [1, 1]),
            (3, rate, [1, 1]),
        )
    ]
    return process_of(Record(sites=sites, events=tuple(events)))


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ([0.8, 0.8, 0.4, 0.4, 0.2, 0.2], ""),
        ([0.8, 0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.4, 0.2], "2 times too late"),
        ([0.8, 0.4, 0.2, 0.1, 0.05, 0.025], "2 times too early"),
        ([0.4, 0.4, 0.2, 0.2, 0.1, 0.1], "not scaled"),
    ],
)
def test_schedules_of_scaled_programs(rates: list[float], said: str) -> None:
    own = [0.4 * 0.5 ** (step // 4) for step in range(12)]
    found, text = find_scaling_fault(scheduled(own, 8), [scheduled(rates, 8)] * 2)
    if not said:
        assert (found, "as many examples" in text) == (None, True)
        return
    assert found is not None
    assert (found.kind, found.line) == ("schedule not scaled", "train.py, line 4")
    assert said in found.detail


def test_numbers_of_steps_of_scaled_programs() -> None:
    own = scheduled([0.1] * 6, 8)
    assert find_scaled_count_fault(own, [scheduled([0.2] * 3, 8)] * 2) is None
    found = find_scaled_count_fault(own, [scheduled([0.2] * 6, 8)] * 2)
    assert found is not None
    assert (found.kind, found.step) == ("number of steps not divided", 6)


def test_moments_differ_by_design_where_one_rank_has_no_difference() -> None:
    local = tuple(
        process(replace(s, loss=s.loss + 0.5, rows=ROWS[r::2])) for r, s in enumerate(RANKS)
    )
    normalized = replace(process(OWN), record=Record(normalizations=("norm",)))
    found = judge_runs(normalized, local, (), "exact", 1e-4)
    assert found.first_fault is not None
    assert found.needs_one_rank
    found = judge_runs(normalized, local, (), "exact", 1e-4, alone=process(OWN))
    assert found.first_fault is None
    assert "norm" in found.design_difference
    wrong = process(replace(OWN, loss=2.7))
    found = judge_runs(normalized, local, (), "exact", 1e-4, alone=wrong)
    assert found.first_fault is not None
    assert (found.first_fault.kind, found.design_difference) == ("other loss", "")
    assert "on 1 rank already" in found.first_fault.detail


@pytest.mark.parametrize(("loss", "wrong"), [(2.0, False), (4.0, False), (1.0, False), (2.7, True)])
def test_one_rank_forgives_what_takes_n_for_given(loss: float, wrong: bool) -> None:
    scaled = tuple(process(replace(s, rate=0.2, rows=ROWS + r)) for r, s in enumerate(RANKS))
    alone = process(replace(OWN, loss=loss))
    found = judge_runs(process(OWN), scaled, (), "scaled", 1e-4, alone=alone)
    assert (found.own_fault is not None) == wrong


@pytest.mark.parametrize(
    ("name", "theirs", "kind"),
    [
        ("val_loss", (0.9, 1.1), "metric of one rank"),
        ("val_loss", (0.9, 0.9), "other history"),
        ("val_loss", (1.0, 1.0), ""),
        ("loss", (0.0, 0.0), ""),
    ],
)
def test_histories(name: str, theirs: tuple[float, float], kind: str) -> None:
    def fitted(value: float) -> Process:
        return Process(Record(fits=(Fit("train.py, line 20", 1, {name: (value,)}),)), (OWN,))

    fault, said = find_metric_fault(fitted(1.0), [fitted(value) for value in theirs], 1e-4)
    assert (fault.kind if fault else "") == kind
    assert said.startswith("not judged") == (name == "loss")


def recorded(steps: tuple[Step, ...], made: int) -> Process:
    """A process that makes so many updates, of which the first steps were fully observed."""
    site = Site("update", "train.py, line 9", ("kernel", "bias"))
    return Process(Record(sites=(site,), events=(Event(0, 0.1, np.zeros(4)),) * made), steps)


def status(judgement: Judgement, aspect: str) -> tuple[str, str]:
    (check,) = (c for c in judgement.list_checks(2) if c.check == f"2 ranks: {aspect}")
    return check.status, check.detail


def test_one_step_of_many_is_too_little() -> None:
    """The first step is as in one process, and later ones were not observed."""
    own, ranks = recorded((OWN,), 21), tuple(recorded((s,), 21) for s in RANKS)
    found = judge_runs(own, ranks, (), "exact", 1e-4)
    assert found.first_fault is None
    assert found.needs_one_rank
    assert status(found, "averaged gradients")[0] == "unknown"
    assert status(found, "steps compared") == (
        "unknown",
        "1 of 21 steps on 2 ranks: step 2 was not fully observed",
    )


def test_steps_of_one_rank_count_where_ranks_take_other_examples() -> None:
    """As of ranks that shuffle: they are right between one another, and one rank is as the original."""
    rows = [ROWS + 10 * step for step in range(4)]
    own = recorded(tuple(replace(OWN, rows=each) for each in rows), 4)
    order = (0, 2, 3, 1)
    ranks = tuple(
        recorded(tuple(replace(s, rows=rows[n][rank::2]) for n in order), 4)
        for rank, s in enumerate(RANKS)
    )
    found = judge_runs(own, ranks, (), "exact", 1e-4)
    assert status(found, "steps compared")[0] == "unknown"
    assert "1 of 4 steps; right between ranks in 4 steps" in status(found, "averaged gradients")[1]
    alone = judge_runs(own, ranks, (), "exact", 1e-4, alone=own)
    assert status(alone, "steps compared")[0] == "pass"
    assert "1 of 4 steps on 2 ranks, 4 on 1 rank" in status(alone, "steps compared")[1]


@pytest.mark.parametrize(
    ("compared", "mode", "holds"),
    [(True, "exact", True), (False, "exact", False), (False, "scaled", True)],
)
def test_a_verdict_says_how_little_was_compared(compared: bool, mode: Mode, holds: bool) -> None:
    names = ["averaged gradients", "update", "broadcast", *["steps compared"] * compared]
    checks = tuple(Check(f"2 ranks: {name}", "pass", "") for name in names)
    outcome = AgainstVerification(checks, 2, mode, 21, None, 1, "step 2 has other examples")
    assert outcome.holds == holds
    if not holds:
        assert outcome.verdict == (
            "This training cannot be judged: 1 of 21 steps could be compared with the original: step 2 has other examples."
        )
