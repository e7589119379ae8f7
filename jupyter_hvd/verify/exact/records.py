"""The observations of one process: immutable, and stored as a JSON file beside one of arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Kind = Literal["batch", "gradient", "before", "applied", "update"]
#: What statements of a training step do, in their order.
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class Site:
    """A statement that takes gradients for variables, or lets an optimizer update them.

    Attributes:
        kind: `batch`, `before` and `applied` only where steps are observed in detail.
        line: of the user's program, as `train.py, line 12`. names: of the variables.
        optimizer_line: where the optimizer of an update was made; "" where steps are not observed in detail.
    """

    kind: Kind
    line: str
    names: tuple[str, ...]
    optimizer_line: str = ""


@dataclass(frozen=True)
class Event:
    """One time that a site ran.

    Attributes:
        site: its position among the sites. value: the loss of a gradient, the learning rate of an update, the rows of a batch.
        measures: a projection and a norm for each variable, of its gradient, or of itself before or after an update; a
            projection of each row of a batch; empty where there was no room for them.
    """

    site: int
    value: float
    measures: NDArray[np.float64]


@dataclass(frozen=True)
class Fit:
    """The result of a call of `fit`: the curves of its History, and the line of the call."""

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
    """The observed actions of one process.

    Attributes:
        error: the last line of its traceback; "" where it came to its end. code: the exit code.
        printed: lines of its standard output. prints: the first line of what each `print` has written, and where that stands.
        unheld: how many more variables there were, for which there was no room.
        files: new or changed ones, relative to `folder`. refused: files that it was kept from changing.
        rows: the sizes of the batches that were shared. shared: whether any was.
        told: what sharing has reported, such as the calls that run unsharded.
        stopped: why it was ended before its end: "", "steps" or "time".
        normalizations, random_layers: names of layers that compute with the moments of a batch, and that draw random numbers.
        data_lines: where `tf.distribute` distributes datasets, or else where these are batched; only observed in detail, too.
        shard_line: where the data of the first step were sharded; "" where they were not, or that is not known.
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

    @property
    def steps(self) -> int:
        """How many training steps it made: updates by optimizers, or gradients where there are none."""
        return count_steps([self.sites[event.site].kind for event in self.events])


def count_steps(kinds: list[str]) -> int:
    return kinds.count("update") or kinds.count("gradient")


def save_record(record: Record, stem: Path) -> None:
    """Write a record into two files whose names begin with `stem`; the `.npz` is there when both are whole."""
    plain = asdict(replace(record, events=(), variables=()))
    plain["variables"] = [(v.name, v.trainable) for v in record.variables]
    stem.with_suffix(".json").write_text(json.dumps(plain))
    measures = [event.measures for event in record.events]
    arrays = {
        "sites": np.array([event.site for event in record.events], np.int32),
        "values": np.array([event.value for event in record.events], np.float64),
        "lengths": np.array([len(m) for m in measures], np.int64),
        "measures": np.concatenate([np.zeros(0), *measures]),
        **{str(number): variable.value for number, variable in enumerate(record.variables)},
    }
    part = stem.with_suffix(".part")
    with part.open("wb") as stream:
        np.savez(stream, **arrays)  # type: ignore[arg-type]
    part.replace(stem.with_suffix(".npz"))


def read_record(stem: Path) -> Record:
    plain = json.loads(stem.with_suffix(".json").read_text())
    with np.load(stem.with_suffix(".npz")) as arrays:
        ends = np.cumsum(arrays["lengths"])
        measures = np.split(arrays["measures"], ends[:-1]) if len(ends) else []
        events = tuple(
            Event(int(site), float(value), part)
            for site, value, part in zip(arrays["sites"], arrays["values"], measures, strict=True)
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
            "events": events,
            "variables": variables,
        }
    )
