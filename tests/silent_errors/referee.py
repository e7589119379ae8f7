"""`verify --against` by processes that live from program to program: only a few seconds a verdict."""

from __future__ import annotations

import sys
from pathlib import Path

from jupyter_hvd.verify.against.faults import Fault, find_exit_fault, find_mode
from jupyter_hvd.verify.against.judgement import MoreRuns, judge_with_more_runs
from jupyter_hvd.verify.against.steps import Process, process_of
from jupyter_hvd.verify.against.verification import AgainstVerification
from jupyter_hvd.verify.checks import Check
from jupyter_hvd.verify.exact.compare import TOLERANCE
from jupyter_hvd.verify.exact.verification import SEED

sys.path.insert(0, str(Path(__file__).parents[1] / "exact"))

from shared_laboratory import Ranks

LIVING = Path(__file__).parent / "living_referee.py"
#: Seconds for each run.
PATIENCE = 150.0


class Referee:
    """Processes that judge one program after another: one for originals, and two ranks."""

    def __init__(self) -> None:
        self._ranks = {size: Ranks(size, LIVING) for size in (1, 2)}
        self._alone: dict[tuple[Path, int], Process] = {}

    def close(self) -> None:
        for ranks in self._ranks.values():
            ranks.close()

    def run(
        self, path: Path, size: int, *, apart: int = 0, rounding: int = 0, steps: int = 10**9
    ) -> tuple[Process, ...]:
        """Run a program.

        Args:
            apart: by how much the seeds of the ranks differ. The rest: see `Observer`.

        Raises:
            StuckError: the processes give no answer.
        """
        ranks = self._ranks[size]
        limits = {"steps": steps, "rounding": rounding}
        ranks.order(path=str(path), seed=SEED, seeds_apart=apart, limits=limits)
        records = ranks.receive(PATIENCE)
        return tuple(map(process_of, records))

    def alone(self, path: Path, time: int = 0) -> Process:
        """The original, or once more the same, or the one that rounds otherwise."""
        key = path, time
        if key not in self._alone:
            (self._alone[key],) = self.run(path, 1, rounding=int(time == 2))
        return self._alone[key]

    def judge(self, original: Path, other: Path) -> AgainstVerification:
        """Judge a program of two ranks, as `verify_against` does."""
        own = self.alone(original)
        assert own.steps, own.record.error
        ranks = self.run(other, 2, steps=2 * own.record.steps + 1)
        failed = next((p.record.error for p in ranks if p.record.error), "")
        if failed:
            fault = find_exit_fault(ranks) or Fault("the ranks fail", "ending", failed)
            return AgainstVerification((Check("ending", "fail", str(fault)),), 2, fault=fault)
        mode, reason = find_mode(own, ranks)
        assert mode is not None, reason
        more = MoreRuns(
            again=lambda: (self.alone(original, 1), self.alone(original, 2)),
            one_rank=lambda: self.run(other, 1)[0],
            own_seeds=lambda: self.run(other, 2, apart=1, steps=3),
        )
        found = judge_with_more_runs(more, own, ranks, mode, TOLERANCE)
        return AgainstVerification(
            tuple(found.list_checks(2)),
            2,
            mode,
            own.record.steps,
            found.first_fault,
            found.compared_steps,
            found.why_unjudged,
            found.design_difference,
        )
