"""The state of sharing in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class NotByRowsError(Exception):
    """A call does something that its own rows do not determine: it must run unsharded.

    Keras raises errors of layers again, of the same class and with more words around the reason.
    """

    reason = ""

    def __str__(self) -> str:
        return type(self).reason or super().__str__()


def not_by_rows(reason: str) -> NotByRowsError:
    """An error whose reason is what its text says, whoever raises it again."""
    kind: type[NotByRowsError] = type("NotByRowsError", (NotByRowsError,), {"reason": reason})
    return kind(reason)


class Region:
    """A call that this rank computes for its own rows.

    Attributes:
        rows: of the whole batch, a number or a tensor. own: of this rank, padding included.
        failed: why the call cannot be shared, where a program has caught the error that said so.
        other_sizes: first dimensions that random numbers had in the call and that are not its rows.
    """

    def __init__(self, rows: Any, size: int) -> None:
        self.rows = rows
        self.own = (rows + size - 1) // size
        self.failed = ""
        self.other_sizes: set[int] = set()

    @property
    def is_static(self) -> bool:
        """Whether the number of rows is known while Python runs."""
        return isinstance(self.rows, int)

    def whole_size(self, size: int | None) -> int | None:
        """The first dimension that a tensor has for all rows, where it has this one for own rows; None where it is not known."""
        if not self.is_static or not size or size % self.own:
            return size
        whole: int = size // self.own * self.rows
        return whole

    def refuse_sharing(self, reason: str) -> None:
        """
        Raises:
            NotByRowsError: always.
        """
        self.failed = reason
        raise not_by_rows(reason)


class Sharing:
    """The state of this rank.

    Attributes:
        active: the program is shared by more than one rank.
        guarded: ranks compare checksums of their data.
        data: see `jupyter_hvd.runtime.start_shared`.
        reads_alone: this is rank 0, which reads for the others now.
        has_shared: a call was shared; before that, gradients are the same on all ranks.
        region: the call that is being shared now. whole: depth of calls that run unsharded.
        checking: a call is only checked; what has a state that cannot be put back must not run.
        order: the rows of a batch in the order in which they are dealt to the ranks; None for their own.
        draws: of random numbers in a call that is checked.
        listener: hears of the number of rows of each shared call, a number or a tensor.
    """

    def __init__(self) -> None:
        self.active = False
        self.guarded = True
        self.data = "each"
        self.reads_alone = False
        self.rank = 0
        self.size = 1
        self.has_shared = False
        self.region: Region | None = None
        self.whole = 0
        self.checking = False
        self.order: Any = None
        self.draws = 0
        self.listener: Callable[[Any], None] | None = None
        self._threads: set[int] = set()

    def begin_sharing(self, rank: int, size: int) -> None:
        """Share from now on what the calling thread does."""
        self.rank, self.size, self.active = rank, size, size > 1
        self._threads = {threading.get_ident()}

    @property
    def rank_zero_reads(self) -> bool:
        """Whether rank 0 reads datasets for all ranks."""
        return self.data == "rank0"

    @property
    def augments_own_rows(self) -> bool:
        """Whether each rank draws the random numbers of a dataset's maps for its own rows only."""
        return self.data == "augment"

    @property
    def in_charge(self) -> bool:
        """Whether collectives may be called here: in the program's first thread, in one order on all ranks."""
        return self.active and threading.get_ident() in self._threads

    @contextmanager
    def check_here(self) -> Iterator[None]:
        """Let this thread check a call, while the other waits for it."""
        here = threading.get_ident()
        self._threads.add(here)
        region, whole = self.region, self.whole
        self.region, self.whole, self.checking = None, 0, True
        try:
            yield
        finally:
            self.region, self.whole, self.checking = region, whole, False
            self._threads.discard(here)

    @contextmanager
    def read_on_rank_zero(self) -> Iterator[None]:
        """Read on rank 0, while the other ranks wait for what it has read."""
        self.reads_alone = True
        try:
            yield
        finally:
            self.reads_alone = False

    @contextmanager
    def deal_in(self, order: Any) -> Iterator[None]:
        """Deal the rows of batches in an order, an array of their places that is the same on all ranks."""
        self.order = order
        try:
            yield
        finally:
            self.order = None

    @contextmanager
    def run_whole(self) -> Iterator[None]:
        """Share nothing within the block."""
        region, self.region = self.region, None
        self.whole += 1
        try:
            yield
        finally:
            self.whole -= 1
            self.region = region

    def refuse_sharing(self, reason: str) -> None:
        """
        Raises:
            NotByRowsError: a call is shared or checked, and must not do this.
        """
        if self.region is not None:
            self.region.refuse_sharing(reason)
        if self.checking:
            raise not_by_rows(reason)

    @contextmanager
    def run_region(self, region: Region) -> Iterator[None]:
        """Compute own rows within the block."""
        self.region = region
        try:
            yield
        finally:
            self.region = None


sharing = Sharing()
