"""The state of sharing in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class NotByRowsError(Exception):
    """Raised in a shared call that does something that its own rows do not determine; the call must run unsharded.

    Keras catches errors of layers and raises them again, of the same class and with more text around the reason.
    """

    reason = ""

    def __str__(self) -> str:
        return type(self).reason or super().__str__()


def not_by_rows(reason: str) -> NotByRowsError:
    """Return an error whose reason can be found in its text, even if it is raised again with more text."""
    kind: type[NotByRowsError] = type("NotByRowsError", (NotByRowsError,), {"reason": reason})
    return kind(reason)


class Region:
    """A call that this rank computes for its own rows.

    Attributes:
        rows: of the full batch, a number or a tensor. own: of this rank, including padding.
        failed: why the call cannot be shared, in case the program has caught the error that said so.
        other_sizes: first dimensions of random numbers in the call that are not its number of rows.
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

    def find_full_size(self, size: int | None) -> int | None:
        """Return the first dimension for all rows of a tensor that has this one for own rows; None where unknown."""
        if not self.is_static or not size or size % self.own:
            return size
        whole: int = size // self.own * self.rows
        return whole

    def refuse_sharing(self, reason: str) -> None:
        """Note why the call cannot be shared, and raise.

        Raises:
            NotByRowsError: always.
        """
        self.failed = reason
        raise not_by_rows(reason)


class _ThreadState(threading.local):
    """What holds for the calls of one thread: see `Sharing`."""

    region: Region | None = None
    whole = 0
    checking = False


class Sharing:
    """The state of sharing on this rank.

    Attributes:
        active: the program is shared by more than one rank.
        guarded: ranks compare checksums of their data.
        data: see `jupyter_hvd.runtime.start_shared`.
        reads_alone: this is rank 0, and it is reading for the others.
        has_shared: a call was shared; before that, gradients are equal on all ranks.
        has_differentiated: the program has taken gradients.
        region: the call that this thread shares. whole: the nesting depth of this thread's calls that run unsharded.
        checking: this thread only checks a call, so that stateful operations that cannot be undone must not run.
        order: the order in which the rows of a batch are dealt to the ranks; None for their original order.
        draws: counts random numbers in a call that is being checked.
        listener: called with the number of rows of each shared call, a number or a tensor.
        recorder: called after each call of a layer within a call that runs unsharded, with the call, the layer and its arguments.
    """

    def __init__(self) -> None:
        self.active = False
        self.guarded = True
        self.data = "each"
        self.reads_alone = False
        self.rank = 0
        self.size = 1
        self.has_shared = False
        self.has_differentiated = False
        self.order: Any = None
        self.draws = 0
        self.listener: Callable[[Any], None] | None = None
        self.recorder: Callable[[Any, Any, Any, Any], None] | None = None
        self._threads: set[int] = set()
        self._this_thread = _ThreadState()

    @property
    def region(self) -> Region | None:
        return self._this_thread.region

    @region.setter
    def region(self, region: Region | None) -> None:
        self._this_thread.region = region

    @property
    def whole(self) -> int:
        return self._this_thread.whole

    @whole.setter
    def whole(self, depth: int) -> None:
        self._this_thread.whole = depth

    @property
    def checking(self) -> bool:
        return self._this_thread.checking

    def begin_sharing(self, rank: int, size: int) -> None:
        """Share calls in the current thread from now on."""
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
        """Whether collectives may be called here: only in the program's first thread, where all ranks have the same order."""
        return self.active and threading.get_ident() in self._threads

    @contextmanager
    def check_here(self) -> Iterator[None]:
        """Check a call in this thread, a new one, within the block, while the main thread waits."""
        here = threading.get_ident()
        self._threads.add(here)
        self._this_thread.checking = True
        try:
            yield
        finally:
            self._this_thread.checking = False
            self._threads.discard(here)

    @contextmanager
    def read_on_rank_zero(self) -> Iterator[None]:
        """Mark that only rank 0 reads within the block, while the other ranks wait for the result."""
        self.reads_alone = True
        try:
            yield
        finally:
            self.reads_alone = False

    @contextmanager
    def deal_rows_in_order(self, order: Any) -> Iterator[None]:
        """Give out the rows of batches in an order within the block: an array of row numbers, equal on all ranks."""
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
        """Raise if a call is being shared or checked, since it must not do this.

        Raises:
            NotByRowsError: a call is being shared or checked.
        """
        if self.region is not None:
            self.region.refuse_sharing(reason)
        if self.checking:
            raise not_by_rows(reason)

    @contextmanager
    def run_region(self, region: Region) -> Iterator[None]:
        """Compute only own rows within the block."""
        self.region = region
        try:
            yield
        finally:
            self.region = None


sharing = Sharing()
