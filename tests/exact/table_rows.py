"""The programs that went wrong while data, counts and rates were divided among the ranks, as one list.

`python -m tests.exact.table_rows [--list rows|held|inputs] [--batch global,per-rank] [--sizes 2,3] [--no-faults] [NAME …]`
verifies each program in both modes on each number of ranks, and then the conversion with a planted fault, an edit that is left
out or made twice, and prints the table. `--list held` takes the trainings that must keep holding in place of the rows, `--list
inputs` batch sizes and rates that are hard to read. NAMEs are rows (`row-7`), or parts of names of programs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from jupyter_hvd import Options, convert_source
from jupyter_hvd.convert.documents import Script, load_document
from jupyter_hvd.convert.unconverted_programs import common_variables, require_single_process
from jupyter_hvd.files import UnusableInputError
from jupyter_hvd.verify.exact.scaled_program import verify_scaled
from jupyter_hvd.verify.exact.verification import SEED, SIZES, ExactVerification, verify_exact

from .program_counts import classify, starting_processes

EXACT = Path(__file__).parent / "programs"
SCALED = Path(__file__).parent / "scaled"
SUITE = Path(__file__).parents[1] / "programs"
MODES = ("global", "per-rank")
TIMEOUT = 300.0
#: Outcomes of a program that is right: equal to one process, or computed on every rank in full.
RIGHT = ("equal", "whole")


@dataclass(frozen=True)
class Fault:
    """An edit of the conversion that is left out or made twice.

    Attributes:
        ignore: the rule whose edits are left out. before, after: what stands in the conversion, and what is put in its place.
    """

    says: str
    ignore: str = ""
    before: str = ""
    after: str = ""

    def plant(self, source: str) -> str:
        """The conversion of a program with this fault.

        Raises:
            ValueError: the conversion is not changed by it.
        """
        right = convert_source(source, options=Options()).code
        if self.ignore:
            faulty = convert_source(source, options=Options(ignore=(self.ignore,))).code
        else:
            faulty = right.replace(self.before, self.after)
        if faulty == right:
            raise ValueError(f"the conversion is not changed by: {self.says}")
        return faulty


@dataclass(frozen=True)
class Row:
    """Something that went wrong, and the programs that show that it does not.

    Attributes:
        name: the number of the row, or what kind of training it is. says: what went wrong.
        programs: each in a spelling of its own. fault: planted into the first.
    """

    name: str
    says: str
    programs: tuple[str, ...]
    fault: Fault | None = None


NOT_SCALED_BATCH = Fault("the batch is not multiplied", ignore="HVD801")
NOT_SCALED_RATE = Fault("the rate is not multiplied", ignore="HVD803")
NOT_SCALED_COUNTS = Fault("counts of steps are not divided", ignore="HVD804")
TWICE = " * hvd.size() * hvd.size()"

ROWS = (
    Row(
        "row-1",
        "a callback compares its count of steps with a warm-up",
        ("callback_one_cycle", "one_cycle_expression"),
        NOT_SCALED_COUNTS,
    ),
    Row(
        "row-2",
        "a batch of all rows",
        ("batch_of_all_rows",),
        Fault("the rate is multiplied though the batch stays", before="SGD(0.6)", after="SGD(0.6 * hvd.size())"),
    ),
    Row("row-3", "accuracy and loss by hand end the training", ("accuracy_by_hand",), NOT_SCALED_BATCH),
    Row("row-4", "LearningRateScheduler around a schedule", ("scheduler_of_schedule",), NOT_SCALED_RATE),
    Row("row-5", "optimizer.iterations ends the training", ("iterations_break",), NOT_SCALED_COUNTS),
    Row(
        "row-6",
        "a patience of evaluations in a loop over steps",
        ("step_patience",),
        NOT_SCALED_RATE,
    ),
    Row(
        "row-7",
        "a schedule class around a schedule",
        ("warmup_class",),
        NOT_SCALED_RATE,
    ),
    Row("row-8", "lookahead by hand", ("lookahead",), NOT_SCALED_RATE),
    Row(
        "row-9",
        "a floor of the rate",
        ("rate_floor",),
        Fault("the rate is multiplied where it is given", before="RMSprop(0.02)", after="RMSprop(0.02 * hvd.size())"),
    ),
    Row("row-10", "a dataset's map that draws", ("noisy_map",), NOT_SCALED_RATE),
    Row("row-11", "validation_split of an odd number of rows", ("uneven_validation_split",), NOT_SCALED_BATCH),
    Row("row-12", "steps_per_epoch", ("counted_steps",), NOT_SCALED_COUNTS),
    Row("row-13", "rows that are split by hash()", ("hash_split",), NOT_SCALED_RATE),
    Row("row-14", "sparse rows of SciPy", ("sparse_rows",), NOT_SCALED_BATCH),
    Row("row-15", "prediction in a callback", ("predict_in_callback",), NOT_SCALED_RATE),
    Row(
        "row-16",
        "decay per step, independent of the rate",
        ("decay_per_step",),
        Fault("the batch is multiplied twice", before=" * hvd.size()", after=TWICE),
    ),
    Row("row-17", "a step object, ready batches, a compiled epoch", ("step_object", "compiled_epoch"), NOT_SCALED_BATCH),
    Row(
        "row-18",
        "a schedule as the weight of a loss",
        ("kl_weight",),
        Fault("the rate is multiplied twice", before="Adam(0.01 * hvd.size())", after=f"Adam(0.01{TWICE})"),
    ),
    Row("row-19", "data of changing length, kept weights, epochs by a list", ("changing_length",), NOT_SCALED_BATCH),
)  # fmt: skip
#: Trainings that held before scaling up was an edit, and must keep holding.
HELD = (
    Row("SAM, SWA, pseudo-labels", "", ("sam_swa_pseudo",)),
    Row("accumulation", "", ("gathered_gradients",)),
    Row("FedAvg", "", ("federated_averaging",)),
    Row("WGAN-GP", "", ("wgan_gp",)),
    Row("MoCo", "", ("moco_queue",)),
    Row("DP-SGD", "", ("per_example",)),
    Row("PCGrad", "", ("gradient_surgery",)),
    Row("Reptile", "", ("reptile_forward",)),
    Row("LossScaleOptimizer", "", ("half_precision", "mixed_precision")),
    Row("rejection_resample", "", ("resampled_classes",)),
    Row("replay buffers", "", ("replay", "deep_q_learning")),
    Row("K-folds", "", ("cross_validation", "folds_in_function")),
    Row("random search", "", ("random_search",)),
    Row("CLR and SGDR callbacks", "", ("cyclic_rates",)),
    Row("EMA", "", ("train_step_ema",)),
    Row("distillation", "", ("distillation",)),
    Row("mixup", "", ("mixup",)),
)
#: What a program may say of its batches and rates that is hard to read.
INPUTS = (
    Row("batch size: a parameter", "", ("parameters",)),
    Row("batch size: a text in a configuration", "", ("string_size",)),
    Row("batch size: a tensor", "", ("tensor_size",)),
    Row("two optimizers with different rates", "", ("two_networks", "rate_dictionary")),
    Row("a rate in a dictionary", "", ("config_dictionary", "rate_dictionary")),
    Row("a program that asks Horovod for its size", "", ("refused_horovod",)),
    Row("more ranks than rows", "", ("few_rows",)),
)
LISTS = {"rows": ROWS, "held": HELD, "inputs": INPUTS}
#: The programs of the rows, which other tests run too.
PROGRAMS_OF_ROWS = tuple(program for row in ROWS for program in row.programs)


def path_of(program: str) -> Path:
    """The file of a program, in whichever folder it is."""
    return next(
        path for folder in (EXACT, SCALED, SUITE) if (path := folder / f"{program}.py").exists()
    )


@dataclass(frozen=True)
class Outcome:
    """What became of a program in one mode on one number of ranks.

    Attributes:
        column: the mode and the number of ranks, or `fault`. outcome: as `program_counts.OUTCOMES`. why: what does not hold.
        seconds: of wall time.
    """

    row: str
    program: str
    column: str
    outcome: str
    why: str
    seconds: float


def verify(
    path: Path, batch: str, sizes: Sequence[int], fault: Fault | None = None
) -> Mapping[int, tuple[str, str]]:
    """What becomes of a program on each number of ranks, and why.

    Args:
        batch: `global` or `per-rank`.
        fault: planted into the conversion.
    """
    document = load_document(path)
    assert isinstance(document, Script)
    options = Options(batch="global" if batch == "global" else "per-rank")
    with TemporaryDirectory() as empty:
        beside = Path(empty)
        try:
            if batch == "global":
                require_single_process(path, document)
                variables = common_variables(options, SEED)
                found = verify_exact(
                    path, document, sizes, variables=variables, timeout=TIMEOUT, beside=beside
                )
            else:
                part = Script(fault.plant(document.source)) if fault else None
                found = verify_scaled(
                    path, document, sizes, options=options, part=part, timeout=TIMEOUT, beside=beside
                )  # fmt: skip
        except UnusableInputError as error:
            return dict.fromkeys(sizes, ("refused", str(error)))
    return {size: classify(part_of(found, size)) for size in sizes}


def part_of(verification: ExactVerification, size: int) -> ExactVerification:
    """What a verification says of one number of ranks."""
    others = [f"{other} ranks" for other in verification.sizes if other != size]
    others += [f"scaled to {other}" for other in verification.sizes if other != size]
    kept = [c for c in verification.checks if not any(other in c.check for other in others)]
    return replace(verification, checks=tuple(kept), sizes=(size,))


@dataclass(frozen=True)
class Case:
    """A verification of a program in one mode, with or without the row's fault."""

    row: Row
    program: str
    batch: str
    sizes: tuple[int, ...]
    fault: Fault | None = None

    def column(self, size: int) -> str:
        return "fault" if self.fault else f"{self.batch} {size}"


def cases(
    rows: Sequence[Row], modes: Sequence[str], sizes: Sequence[int], with_faults: bool
) -> Iterator[Case]:
    """The verifications of rows, one after another."""
    for row in rows:
        for program in row.programs:
            for mode in modes:
                yield Case(row, program, mode, tuple(sizes))
        if with_faults and row.fault is not None:
            yield Case(row, row.programs[0], "per-rank", (2,), row.fault)


def chosen(rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    if not names:
        return list(rows)
    return [row for row in rows if row.name in names or any(n in p for n in names for p in row.programs)]  # fmt: skip


def as_table(rows: Sequence[Row], outcomes: Sequence[Outcome]) -> str:
    """The outcomes in Markdown: a line for each program, a column for each mode and number of ranks."""
    columns = list(dict.fromkeys(o.column for o in outcomes if o.column != "fault"))
    lines = [f"| row | program | {' | '.join(columns)} | planted fault |"]
    lines.append("|---" * (len(columns) + 3) + "|")
    known = {(o.program, o.column): o for o in outcomes}
    for row in rows:
        for program in row.programs:
            said = [getattr(known.get((program, c)), "outcome", "") for c in columns]
            found = known.get((program, "fault")) if program == row.programs[0] else None
            fault = ""
            if found is not None and row.fault is not None:
                fault = f"{'found' if found.outcome == 'wrong' else 'missed'}: {row.fault.says}"
            lines.append(f"| {row.name} | {program} | {' | '.join(said)} | {fault} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--list", choices=LISTS, default="rows")
    parser.add_argument("--batch", default=",".join(MODES), help='"" for planted faults alone')
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--no-faults", action="store_true", help="plant no fault")
    parser.add_argument("--into", type=Path, help="append outcomes as JSON; leave out known ones")
    given = parser.parse_args()
    rows = chosen(LISTS[given.list], given.names)
    sizes = [int(size) for size in given.sizes.split(",")]
    lines = given.into.read_text().splitlines() if given.into and given.into.exists() else []
    outcomes = [Outcome(**json.loads(line)) for line in lines]
    done = {(o.program, o.column) for o in outcomes}
    modes = [mode for mode in given.batch.split(",") if mode]
    if not {*modes} <= {*MODES}:
        parser.error(f"--batch: {given.batch} is none of {', '.join(MODES)}")
    with starting_processes():
        for case in cases(rows, modes, sizes, not given.no_faults):
            if all((case.program, case.column(size)) in done for size in case.sizes):
                continue
            began = time.monotonic()
            found = verify(path_of(case.program), case.batch, case.sizes, case.fault)
            seconds = round(time.monotonic() - began, 1)
            for size, (outcome, why) in found.items():
                column = case.column(size)
                outcomes.append(Outcome(case.row.name, case.program, column, outcome, why, seconds))
                print(f"{case.program:26} {column:12} {outcome:16} {seconds:5.1f} s  {why[:160]}", flush=True)  # fmt: skip
                if given.into:
                    with given.into.open("a") as into:
                        into.write(json.dumps(asdict(outcomes[-1])) + "\n")
    print(as_table(rows, outcomes))
    wrong = [o for o in outcomes if (o.outcome in RIGHT) == (o.column == "fault")]
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
