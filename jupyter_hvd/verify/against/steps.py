"""Groups the events of a process into training steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..exact.records import Event, Record

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Step:
    """One update by an optimizer, with its inputs.

    Attributes:
        names: of the variables. rate: the learning rate.
        update_line, gradient_line, optimizer_line: the program's lines that update, take gradients, and create the optimizer.
        before, applied, after: a projection and a norm of each variable before the update, of the gradient that the optimizer
            gets, and of the variable after it; shape `(variables, 2)`.
        gradients: the same of the gradients that this process computed; None where these were for other variables.
        loss: whose gradients were taken; nan where there was none.
        rows: a projection of each row of the batch; None where no batch was observed.
    """

    names: tuple[str, ...]
    rate: float
    update_line: str
    before: Numbers
    applied: Numbers
    after: Numbers
    gradients: Numbers | None = None
    loss: float = float("nan")
    gradient_line: str = ""
    rows: Numbers | None = None
    optimizer_line: str = ""

    @property
    def change(self) -> Numbers:
        """The projection of each variable's change in this update, shape `(variables,)`."""
        added: Numbers = self.after[:, 0] - self.before[:, 0]
        return added


@dataclass(frozen=True)
class Process:
    """One process of a training.

    Attributes:
        begun: the number of steps that it began; a rank that waits for others has begun one that it does not complete.
    """

    record: Record
    steps: tuple[Step, ...]

    @cached_property
    def begun(self) -> int:
        """The number of steps that were begun, even if not completed."""
        kinds = [self.record.sites[event.site].kind for event in self.record.events]
        return max(kinds.count("update"), kinds.count("gradient"))

    @cached_property
    def rows(self) -> Numbers:
        """The projections of the rows of all batches, in order."""
        return np.concatenate([np.zeros(0), *(s.rows for s in self.steps if s.rows is not None)])

    @property
    def data_line(self) -> str:
        """The line that distributes or batches the data, if it is only one, else the line that takes gradients."""
        if len(self.record.data_lines) == 1:
            return self.record.data_lines[0]
        return self.steps[0].gradient_line if self.steps else ""

    @property
    def batch_size(self) -> int:
        """The rows of the largest batch, 0 where none was observed."""
        return max((len(s.rows) for s in self.steps if s.rows is not None), default=0)


def process_of(record: Record) -> Process:
    """Split the record of a process into steps."""
    return Process(record, tuple(read_steps(record)))


def read_steps(record: Record) -> Sequence[Step]:
    """Return the training steps in a record, up to the first that was not observed completely."""
    found: list[Step] = []
    latest: dict[str, Event] = {}
    for event in record.events:
        site = record.sites[event.site]
        if site.kind != "update":
            latest[site.kind] = event
            continue
        own = [latest.get(kind) for kind in ("before", "applied")]
        sizes = {len(e.measures) for e in (*own, event) if e is not None}
        if None in own or sizes != {2 * len(site.names)}:
            break
        before, applied = (measure_pairs(e) for e in own if e is not None)
        gradient, batch = latest.get("gradient"), latest.get("batch")
        fits = gradient is not None and len(gradient.measures) == 2 * len(site.names)
        found.append(
            Step(
                names=site.names,
                rate=event.value,
                update_line=site.line,
                before=before,
                applied=applied,
                after=measure_pairs(event),
                gradients=measure_pairs(gradient) if gradient is not None and fits else None,
                loss=gradient.value if gradient is not None else float("nan"),
                gradient_line=record.sites[gradient.site].line if gradient is not None else "",
                rows=batch.measures if batch is not None and len(batch.measures) else None,
                optimizer_line=site.optimizer_line,
            )
        )
        latest.clear()
    return found


def measure_pairs(event: Event) -> Numbers:
    """Return the projections and norms in an event, as rows of pairs."""
    return event.measures.reshape(-1, 2)
