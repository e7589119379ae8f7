"""Functions that the kernel calls on a rank: run a cell, set and get values, identify itself."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from IPython.core.getipython import get_ipython

from ..launch.heartbeat import HeartbeatClient
from ..launch.rank_location import list_threads
from ..runtime.sharing import program
from ..runtime.sharing.random_state import RandomState, random_state, set_random_state
from ..runtime.sharing.start import work_on_a_copy
from . import debugger, trained_weights, training_state
from .paths import TRAINED, AccessPath, weighted_objects
from .reply import LayerSeeds, Reply, describe_error
from .serialization import (
    SerializedValue,
    digest_value,
    has_stream_position,
    is_plain,
    keras_kind,
    pack_value,
    rate_of,
    read_pushed,
    unpack_value,
)
from .snapshot import Assignment, find_delta, take_snapshot

#: The file of a cell's code on the ranks, `<In[3]#7>`: the notebook's number and a serial one.
CELL_FILE = "<In[{number}]#{serial}>"

#: What ties this rank to the kernel; the engine sets it.
heartbeat_client: HeartbeatClient | None = None

#: The numbers of the call that is answered, and of the one that was interrupted last.
_call: int | None = None
_interrupted: int | None = None


def user_namespace() -> dict[str, Any]:
    """Return the namespace of the user's cells."""
    shell: Any = get_ipython()
    namespace: dict[str, Any] = shell.user_ns
    return namespace


def begin_call(call: int) -> None:
    """Record the number of the call that runs from now on."""
    global _call
    _call = call


#: Copies of standard output and error as they were when the rank began, by their descriptors.
_outputs: dict[int, int] = {}


def keep_outputs() -> None:
    """Keep copies of standard output and error: a cell may close them."""
    _outputs.update({descriptor: os.dup(descriptor) for descriptor in (1, 2)})


def reopen_outputs() -> bool:
    """Open standard output and error again if a cell has closed them; return whether it had."""
    closed = []
    for descriptor, kept in _outputs.items():
        try:
            os.fstat(descriptor)
        except OSError:
            with suppress(OSError):
                os.dup2(kept, descriptor)
            closed.append(descriptor)
    return bool(closed)


#: What brings this rank's copy of the folder up to date, where it works on one.
_renew_files: Callable[[], None] | None = None


def share_cells() -> None:
    """Share batches from now on if the ranks should; on ranks other than 0, work in a copy of the folder."""
    global _renew_files
    if os.environ.get(program.BATCH_VARIABLE) is None:
        return
    if os.environ["HOROVOD_RANK"] != "0":
        _renew_files = work_on_a_copy()
    program.share_program()


def layer_seeds(namespace: Mapping[str, Any], names: Sequence[str]) -> LayerSeeds:
    """Return the states of the seed generators of layers that some names reach, by access path."""
    layers = [e for e in weighted_objects(namespace, names) if hasattr(e.value, "_flatten_layers")]
    if not layers:
        return {}
    from ..runtime.sharing.keras_versions import seed_states

    found = [(e.paths[0], [s.numpy() for s in seed_states(e.value)]) for e in layers]
    return {path: each for path, each in found if each}


def set_layer_seeds(namespace: Mapping[str, Any], seeds: LayerSeeds) -> None:
    """Set the states of layers' seed generators to those of another process; other layers are skipped."""
    for path, given in seeds.items():
        there = path.follow_path(namespace) if path.name in namespace else None
        if hasattr(there, "_flatten_layers"):
            from ..runtime.sharing.keras_versions import seed_states

            own = seed_states(there)
            if len(own) == len(given):
                for variable, state in zip(own, given, strict=True):
                    variable.assign(state)


@dataclass(frozen=True)
class InitialState:
    """The notebook's state with which shared cells start on the ranks.

    Attributes:
        drawn: for each cell the random numbers with which it began there; None where that is not known.
        rates: the learning rates of optimizers, by paths that lead to these.
        seeds: what layers draw from, such as those that drop, by paths that lead to these or their models.
        guard: whether the ranks compare their data.
        data: see `jupyter_hvd.runtime.start_shared`.
    """

    drawn: tuple[RandomState | None, ...]
    rates: Mapping[AccessPath, float] = field(default_factory=dict)
    seeds: LayerSeeds = field(default_factory=dict)
    guard: bool = True
    data: str = "each"


@dataclass(frozen=True)
class Sync:
    """What a rank takes from the notebook before it runs cells, in the same call.

    Attributes:
        values: what `set_values` sets, pickled. beginning: for ranks that share each batch.
    """

    values: bytes
    beginning: InitialState | None = None

    def take(self) -> dict[str, str]:
        """Bind the values and restore the initial state; return why values failed, by path.

        Collective if there is a state.
        """
        failed = set_values(self.values, None, [])
        if self.beginning is not None:
            begin_shared(self.beginning)
        return failed


#: With which random numbers the next cells begin.
_drawn: deque[RandomState | None] = deque()


def begin_shared(beginning: InitialState) -> None:
    """Set random states, learning rates, seeds and files as in the kernel, before cells that share batches.

    Collective: no rank returns before all have done so, so that none copies files that another's cell has written.
    """
    from ..runtime.sharing.context import sharing

    sharing.guarded = beginning.guard
    sharing.data = beginning.data
    _drawn.clear()
    _drawn.extend(beginning.drawn)
    for path, there in values_at([*beginning.rates]).items():
        if rate_of(there) not in (None, beginning.rates[path]):
            there.learning_rate = beginning.rates[path]
    set_layer_seeds(user_namespace(), beginning.seeds)
    if _renew_files is not None:
        _renew_files()
    count_agreeing_ranks()


def prepare_cell(
    sync: Sync,
    cells: Sequence[tuple[str, str]],
    added: Sequence[str],
    compares: bool,
    plain: Sequence[AccessPath],
    weights: Sequence[AccessPath],
) -> Reply:
    """Run cells in order until one fails, after taking what the kernel sent; return the last reply, with digests.

    Args:
        cells: the text and the file of each.
        added, compares: as for `run_cell`.
        plain: paths to values whose digests rank 0 returns.
        weights: paths to objects whose digests all ranks return, if cells ran.
    """
    reply, failed = Reply(), sync.take()
    for number, (source, file) in enumerate(cells):
        reply = run_cell(None, source, file, added, compares=compares, goes_on=number > 0)
        if reply.error is not None:
            return replace(reply, failed=failed)
    asked = [*(plain if is_first_rank() else ()), *(weights if cells else ())]
    return replace(reply, failed=failed, digests=digest_paths(asked))


def is_first_rank() -> bool:
    """Whether this process is rank 0."""
    return os.environ.get("HOROVOD_RANK") == "0"


def run_cell(
    sync: Sync | None,
    source: str,
    file: str,
    added: Sequence[str],
    marker: str = "",
    wanted: Sequence[str] = (),
    compares: bool = False,
    goes_on: bool = False,
    held: Sequence[str] = (),
    quiet: bool = True,
    debugs: int | None = None,
) -> Reply:
    """Run one converted cell in this rank's namespace, as a kernel would; errors are in the reply.

    Args:
        sync: what to take before; None for nothing.
        file: the file name of the cell's code, as in `CELL_FILE`.
        added: names that the conversion binds, whatever other cells do with them.
        marker: written to stdout and stderr at the end, below Python, so that the kernel knows that all output of C++
            has arrived.
        wanted: names whose values rank 0 returns, if the cell succeeds.
        compares: record what is trained, so that `compare_trained` can compare the ranks.
        goes_on: count it with the cell before.
        held: names from which models are searched; rank 0 returns their new weights.
        quiet: let magics print on rank 0 only.
        debugs: the rank that stops at breakpoints.
    """
    shell: Any = get_ipython()
    failed = None if sync is None else sync.take()
    started = time.time()
    reopen_outputs()
    if _drawn and (state := _drawn.popleft()) is not None:
        set_random_state(state)
    first = is_first_rank()
    held, wanted = (held, wanted) if first else ((), ())
    before = take_snapshot(shell.user_ns, held, wanted)
    shell.quiet_magics = quiet and not first
    shell.compile.get_code_name = lambda *_: file
    stops = _call if str(debugs) == os.environ["HOROVOD_RANK"] else None
    with own_names(shell.user_ns, added), debugger.stops_at_breakpoints(stops, shell.user_ns):
        try:
            with allow_interrupt():
                if compares and not goes_on:
                    trained_weights.watch_cell()
                result = shell.run_cell(source, store_history=False)
                error = result.error_before_exec or result.error_in_exec
        except (KeyboardInterrupt, RuntimeError) as stopped:
            error = stopped
    if reopen_outputs():
        print(
            "the cell has closed the standard output of this rank; it is open again",
            file=sys.stderr,
        )
    sys.stdout.flush()
    sys.stderr.flush()
    for stream in (1, 2) if marker else ():
        os.write(stream, f"{marker}\n".encode())
    delta, drawn = list[Assignment](), None
    if error is None and first:
        delta = find_delta(before, shell.user_ns, held, wanted)
        # A seed that the notebook has not set stays unset.
        if sync is not None and sync.beginning is not None:
            drawn = random_state(), layer_seeds(shell.user_ns, held)
    return Reply(
        describe_error(error) if error is not None else None,
        time.time(),
        time.time() - started,
        delta,
        trained_weights.training_digest() if compares else "",
        failed,
        drawn=drawn,
    )


#: What the conversion's names stand for, to be put back where a cell of the user's has bound them.
_own: dict[str, Any] = {}


@contextmanager
def own_names(namespace: dict[str, Any], names: Sequence[str]) -> Iterator[None]:
    """Bind names that converted cells need, such as `hvd`, for the duration of a block, whatever the user bound them to."""
    namespace.update({name: _own[name] for name in names if name in _own})
    try:
        yield
    finally:
        _own.update({name: namespace[name] for name in names if name in namespace})


#: Whether what runs now may be stopped by an interrupt.
_interruptible = False


def handle_sigint(*_: object) -> None:
    """Handle SIGINT: raise KeyboardInterrupt while a cell runs, and ignore the signal otherwise."""
    if _interruptible:
        raise KeyboardInterrupt


def interrupt_call(call: int) -> None:
    """Interrupt a call that runs, or as soon as it starts; called from another thread."""
    global _interrupted
    _interrupted = call
    if call == _call:
        # The main thread itself: a signal to the process may wake another one.
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGINT)


@contextmanager
def allow_interrupt() -> Iterator[None]:
    """Let interrupts stop the code in this block; raise KeyboardInterrupt if this call has been interrupted already."""
    global _interruptible
    try:
        _interruptible = True
        if _interrupted is not None and _interrupted == _call:
            raise KeyboardInterrupt
        yield
    finally:
        _interruptible = False
        signal.signal(signal.SIGINT, handle_sigint)  # the cell may have set one of its own


def set_values(head: bytes, path: str | None, extents: list[tuple[int, int]]) -> dict[str, str]:
    """Bind names and set weights of objects, as `transfer.push_values` sends them; return why some failed, by path.

    Args:
        head, path, extents: as for `read_pushed`.
    """
    values: dict[AccessPath, SerializedValue] = read_pushed(head, path, extents)
    namespace, failed = user_namespace(), {}
    for target, packed in values.items():
        there = target.follow_path(namespace)
        if packed.kind in TRAINED and there is None:
            failed[str(target)] = "no cell that has run there has made it"
            continue
        try:
            if packed.kind in TRAINED:
                training_state.set_state(there, packed, namespace)
                continue
            value = unpack_value(packed, there)
            if not target.steps:
                namespace[target.name] = value
        except Exception as error:
            failed[str(target)] = f"{type(error).__name__}: {error}"
    return failed


def get_values(paths: Sequence[AccessPath]) -> dict[str, SerializedValue]:
    """Serialize the values to which some paths lead, by path; paths without a value are left out."""
    return {
        str(path): pack_value(value, limit=None)
        for path, value in values_at(paths).items()
        if value is not None or not path.steps
    }


def values_at(paths: Sequence[AccessPath]) -> dict[AccessPath, Any]:
    """Return the values to which some paths lead, by path; None if only the name exists."""
    namespace = user_namespace()
    return {path: path.follow_path(namespace) for path in paths if path.name in namespace}


def digest_paths(paths: Sequence[AccessPath]) -> dict[str, int]:
    """Return digests of the plain values and weights to which some paths lead, by path."""
    return {
        str(path): digest_value(pack_value(value, None))
        for path, value in values_at(paths).items()
        if keras_kind(value) in TRAINED or is_plain(value)
    }


def status_row() -> dict[str, Any]:
    """Return this rank's row in `%hvd status`: its devices, and its memory in bytes."""
    import psutil

    devices = "CPU"
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None:
        gpus = tensorflow.config.get_visible_devices("GPU")
        devices = ", ".join(g.name.rpartition("physical_device:")[2] for g in gpus) or "CPU"
    return {"device": devices, "memory": psutil.Process().memory_info().rss}


def panel_state() -> dict[str, Any]:
    """Return this rank's state for a panel: device, memory in bytes, and position."""
    assert heartbeat_client is not None
    return {**status_row(), **heartbeat_client.report_position()}


def count_agreeing_ranks() -> int:
    """Return how many ranks take part in a small allreduce. Collective: blocks until all ranks call it."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    return int(hvd.allreduce(tf.constant(1), op=hvd.Sum, name="jupyter_hvd.agree"))


# Horovod anew in a process that lives on

#: Horovod is left by one thread at a time.
_leaving = threading.Lock()


def join_horovod() -> int:
    """Join Horovod, and return the number of ranks. Collective: blocks until all ranks join."""
    import horovod.tensorflow as hvd

    before = list_threads()
    hvd.init()
    if heartbeat_client is not None:
        heartbeat_client.busy_threads = list_threads() - before
    return int(hvd.size())


def leave_horovod() -> None:
    """Leave Horovod; collective operations that wait on any rank then fail."""
    import horovod.tensorflow as hvd

    with _leaving:
        hvd.shutdown()


def abort_call(call: int) -> None:
    """Leave Horovod if this call is still running; called from another thread."""
    if call == _call:
        leave_horovod()


def rejoin_horovod() -> int:
    """Join Horovod again once all ranks have left it, and return the number of ranks. Collective.

    Raises:
        RuntimeError: Horovod uses MPI, which starts only once in a process.
    """
    if os.environ.get("HOROVOD_CONTROLLER") != "gloo":
        raise RuntimeError("MPI begins once in a process")
    return join_horovod()


def list_iterator_names(names: Sequence[str]) -> list[str]:
    """Return those names whose values have a position in a stream: iterators and random generators."""
    return [name for name in names if has_stream_position(user_namespace().get(name))]
