"""The observations of one process. Records are immutable; each is stored as a JSON file and a file of arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from .number_recorder import NumberSeries
from .number_sites import NumberSite

Kind = Literal["batch", "gradient", "before", "applied", "update"]
#: What statements of a training step do, in their order.
KINDS: tuple[Kind, ...] = get_args(Kind)


#: The arrays of a `NumberSeries`, in the order of its fields.
SERIES = {"positions": np.int64, "lows": np.float64, "highs": np.float64}


@dataclass(frozen=True)
class Site:
    """A statement that takes gradients for variables, updates them, or calls a model.

    Attributes:
        kind: `batch`, `before` and `applied` only where steps are observed in detail.
        line: of the user's program, as `train.py, line 12`. names: of the variables.
        optimizer_line: the line that created the optimizer of an update; "" where steps are not observed in detail.
    """

    kind: Kind
    line: str
    names: tuple[str, ...]
    optimizer_line: str = ""


@dataclass(frozen=True)
class Event:
    """One execution of a site.

    Attributes:
        site: its position among the sites. value: a gradient's loss, an update's learning rate, or a batch's number of rows.
        measures: a projection and a norm of each variable or its gradient, or a projection of each row of a batch; empty where
            there was no room for them.
    """

    site: int
    value: float
    measures: NDArray[np.float64]


@dataclass(frozen=True)
class Fit:
    """The curves of the `History` that a call of `fit` returns, and the line of the call."""

    line: str
    epochs: int
    curves: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class Variable:
    """A variable at the end of the program."""

    name: str
    trainable: bool
    value: NDArray[Any]


@dataclass(frozen=True)
class Record:
    """The observations of one process.

    Attributes:
        error: the last line of its traceback; "" where it completed. code: the exit code.
        printed: lines of its standard output. prints: the first line that each `print` wrote, and the line of its call.
        unheld: the number of further variables, for which there was no room.
        files: new or changed ones, relative to `folder`. refused: files that it tried to change, and could not.
        rows: the sizes of the sharded batches. shared: whether any batch was.
        told: messages about sharding, such as the calls that run unsharded.
        stopped: why it was ended early: "", "steps" or "time".
        normalizations, random_layers: names of layers that use the moments of a batch, and that draw random numbers.
        data_lines: the lines where `tf.distribute` distributes datasets, or else where they are batched; only with details.
        shard_line: the line that sharded the data of the first step; "" for none or unknown.
        number_sites, number_series: where numbers meet in the program, and the values of all operands, in the order of the
            sites; empty where they are not recorded.
    """

    rank: int = 0
    error: str = ""
    code: int = 0
    printed: tuple[str, ...] = ()
    prints: tuple[tuple[str, str], ...] = ()
    sites: tuple[Site, ...] = ()
    events: tuple[Event, ...] = ()
    fits: tuple[Fit, ...] = ()
    variables: tuple[Variable, ...] = ()
    unheld: int = 0
    folder: str = ""
    files: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    shared: bool = False
    told: tuple[str, ...] = ()
    stopped: str = ""
    normalizations: tuple[str, ...] = ()
    random_layers: tuple[str, ...] = ()
    data_lines: tuple[str, ...] = ()
    shard_line: str = ""
    number_sites: tuple[NumberSite, ...] = ()
    number_series: tuple[NumberSeries, ...] = ()

    @property
    def steps(self) -> int:
        """The number of training steps: updates by optimizers, or gradients where there are none."""
        return count_steps([self.sites[event.site].kind for event in self.events])


def count_steps(kinds: list[str]) -> int:
    """Return the number of training steps: of updates, else of gradients."""
    return kinds.count("update") or kinds.count("gradient")


def save_record(record: Record, stem: Path) -> None:
    """Write a record to two files whose names begin with `stem`. The `.npz` file appears when both are complete."""
    plain = asdict(replace(record, events=(), variables=(), number_series=()))
    plain["variables"] = [(v.name, v.trainable) for v in record.variables]
    stem.with_suffix(".json").write_text(json.dumps(plain))
    measures = [event.measures for event in record.events]
    arrays = {
        "sites": np.array([event.site for event in record.events], np.int32),
        "values": np.array([event.value for event in record.events], np.float64),
        "lengths": np.array([len(m) for m in measures], np.int64),
        "measures": np.concatenate([np.zeros(0), *measures]),
        "entries": np.array([len(series) for series in record.number_series], np.int64),
        **{
            name: np.concatenate(
                [np.zeros(0, kind), *(getattr(series, name) for series in record.number_series)]
            )
            for name, kind in SERIES.items()
        },
        **{str(number): variable.value for number, variable in enumerate(record.variables)},
    }
    part = stem.with_suffix(".part")
    with part.open("wb") as stream:
        np.savez(stream, **arrays)  # type: ignore[arg-type]
    part.replace(stem.with_suffix(".npz"))


def read_record(stem: Path) -> Record:
    """Read the record whose files have this path without their suffixes."""
    plain = json.loads(stem.with_suffix(".json").read_text())
    with np.load(stem.with_suffix(".npz")) as arrays:
        ends = np.cumsum(arrays["lengths"])
        measures = np.split(arrays["measures"], ends[:-1]) if len(ends) else []
        events = tuple(
            Event(int(site), float(value), part)
            for site, value, part in zip(arrays["sites"], arrays["values"], measures, strict=True)
        )
        parts = {name: np.split(arrays[name], np.cumsum(arrays["entries"])) for name in SERIES}
        series = tuple(
            NumberSeries(*(parts[name][number] for name in SERIES))
            for number in range(len(arrays["entries"]))
        )
        variables = tuple(
            Variable(name, trainable, arrays[str(number)])
            for number, (name, trainable) in enumerate(plain["variables"])
        )
    lists = (
        "printed", "files", "refused", "rows", "told", "normalizations", "random_layers", "data_lines",
    )  # fmt: skip
    return Record(
        **{
            **plain,
            **{name: tuple(plain[name]) for name in lists},
            "prints": tuple((text, line) for text, line in plain["prints"]),
            "sites": tuple(Site(**{**s, "names": tuple(s["names"])}) for s in plain["sites"]),
            "fits": tuple(
                Fit(f["line"], f["epochs"], {k: tuple(v) for k, v in f["curves"].items()})
                for f in plain["fits"]
            ),
            "number_sites": tuple(
                NumberSite(**{**s, "operands": tuple(s["operands"])}) for s in plain["number_sites"]
            ),
            "number_series": series,
            "events": events,
            "variables": variables,
        }
    )
