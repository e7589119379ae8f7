"""What tells two records apart, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest

from jupyter_hvd.verify.checks import Check
from jupyter_hvd.verify.exact.compare import (
    ASPECTS,
    ENDING,
    FILES,
    HISTORY,
    LOSSES,
    PRINTED,
    RATES,
    STEPS,
    TOLERANCE,
    UPDATES,
    WEIGHTS,
    Comparison,
    Difference,
    compare_records,
    first_difference,
)
from jupyter_hvd.verify.exact.records import (
    Event,
    Fit,
    Record,
    Site,
    Variable,
    read_record,
    save_record,
)
from jupyter_hvd.verify.exact.text_comparison import compare_texts, select_compared_lines
from jupyter_hvd.verify.exact.verification import (
    ExactVerification,
    Noise,
    do_records_agree,
    find_differences,
    judge_comparison,
)

NAMES = ("dense/kernel", "dense/bias")
SITES = (Site("gradient", "train.py, line 7", NAMES), Site("update", "train.py, line 8", NAMES))


def training(steps: int = 5) -> Record:
    """A record in which every aspect has been observed, files apart."""
    events = []
    for step in range(steps):
        events += [
            Event(0, 1.0 / (step + 1), np.array([0.5, 1.0, 0.01, 0.02])),
            Event(1, 0.1, np.array([0.7, 2.0, 0.1 * step, 0.3])),
        ]
    return Record(
        printed=("epoch 1 loss 0.5000", "done"),
        prints=(("epoch 1 loss 0.5000", "train.py, line 9"),),
        sites=SITES,
        events=tuple(events),
        fits=(Fit("train.py, line 7", 2, {"loss": (0.9, 0.5)}),),
        variables=(Variable("dense/kernel", True, np.ones((2, 2), np.float32)),),
    )


def changed(record: Record, number: int, **fields: object) -> Record:
    events = list(record.events)
    events[number] = replace(events[number], **fields)
    return replace(record, events=tuple(events))


def differing(one: Record, two: Record) -> dict[str, Difference]:
    """The first difference of each aspect that has some."""
    return {c.aspect: c.differences[0] for c in compare_records(one, two) if c.differences}


def test_equal_records() -> None:
    found = compare_records(training(), training())
    assert [c.aspect for c in found] == list(ASPECTS)
    assert not any(c.differences for c in found)
    assert [c.aspect for c in found if not c.observed] == [FILES]


def test_nothing_observed() -> None:
    observed = [c.aspect for c in compare_records(Record(), Record()) if c.observed]
    assert observed == [ENDING]


def test_epochs_without_a_step_that_was_seen_pass_no_check_of_steps() -> None:
    """As under `MirroredStrategy`, whose steps run in threads of their own; a count that differs is found all the same."""
    one = Record(fits=(Fit("line 1", 2, {}),))
    assert not next(c for c in compare_records(one, one) if c.aspect == STEPS).observed
    more = replace(one, fits=(Fit("line 1", 3, {}),))
    assert next(c for c in compare_records(one, more) if c.aspect == STEPS).differences


def fit(*losses: float) -> Record:
    return replace(training(), fits=(Fit("train.py, line 7", len(losses), {"loss": losses}),))


def measured(number: int, *measures: float) -> Record:
    return changed(training(), number, measures=np.array(measures))


def kernel(value: float) -> Record:
    array = np.full((2, 2), value, np.float32)
    return replace(training(), variables=(Variable("dense/kernel", True, array),))


GRADIENT, UPDATE = "train.py, line 7", "train.py, line 8"
#: A record, the aspect in which it differs, and what is said of that.
DIFFERENCES = [
    (changed(training(), 4, value=0.4), LOSSES, f"at step 3, {GRADIENT}: the loss is 0.4; 0.333333"),
    (changed(training(), 3, value=0.2), RATES, f"at step 2, {UPDATE}: the learning rate is 0.2; 0.1"),
    (measured(2, 0.5, 1, 0.02, 0.02), UPDATES, f"at step 2, {GRADIENT}: the gradient for `dense/bias`"),
    (measured(1, 0.71, 2, 0, 0.3), UPDATES, f"at step 1, {UPDATE}: after the update, `dense/kernel`"),
    (training(4), STEPS, "at step 5: it makes 4 steps; one process 5"),
    (changed(training(), 6, site=1), STEPS, "at step 6: it makes 6 steps; one process 5"),
    (fit(0.9, 0.6), HISTORY, f"{GRADIENT}: `loss` of epoch 2 is 0.6; 0.5"),
    (fit(0.9), HISTORY, "`loss` has 1 epochs; 2 epochs"),
    (fit(0.9), STEPS, "`fit` makes 1 epochs; 2"),
    (replace(training(), printed=("epoch 1 loss 0.5003", "done")), PRINTED, "line 9: 0.5003 instead of 0.5000"),
    (replace(training(), printed=("epoch 1 loss 0.5000",)), PRINTED, "'done' is missing"),
    (replace(training(), variables=()), WEIGHTS, "`dense/kernel` is missing"),
    (kernel(1.001), WEIGHTS, "`dense/kernel` differs by 0.001"),
    (replace(training(), error="ValueError: no"), ENDING, "it ends with ValueError: no; one process ends without an error"),
]  # fmt: skip


@pytest.mark.parametrize(("two", "aspect", "words"), DIFFERENCES)
def test_what_differs(two: Record, aspect: str, words: str) -> None:
    found = differing(training(), two)
    assert aspect in found, found
    assert words in str(found[aspect])


def test_what_there_was_no_room_for_is_said() -> None:
    one = replace(changed(training(), 9, measures=np.zeros(0)), unheld=3)
    observed = {c.aspect: c.observed for c in compare_records(one, one)}
    assert observed[UPDATES] == "18 tensors; later ones are not observed, for lack of memory"
    assert observed[WEIGHTS] == "1 variable; 3 more are not observed, for lack of memory"


def test_the_first_difference_is_that_of_the_first_step() -> None:
    two = changed(changed(training(), 8, value=0.9), 3, value=0.2)
    first = first_difference(compare_records(training(), two))
    assert first is not None
    assert first.step == 2


def test_another_branch_is_named() -> None:
    other = replace(training(), sites=(SITES[0], replace(SITES[1], line="train.py, line 20")))
    found = [str(d) for c in compare_records(training(), other) for d in c.differences]
    assert found == [
        "at step 1, train.py, line 8: the update does not run any more; it does in one process",
        "at step 5, train.py, line 20: the update runs more often than in one process",
    ]


def test_the_order_of_notes_in_a_compiled_step_is_no_difference() -> None:
    events = list(training().events)
    events[2:4] = reversed(events[2:4])
    assert not differing(training(), replace(training(), events=tuple(events)))


def test_rounding_is_no_difference() -> None:
    two = changed(
        training(), 4, value=1 / 3 + 1e-5, measures=np.array([0.50005, 1.0, 0.0101, 0.02])
    )
    assert not differing(training(), two)


@pytest.mark.parametrize(
    ("one", "two", "equal"),
    [
        ("loss 0.12345", "loss 0.12346", True),
        ("loss 1.2", "loss 1.3", True),  # 1.25 is rounded to either
        ("loss 1.2", "loss 1.4", False),
        ("step 3", "step 4", False),
        ("1e-7 nan", "1.00001e-7 nan", True),
        ("nan", "0.5", False),
        ("took 3.2 s, 12ms/step at 12:30:01", "took 9.9 s, 80ms/step at 12:31:59", True),
        ("<Dense at 0x7fe0aa10>", "<Dense at 0x7ab00010>", True),
        ("139653372345808: TensorSpec(shape=())", "140190127015696: TensorSpec(shape=())", True),
        ("5/5 ━━━━━ 1s 10ms/step - loss: 0.5", "5/5 ━━━━━ 2s 70ms/step - loss: 0.9", True),
        ("saved best", "saved last", False),
        ("v1.2.3", "v1.2.4", False),
    ],
)
def test_texts(one: str, two: str, equal: bool) -> None:
    _, found = compare_texts(select_compared_lines([one]), select_compared_lines([two]), 1e-4)
    assert (not found) == equal, found


def test_a_difference_far_within_a_line_is_shown() -> None:
    one, two = (f"{'word ' * 40}{name} end" for name in ("input_layer", "input_layer_a"))
    (found,) = compare_texts([one], [two], 1e-4)[1]
    assert "input_layer_a end' instead of" in found.detail


def write_files(folder: Path, weight: float, rows: str = "0,0.50\n") -> Record:
    folder.mkdir()
    np.savez(folder / "weights.npz", kernel=np.full(3, weight), step=np.int64(4))
    (folder / "log.csv").write_text("epoch,loss\n" + rows)
    (folder / "blob.bin").write_bytes(b"\0\1\2")
    return replace(training(), folder=str(folder), files=("weights.npz", "log.csv", "blob.bin"))


def test_files(tmp_path: Path) -> None:
    one = write_files(tmp_path / "one", 1.0)
    assert not differing(one, write_files(tmp_path / "equal", 1.00001))
    found = differing(one, write_files(tmp_path / "weights", 1.01))[FILES]
    assert str(found).startswith("weights.npz, `kernel`: differs by 0.01")
    found = differing(one, write_files(tmp_path / "rows", 1.0, "0,0.50\n1,0.40\n"))[FILES]
    assert "log.csv: '1,0.40' is added" in str(found)
    found = differing(one, replace(one, files=("weights.npz", "log.csv")))[FILES]
    assert str(found) == "blob.bin is missing"
    (tmp_path / "equal" / "blob.bin").write_bytes(b"\0")
    sizes = replace(one, folder=str(tmp_path / "equal"))
    assert "blob.bin has 1 bytes; 3" in str(differing(one, sizes)[FILES])


def test_event_files_of_tensorboard_are_the_same_whoever_wrote_them(tmp_path: Path) -> None:
    """Their names have the time, the host and the process; a name of a checkpoint may have a date."""
    named = ("logs/events.out.tfevents.1732741200.host.{}.0.v2", "run-20261127-{}00.txt")
    records = []
    for process in ("21066", "210671"):
        folder = tmp_path / process
        (folder / "logs").mkdir(parents=True)
        files = tuple(name.format(process) for name in named)
        for name in files:
            (folder / name).touch()
        records.append(replace(training(), folder=str(folder), files=files))
    assert not differing(*records)


def test_a_record_is_read_as_it_was_saved(tmp_path: Path) -> None:
    save_record(training(), tmp_path / "record-0")
    assert not differing(training(), read_record(tmp_path / "record-0"))
    assert read_record(tmp_path / "record-0").sites == SITES
    save_record(Record(), tmp_path / "empty")
    assert read_record(tmp_path / "empty") == Record()


# What is said of it


#: Ranks that differ from one process in all that is compared.
RANKS = Record(code=1)


def noise(again: Record | None = None, rounded: Record | None = None) -> Noise:
    """What varies in one process; a record that is not given varies in nothing."""
    one = training()
    known = Noise(find_differences(one, again or one, TOLERANCE))
    return known.with_sample(one, rounded, RANKS, TOLERANCE)


def judged(two: Record, noise: Noise, aspect: str) -> Check:
    comparison = next(c for c in compare_records(training(), two) if c.aspect == aspect)
    return judge_comparison(comparison, noise, 2)[0]


def test_what_was_not_observed_passes_no_check() -> None:
    check, _ = judge_comparison(Comparison(FILES, ""), Noise(), 2)
    assert (check.check, check.status, check.detail) == (
        "2 ranks: files",
        "unknown",
        "not observed",
    )


def test_what_varies_from_run_to_run_is_not_judged() -> None:
    timed = [replace(training(), printed=(f"epoch 1 loss {n}.5", "done")) for n in (3, 7)]
    check = judged(timed[0], noise(again=timed[1]), PRINTED)
    assert check.status == "pass"
    assert "1 that vary" in check.detail
    assert judged(timed[0], noise(), PRINTED).status == "fail"
    assert noise(again=timed[1]).first_run_difference is None
    cut = replace(training(), printed=("another line",))
    assert judged(cut, noise(again=cut), PRINTED).status == "unknown"
    other = noise(again=changed(training(), 2, value=0.9)).first_run_difference
    assert other is not None
    assert other.step == 2


def test_what_rounding_changes_is_not_judged() -> None:
    late, early = changed(training(), 8, value=0.9), changed(training(), 2, value=0.9)
    assert judged(early, noise(rounded=late), LOSSES).status == "fail"
    assert judged(late, noise(), LOSSES).status == "fail"
    check = judged(late, noise(rounded=early), LOSSES)
    assert (check.status, check.detail) == (
        "pass",
        "5 losses, equal before step 5; from there on rounding makes such differences in one process, too",
    )
    first = changed(training(), 0, value=0.9)
    assert judged(first, noise(rounded=first), LOSSES).status == "unknown"
    other = kernel(1.01)
    assert judged(other, noise(rounded=other), WEIGHTS).status == "unknown"


def test_rounding_in_one_run_is_a_sample() -> None:
    """It moves other weights more in another run: a difference that is somewhat larger is not judged."""

    two = kernel(1 + 1.1 * TOLERANCE)
    assert judged(two, noise(), WEIGHTS).status == "fail"
    assert judged(two, noise(rounded=kernel(1 + 0.1 * TOLERANCE)), WEIGHTS).status == "fail"
    assert judged(two, noise(rounded=kernel(1 + 0.6 * TOLERANCE)), WEIGHTS).status == "unknown"


def test_more_samples_of_rounding_show_more_of_it() -> None:
    def trained(first: float, second: float) -> Record:
        values = {"first": first, "second": second}
        variables = tuple(Variable(n, True, np.full(3, v)) for n, v in values.items())
        return replace(training(), variables=variables)

    one, two = trained(1, 1), trained(1, 1 + 1.1 * TOLERANCE)
    comparison = next(c for c in compare_records(one, two) if c.aspect == WEIGHTS)
    plain = Noise()
    sampled = plain.with_sample(one, trained(1 + 0.6 * TOLERANCE, 1), two, TOLERANCE)
    assert judge_comparison(comparison, sampled, 2)[0].status == "fail"
    again = sampled.with_sample(one, trained(1, 1 + 0.6 * TOLERANCE), two, TOLERANCE)
    check, left = judge_comparison(comparison, again, 2)
    assert (check.status, left) == ("pass", ())
    assert "within what rounding alone does to this program" in check.detail
    assert again.needs_samples
    same = plain.with_sample(one, one, two, TOLERANCE)
    assert same.needs_samples
    assert not same.with_sample(one, one, two, TOLERANCE).needs_samples


def test_what_one_process_has_done_is_not_called_wrong() -> None:
    """Rounding decides which epoch is best, so one run in five may be the only one that prints what it does."""
    two = replace(training(), printed=("epoch 1 loss 7.5", "done"))
    assert judged(two, noise(), PRINTED).status == "fail"
    other = replace(two, printed=(*two.printed[:1], "over"))
    for sample, status in ((other, "fail"), (replace(two, events=()), "fail"), (two, "pass")):
        sampled = replace(Noise().with_sample(training(), sample, two, TOLERANCE), rounded={})
        assert judged(two, sampled, PRINTED).status == status


def test_rounding_changes_the_same_number_of_another_epoch() -> None:
    """Which epoch it shows in is chance; a difference that is much larger is none of rounding."""

    def printed(*accuracies: float) -> Record:
        lines = (f"epoch {n} accuracy {value}" for n, value in enumerate(accuracies))
        return replace(training(), printed=tuple(lines))

    one, sample = printed(0.96, 0.97, 0.98), printed(0.96, 0.974, 0.98)
    for two, status in ((printed(0.964, 0.97, 0.98), "pass"), (printed(0.901, 0.97, 0.98), "fail")):
        known = Noise(find_differences(one, one, TOLERANCE)).with_sample(
            one, sample, RANKS, TOLERANCE
        )
        comparison = next(c for c in compare_records(one, two) if c.aspect == PRINTED)
        assert judge_comparison(comparison, known, 2)[0].status == status


def test_what_was_not_compared_is_not_equal() -> None:
    two = replace(training(), printed=(*training().printed, "more"))
    compared = find_differences(training(), two, TOLERANCE)
    assert do_records_agree(compared, LOSSES, "any")
    assert not do_records_agree(compared, PRINTED, "0.1")
    larger = Comparison(FILES, "", differences=(Difference("a.npz", "4 bytes; 3 in one process"),))
    assert not do_records_agree({**compared, FILES: larger}, FILES, "a.npz kernel")
    assert do_records_agree({**compared, FILES: larger}, FILES, "b.npz kernel")
    failed = find_differences(training(), replace(two, code=1), TOLERANCE)
    assert not do_records_agree(failed, LOSSES, "any")


def test_what_holds() -> None:
    passed, unknown = (Check("2 ranks: losses", s, "") for s in ("pass", "unknown"))
    assert ExactVerification((passed,), (2,)).holds
    assert not ExactVerification((passed,), (2, 3)).holds
    assert not ExactVerification((unknown,), (2,)).holds
    ending = Check("2 ranks: ending", "pass", "")
    assert not ExactVerification((ending,), (2,)).holds
    assert not ExactVerification((passed, Check("2 ranks: files", "fail", "")), (2,)).holds


# The observer

OBSERVED = """
import sys
import tensorflow as tf
from jupyter_hvd.runtime.sharing import tested_versions
from jupyter_hvd.verify.exact.observer import HOOKS, Observer
if sys.argv[1] == "untested":
    tested_versions.TESTED = (("2.0", "keras", "2.0"),)
before = tf.GradientTape.gradient
observer = Observer()
observer.install()
names = sorted(observer.observation.names)
assert names == sorted([h.rpartition(".")[2] for h in HOOKS] + ["function"]), names
v, table = tf.Variable([1.0, 2.0], name="v"), tf.Variable(tf.ones([4, 2]), name="table")
optimizer = tf.keras.optimizers.SGD(0.5)

@tf.function
def step(rows):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(v * tf.reduce_sum(tf.gather(table, rows), 0))
    gradients = tape.gradient(loss, [v, table])
    optimizer.apply(gradients, [v, table])
    return loss

values = [float(step(tf.constant(rows))) for rows in ([0, 1, 1], [1, 1, 0])]
print("seen", values[0])
record = observer.make_record()
kinds = [record.sites[e.site].kind for e in record.events]
assert kinds == ["gradient", "update"] * 2, kinds
assert record.steps == 2
assert [e.value for e in record.events] == [values[0], 0.5, values[1], 0.5]
assert {s.names for s in record.sites} == {("v", "table")}
assert {s.line for s in record.sites} == {"observed.py, line 19", "observed.py, line 20"}, record.sites
assert record.prints == (("seen 9.0", "observed.py, line 24"),), record.prints
assert {"v", "table"} <= {variable.name for variable in record.variables}
observer.begin_program()
observer.uninstall()
assert tf.GradientTape.gradient is before
"""


@pytest.fixture
def run_observed(
    run_forked_script: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> Callable[[str], CompletedProcess[str]]:
    path = tmp_path / "observed.py"
    path.write_text(OBSERVED.lstrip("\n"))
    return lambda kind: run_forked_script(path, kind, cwd=tmp_path)


@pytest.mark.slow
def test_a_compiled_step_is_observed(run_observed) -> None:
    done = run_observed("tested")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_an_unknown_version_stops_with_a_line(run_observed) -> None:
    done = run_observed("untested")
    assert done.returncode == 1
    assert "was not tested with keras 3" in done.stderr.splitlines()[-1]
