"""What the caller of a conversion chooses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from ...removed_options import removed_value
from ...settings import OptionError, settings_near
from .base import BATCHES, CODES, Batch

Data = Literal["each", "rank0", "augment"]
#: The code of what is no Python; it belongs to no rule.
SYNTAX = "HVD001"


@dataclass(frozen=True)
class Options:
    """What the caller chooses.

    Attributes:
        select: codes or prefixes of codes (`HVD3`) of the rules to use; empty means all.
        ignore: codes or prefixes of the rules and diagnostics to leave out.
        open_ended: the program goes on elsewhere, as a notebook's next cell: a training step that
            nothing calls yet is no fault.
        standalone: what the program needs of `jupyter_hvd.runtime` is written into a file beside it, `jupyter_hvd_sharing.py`, so
            that it runs where Horovod is and this package is not.
        guard: the data of the ranks are compared while they train, and the ranks stopped where these differ.
        batch: `per-rank`, the ranks share batches N times as large as those of one process, at N times the learning rate;
            `global`, they share the batches of one process, with its result.
        warmup_epochs: where batches grow, `fit` reaches the multiplied learning rate after so many epochs; 0 for at once.
        data: `each`, every rank reads all data; `rank0`, rank 0 reads datasets for all ranks; `augment`, each rank draws the
            random numbers of a dataset's maps for its own rows only.

    Raises:
        OptionError: a value is of another kind, or names a rule that there is none of.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    open_ended: bool = False
    standalone: bool = False
    guard: bool = True
    batch: Batch = "per-rank"
    data: Data = "each"
    warmup_epochs: int = 0

    def __post_init__(self) -> None:
        for name in ("select", "ignore"):
            check_codes(name, getattr(self, name))
        if self.batch not in BATCHES:
            known = f"must be one of {', '.join(BATCHES)}"
            raise OptionError("batch", removed_value("batch", self.batch) or known)
        if self.data not in get_args(Data):
            raise OptionError("data", f"must be one of {', '.join(get_args(Data))}")
        if type(self.warmup_epochs) is not int or self.warmup_epochs < 0:
            raise OptionError("warmup_epochs", "must be a whole number from 0 on")
        for name in ("open_ended", "standalone", "guard"):
            if type(getattr(self, name)) is not bool:
                raise OptionError(name, "must be true or false")

    @classmethod
    def resolve(
        cls, explicit: Mapping[str, Any] | None = None, path: Path | None = None
    ) -> Options:
        """Return the given options, completed by the project's settings.

        Args:
            explicit: the options that the caller gave.
            path: the file or folder whose nearest `pyproject.toml` counts; None for no settings.

        Raises:
            OptionError: a given value is wrong.
            UnusableInputError: a value in `pyproject.toml` is wrong.
        """
        project = {} if path is None else settings_near(path, cls)
        return cls(**{**project, **(explicit or {})})

    def uses(self, code: str) -> bool:
        """Whether `select` and `ignore` leave the rule or diagnostic with this code in."""
        chosen = not self.select or code.startswith(self.select)
        return chosen and not (self.ignore and code.startswith(self.ignore))


def check_codes(name: str, codes: Any) -> None:
    """Refuse anything but a tuple of rule codes, or of beginnings of codes.

    Raises:
        OptionError: it is another type, or there is no such rule.
    """
    if not isinstance(codes, tuple) or not all(isinstance(code, str) for code in codes):
        raise OptionError(name, 'must be a list of codes, such as ["HVD2", "HVD301"]')
    if not codes:
        return
    known = [SYNTAX, *CODES]
    for code in codes:
        if not code or not any(each.startswith(code) for each in known):
            raise OptionError(name, f"there is no rule {code}; `jupyter hvd rule` lists all")
