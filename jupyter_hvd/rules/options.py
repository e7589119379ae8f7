"""What the caller of a conversion chooses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from ..settings import OptionError, settings_near
from .base import BATCHES, CODES, SHARING, Batch

Compression = Literal["none", "fp16"]
Data = Literal["each", "rank0", "augment"]
#: Options that say how a rank trains on batches of its own.
PER_RANK = (
    "compression",
    "warmup_epochs",
    "backward_passes_per_step",
    "restartable",
    "elastic",
)
#: Options that say how ranks share each batch.
OF_SHARING = ("data",)
ONLY_SHARING = "is for batch global or scaled; add one of these, or leave this out"
ONLY_PER_RANK = (
    "does not go with batch {batch}, whose ranks share each batch; leave one of them out"
)
#: The code of what is no Python; it belongs to no rule.
SYNTAX = "HVD001"


@dataclass(frozen=True)
class Options:
    """What the caller chooses.

    Attributes:
        select: codes or prefixes of codes (`HVD3`) of the rules to use; empty means all.
        ignore: codes or prefixes of the rules and diagnostics to leave out.
        compression: `fp16` halves what gradients cost on the network.
        warmup_epochs: `fit` reaches the multiplied learning rate after so many epochs.
        backward_passes_per_step: `fit` averages the gradients of so many batches at once.
        open_ended: the program goes on elsewhere, as a notebook's next cell: a training step that
            nothing calls yet is no fault.
        standalone: what the program needs of `jupyter_hvd.runtime` is written into it, so that it
            runs where Horovod is and this package is not; for batch global into a file beside it, `jupyter_hvd_sharing.py`.
        restartable: `fit` and loops go on where they were kept last, where the job is started again.
        elastic: so they do, and what could not is refused.
        guard: the ranks are compared while they train, and stopped where they part.
        batch: `per-rank`, each rank trains on batches of its own; `global`, the ranks share each batch, with the result of one
            process; `scaled`, they share batches N times as large, at N times the rate.
        data: where the ranks share each batch, `each`: every rank reads all data; `rank0`: rank 0 reads datasets for all ranks;
            `augment`: each rank draws the random numbers of a dataset's maps for its own rows only.

    Raises:
        OptionError: a value is of another kind, names a rule that there is none of, or does not go with the batch.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    compression: Compression = "none"
    warmup_epochs: int = 0
    backward_passes_per_step: int = 1
    open_ended: bool = False
    standalone: bool = False
    restartable: bool = False
    elastic: bool = False
    guard: bool = True
    batch: Batch = "per-rank"
    data: Data = "each"

    def __post_init__(self) -> None:
        for name in ("select", "ignore"):
            check_codes(name, getattr(self, name))
        if self.compression not in get_args(Compression):
            raise OptionError("compression", f"must be one of {', '.join(get_args(Compression))}")
        if self.batch not in BATCHES:
            raise OptionError("batch", f"must be one of {', '.join(BATCHES)}")
        if self.data not in get_args(Data):
            raise OptionError("data", f"must be one of {', '.join(get_args(Data))}")
        for name, least in (("warmup_epochs", 0), ("backward_passes_per_step", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise OptionError(name, f"must be a whole number from {least} on")
        for name in ("open_ended", "standalone", "restartable", "elastic", "guard"):
            if type(getattr(self, name)) is not bool:
                raise OptionError(name, "must be true or false")
        if self.shares_batches:
            self._refuse_per_rank()

    def _refuse_per_rank(self) -> None:
        """
        Raises:
            OptionError: an option is given that has no meaning where the ranks share each batch.
        """
        for field in fields(self):
            if field.name in PER_RANK and getattr(self, field.name) != field.default:
                raise OptionError(field.name, ONLY_PER_RANK.format(batch=self.batch))

    @classmethod
    def resolve(
        cls, explicit: Mapping[str, Any] | None = None, path: Path | None = None
    ) -> Options:
        """What was asked for, else what the project says.

        Args:
            explicit: the options that the caller gave.
            path: the file, or its folder, whose nearest `pyproject.toml` counts; none where it is None.

        Raises:
            OptionError: a value that was given is wrong.
            UnusableInputError: one in `pyproject.toml` is.
        """
        project = {} if path is None else settings_near(path, cls)
        options = cls(**merged(project, explicit or {}))
        if not options.shares_batches and options.data != "each":
            raise OptionError("data", ONLY_SHARING)
        return options

    @property
    def shares_batches(self) -> bool:
        """Whether the ranks share each batch, so that nothing is divided among them by edits."""
        return self.batch in SHARING

    def uses(self, code: str) -> bool:
        """Whether the rule or diagnostic with this code takes part."""
        chosen = not self.select or code.startswith(self.select)
        return chosen and not (self.ignore and code.startswith(self.ignore))


def merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of which later ones go before earlier ones.

    Where later ones choose another batch, earlier ones that are for the first are left out.
    """
    found: dict[str, Any] = {}
    for layer in layers:
        before = found.get("batch", BATCHES[0])
        if (layer.get("batch", before) in SHARING) != (before in SHARING):
            others = OF_SHARING if before in SHARING else PER_RANK
            found = {name: value for name, value in found.items() if name not in others}
        found |= layer
    return found


def check_codes(name: str, codes: Any) -> None:
    """Refuse what is no tuple of codes, or beginnings of codes, of rules.

    Raises:
        OptionError
    """
    if not isinstance(codes, tuple) or not all(isinstance(code, str) for code in codes):
        raise OptionError(name, 'must be a list of codes, such as ["HVD2", "HVD301"]')
    if not codes:
        return
    known = [SYNTAX, *CODES]
    for code in codes:
        if not code or not any(each.startswith(code) for each in known):
            raise OptionError(name, f"there is no rule {code}; `jupyter hvd rule` lists all")
