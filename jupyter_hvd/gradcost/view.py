"""The form of a report that people read: sections of tables, plots, cards and remarks, worded and formatted.

`sections.py` fills it in. A template draws it as HTML (`fallback.py`), and one component for each class draws it in JupyterLab
(`labextension/src/gradcost/blocks.tsx`), which also asks the kernel what its controls say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

from ..svg import Axis

VERSION = 3

#: Names a colour: of a program, or of one of several functions.
Colour = Literal["", "value", "adjoint", "forward", "jax", "fifth", "sixth"]


@dataclass(frozen=True)
class Source:
    """A line of the user's, in a cell, `In [count]`, that the notebook knows as `cell`, or in a file."""

    cell: str | None
    count: int | None
    file: str
    line: int
    text: str


@dataclass(frozen=True)
class Span:
    """Some words of a text, with a tooltip. A click on them shows the line `place`, or the row of the name `row`.

    `unseen` words are read out only; `line` and `dashed` show the line of a curve before them.
    """

    text: str
    look: Literal["", "strong", "quiet", "unseen", "line", "dashed"] = ""
    title: str = ""
    code: bool = False
    colour: Colour = ""
    place: Source | None = None
    row: str = ""


Text = tuple[Span, ...]


@dataclass(frozen=True)
class Cell:
    """A cell of a table: a `note` below its text, `value` for programs that read the page, `share` the length of a bar behind."""

    text: Text = ()
    note: Text = ()
    title: str = ""
    value: float | None = None
    share: float | None = None


@dataclass(frozen=True)
class Column:
    """A column, by its name in style sheets, and its heading."""

    name: str
    title: str
    help: str = ""


@dataclass(frozen=True)
class Row:
    """A row: to point at it marks all rows of its `group`. Rows that are `extra` are shown on demand."""

    name: str
    cells: tuple[Cell, ...]
    colour: Colour = ""
    group: str = ""
    extra: bool = False


@dataclass(frozen=True)
class Table:
    """A table; the first cell of a row names it, `empty` stands for rows that there are not."""

    label: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    caption: str = ""
    empty: str = ""
    type: Literal["table"] = "table"


@dataclass(frozen=True)
class Mark:
    """A point of a curve that says something when it is pointed at."""

    at: tuple[float, float]
    text: str


@dataclass(frozen=True)
class Series:
    """A curve, by its name, with a letter at its end."""

    label: str
    colour: Colour
    points: tuple[tuple[float, float], ...]
    marks: tuple[Mark, ...] = ()
    letter: str = ""
    look: Literal["", "dashed", "faint", "dots"] = ""


@dataclass(frozen=True)
class Plot:
    """Curves over two axes. An upright line stands at `rule`."""

    label: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    rule: float | None = None
    heading: str = ""
    caption: str = ""
    type: Literal["plot"] = "plot"


@dataclass(frozen=True)
class Remark:
    """A paragraph; a `status` or an `error` is read out when it changes. The front end shows the kernel's state before that of
    role `kernel`, and what went wrong last instead of an `alert`.
    """

    text: Text
    role: Literal["", "lead", "status", "kernel", "alert", "legend", "code", "error"] = ""
    type: Literal["remark"] = "remark"


@dataclass(frozen=True)
class Card:
    """Advice, with what it costs before and after, and code; `change` is the number by which it is accepted."""

    text: Text
    detail: Text = ()
    code: str = ""
    change: int | None = None
    type: Literal["card"] = "card"


#: What a control sends to the kernel, beside what it chooses.
Ask = Mapping[str, str]


@dataclass(frozen=True)
class Slider:
    """A size to choose, on a logarithmic scale; `note` says why it cannot be moved."""

    name: str
    label: str
    value: int
    low: int
    high: int
    note: str = ""
    type: Literal["slider"] = "slider"


@dataclass(frozen=True)
class Choice:
    """Some of several options, `least` of them; or one, where it is `single`. They are sent as `field`."""

    label: str
    options: tuple[str, ...]
    chosen: tuple[str, ...]
    ask: Ask
    field: str
    least: int = 0
    single: bool = False
    type: Literal["choice"] = "choice"


@dataclass(frozen=True)
class Action:
    """A button; one that `measures` waits for other measurements, one with `progress` shows and cancels them."""

    text: str
    ask: Ask
    title: str = ""
    measures: bool = False
    progress: bool = False
    type: Literal["action"] = "action"


@dataclass(frozen=True)
class Section:
    """Blocks below one another, with a `label` for screen readers. A `folded` one asks the kernel when it is opened; its label is
    a tooltip. `more` offers the extra rows.
    """

    name: str
    blocks: tuple[Block, ...]
    title: str = ""
    label: str = ""
    folded: bool = False
    ask: Ask | None = None
    more: str = ""
    type: Literal["section"] = "section"


Block = Table | Plot | Remark | Card | Slider | Choice | Action | Section


@dataclass(frozen=True)
class Heat:
    """A line of the user's, its part of all operations, and what to say of it."""

    place: Source
    share: float
    title: str


@dataclass(frozen=True)
class View:
    """A report: `about` where no control says it. `pending` names the sizes for which estimates are missing."""

    id: str
    function: str
    title: str
    about: Text
    controls: tuple[Block, ...]
    sections: tuple[Section, ...]
    heat: tuple[Heat, ...]
    pending: str = ""
    version: int = VERSION

    def json(self) -> dict[str, Any]:
        """Return the view as JSON, with the version of the form."""
        form: dict[str, Any] = to_json(self)
        return {**form, "version": self.version}


def to_json(part: Any) -> Any:
    """Convert dataclasses to plain data, without fields that have their defaults."""
    if is_dataclass(part):
        found = ((f, getattr(part, f.name)) for f in fields(part))
        return {f.name: to_json(v) for f, v in found if f.name == "type" or v != f.default}
    if isinstance(part, Mapping):
        return {name: to_json(value) for name, value in part.items()}
    return [to_json(each) for each in part] if isinstance(part, tuple | list) else part


def text_of(text: Text) -> str:
    """Return a text without its formatting, and without the parts for screen readers only."""
    return " ".join(span.text for span in text if span.look != "unseen")
