"""What a conversion must do, and whether it did: pure functions of what the ranks, and one process, saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from grammar import Program, counts_examples, is_deterministic
from ranks import ALONE

Kind = Literal["right", "refused", "wrong", "broken"]


@dataclass(frozen=True)
class Verdict:
    """What became of a program.

    Attributes:
        kind: "broken": it does not run in one process either, which is the generator's own fault.
        reason: why it is wrong; of a refusal, the rules, and a check's name and what it found otherwise.
    """

    kind: Kind
    reason: str = ""

    @property
    def check(self) -> str:
        return self.reason.partition(":")[0]


#: What is refused by itself, in an else simplest program: a program that has none of these is to be converted.
REFUSED = {
    "place=lambda": "HVD504",
    "source=list_of_batches": "HVD504",
    "update=two_optimizers": "HVD303",  # where the step is compiled
}


def refusal(p: Program, conversion) -> Verdict | None:
    """The verdict where nothing is to be run."""
    if conversion.status == "refused":
        codes = {d.code for d in conversion.diagnostics if d.severity == "error"}
        unexplained = codes - {REFUSED.get(part) for part in p.parts}
        if unexplained:
            return Verdict("wrong", f"refused: by {', '.join(sorted(unexplained))}, without need")
        return Verdict("refused", " ".join(sorted(codes)))
    if conversion.status != "converted":
        return Verdict("wrong", f"{conversion.status}: it trains, and no word is said")
    return None


def judge(
    p: Program, answers: Mapping[int, dict], files: Mapping[int, Sequence[tuple[str, int]]]
) -> Verdict:
    """Whether the ranks did what one process does with the batches of all of them.

    Args:
        answers: of the ranks, and of one process (`ALONE`) whose batches are as large as all ranks' together.
    """
    if answers[ALONE]["error"]:
        return Verdict("broken", answers[ALONE]["error"])
    found = next(faults(p, answers, files), None)
    return Verdict("wrong", found) if found else Verdict("right")


def faults(
    p: Program, answers: Mapping[int, dict], files: Mapping[int, Sequence[tuple[str, int]]]
) -> Iterator[str]:
    alone = answers[ALONE]
    ranks = [answers[rank] for rank in sorted(answers) if rank != ALONE]
    for rank in ranks:
        if rank["error"]:
            yield f"error: rank {rank['rank']}: {rank['error']}"
    if not alone["weights"]:
        yield "no weights: nothing was seen to be trained"
    for rank in ranks[1:]:
        for name, mine, theirs in zip(
            rank["names"], rank["weights"], ranks[0]["weights"], strict=False
        ):
            if not _equal(mine, theirs):
                yield f"ranks agree: {name} differs between rank 0 and {rank['rank']}"
        if len(rank["weights"]) != len(ranks[0]["weights"]):
            yield "ranks agree: another number of variables"
    one, many = alone["steps"], [rank["steps"] for rank in ranks]
    if any(steps != many[0] for steps in many):
        yield f"equal steps: ranks made {many} updates"
    ends_alike = not p.extras & {"break_on_loss", "early_stopping"}
    slack = 0 if p.rows != "uneven" else 2
    if ends_alike and any(abs(a - b) > slack for a, b in zip(one, many[0], strict=False)):
        yield f"work divided: {many[0]} updates of each rank, where one process with as large batches makes {one}"
    rows = [Counter(rank["rows"]) for rank in ranks]
    whole = Counter(alone["rows"])
    if whole and all(rows):
        seen = sum(rows, Counter())
        if counts_examples(p):
            more, less = (seen - whole).total(), (whole - seen).total()
            # An odd example, or batch, may be left out, once an epoch.
            if more + less > (0 if p.rows != "uneven" else 12):
                yield f"work divided: {whole.total()} examples, {more} too many and {less} not seen"
    if is_deterministic(p):
        yield from wrong_weights(alone, ranks[0])
    expected = [name for name, _ in files[ALONE]]
    written = dict(files[0])
    if sorted(written) != expected:
        yield f"files: {sorted(written)}, where one process writes {expected}"
    for name, rank in written.items():
        if rank:
            yield f"files: rank {rank} has written {name}"
    for rank in ranks[1:]:
        opened = [name for name in rank["opened"] if not name.startswith("/")]
        if opened:
            yield f"files: rank {rank['rank']} has opened {opened[0]} to write"
        if rank["printed"].strip():
            yield f"output: rank {rank['rank']} prints {rank['printed'].strip()[:60]!r}"


def _equal(mine: np.ndarray, theirs: np.ndarray) -> bool:
    """Whether two ranks have one variable, bit for bit; what is no number is alike."""
    return np.array_equal(mine, theirs, equal_nan=mine.dtype.kind in "fc")


def wrong_weights(alone: dict, rank: dict) -> Iterator[str]:
    """Variables that the ranks have trained to something else than one process.

    Sums are taken in another order, so that a value may be off by its rounding, once for each step and rank; half the
    digits of its type is far more than that, and far less than what any fault makes of it.
    """
    if len(alone["weights"]) != len(rank["weights"]):
        yield "one process: another number of variables"
    for name, expected, found in zip(
        alone["names"], alone["weights"], rank["weights"], strict=False
    ):
        if not np.issubdtype(expected.dtype, np.floating):
            continue
        slack = np.sqrt(np.finfo(expected.dtype).eps) * max(1.0, float(np.abs(expected).max()))
        near = {
            "rtol": 0,
            "atol": slack,
            "equal_nan": True,
        }  # what is no number is the program's own
        if expected.shape != found.shape or not np.allclose(expected, found, **near):
            off = float(np.abs(expected - found).max())
            yield f"one process: {name} is off by {off:.3g} from what one process trains on the same batches"
