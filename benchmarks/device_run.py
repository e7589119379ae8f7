"""What is worth knowing of the kernels on a device that one has for a few minutes:

    python benchmarks/device_run.py --seconds 330 --out FOLDER [--only NAME …] [--skip PART …]
    python benchmarks/device_run.py --merge FOLDER

Each result is appended to FOLDER/results.jsonl at once, the most important first, so that a run may be cut at any time:

1. the profile of the device (`jupyter hvd device-profile`),
2. tests of the tensor language that need no other part of the package,
3. the peers' programs,
4. programs of `tensor_table`, with sizes that grow until JAX's gradient takes at least ten launches,
5. the growth of structured programs.

For each program every candidate kernel is timed beside JAX's. Several processes trace and compile at once; then one program at a
time is timed while the others wait. A program that does not compile within `COMPILING` seconds is given up. `--merge` writes the
results into docs/performance-tables.md, in columns by device.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from types import MappingProxyType
from typing import Any

ROOT = Path(__file__).parents[1]
COMPILING = 40.0  # seconds
ROUND = 9.0  # seconds, after which what has been compiled is timed
ENOUGH = 8.0  # seconds, after which no further kernel of a program is compiled
BEFORE = "as on a CPU"  # the kernel without a profile of the device
LAUNCHES = 10  # that JAX's gradient takes at least
TURNS = 9
TESTS = (
    "test_devices test_kernels test_jax_backend test_structures test_recurrences test_running_sums test_joins test_elementary "
    "test_linear_algebra test_dense test_everyday test_public test_programs test_sparse_jacobians test_stores test_kinks"
).split()
TESTING = 0.2  # of the time, at most


@dataclass(frozen=True)
class Job:
    """A program to measure: the part that it belongs to, its name, and a size where there are several."""

    part: str
    name: str
    size: int | None = None


BEGINNING = Job("", "a process that begins")


@dataclass(frozen=True)
class Prepared:
    """Kernels by name, ours by the model first, then JAX's, their arguments, and what is known of them before they are timed."""

    kernels: Mapping[str, Callable[..., Any]]
    arguments: tuple[Any, ...]
    known: Mapping[str, Any]


# In a process that measures


def _cost(executable: Any) -> dict[str, float]:
    """What XLA's analyses say: bytes that are moved, operations, bytes that it allocates."""
    found: dict[str, float] = {}
    with contextlib.suppress(Exception):  # some platforms have none
        analysis = executable.cost_analysis()
        found = {"moved": analysis.get("bytes accessed", 0), "flops": analysis.get("flops", 0)}
    with contextlib.suppress(Exception):
        memory = executable.memory_analysis()
        found["allocated"] = memory.temp_size_in_bytes + memory.output_size_in_bytes
    return found


def _all_kernels(candidates: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The kernels that a call could choose, by name, that of the model first; and what is known of each."""
    from jupyter_hvd.tensor import TensorError
    from jupyter_hvd.tensor.jax.tuning import drop_equal_plans
    from jupyter_hvd.tensor.lowering.choices import CANDIDATES, DENSE, MODEL

    first = candidates.made.by_model(candidates.operands)
    choices = dict.fromkeys((first, DENSE, MODEL, *CANDIDATES))
    kernels, known = {}, {}
    started = time.perf_counter()
    for choice, plan in drop_equal_plans({c: candidates.plan(c) for c in choices}).items():
        began = time.perf_counter()
        if began - started > ENOUGH:
            break
        name = str(choice) if choice != first else f"{choice} (first)"
        try:
            if choice.dense:
                candidates.made.require_fit(plan, candidates.operands)
            executable = candidates.compiled(choice)
        except TensorError as error:
            known[name] = {"why": error.message[:100]}
            continue
        known[name] = {
            "compiling": time.perf_counter() - began,
            **_cost(executable),
            "points": plan.points,
            "steps": len(plan.order),
            "predicted": _predicted(candidates.made, choice, plan),
        }
        kernels[name] = lambda *_, run=executable: run(*candidates.operands)
    return kernels, known


def _predicted(made: Any, choice: Any, plan: Any) -> float:
    """The ms that the device is predicted to take."""
    from jupyter_hvd.tensor.lowering.roofline import predicted_seconds

    if not choice.dense:
        return 1e3 * predicted_seconds(plan)
    work = made.fitting[plan.counts, plan.dtype].work
    return 1e3 * work.least_seconds(plan.device, plan.dtype.name, plan.dtype.itemsize)


def _as_on_a_cpu(derivative: Any, arguments: Any, named: Any = MappingProxyType({})) -> Any:
    """The kernel of a device without a profile: planned as for a CPU but for what suits a CPU alone."""
    from tensor_kernels import Candidates

    from jupyter_hvd.tensor.jax.devices import planned_for
    from jupyter_hvd.tensor.lowering.device import device_of

    with planned_for(device_of("unknown", "a device without a profile")):
        candidates = Candidates.of(derivative, arguments, named)
        executable = candidates.compiled(candidates.made.by_model(candidates.operands))
    return lambda *_: executable(*candidates.operands)


def _prepared_table(job: Job, launch: float) -> Prepared:
    import tensor_table as table
    from tensor_kernels import Candidates

    program = next(p for p in table.all_programs() if p.name == job.name)
    if not _runs_in_jax(program):
        raise ValueError("no program of JAX as it stands")
    least = LAUNCHES * 1e3 * launch
    found = table.large_enough(
        program, table.Growth(least, 100 * least, 1 << 26, 5.0, 16, 25, _single)
    )
    if found is None:
        raise ValueError("too large from the start, its loops written out by JAX")
    other, data, arguments = found
    given = table.derivative(program, table.as_tensor(program), arguments)
    candidates = Candidates.of(*given)
    kernels, known = _all_kernels(candidates)
    kernels[BEFORE] = _as_on_a_cpu(*given)
    first, *rest = kernels
    return Prepared(
        {first: kernels[first], "JAX": other, **{name: kernels[name] for name in rest}},
        data,
        {
            "class": program.kind,
            "entries": table.entries(arguments),
            "sizes": dict(candidates.made._sizes),
            "kernels": {**known, "JAX": _cost(other)},
        },
    )


def _single(executable: Any, arguments: Any) -> float:
    """The ms of one run; beside what other processes do on the device only the fastest of many says something."""
    import jax

    began = time.perf_counter()
    jax.block_until_ready(executable(*arguments))
    return 1e3 * (time.perf_counter() - began)


def _runs_in_jax(program: Any) -> bool:
    import tensor_table as table
    from jax import tree_util

    try:
        program.direct(*tree_util.tree_map(table._on_device, program.arguments))
    except TypeError:
        return False
    return True


def _prepared_peer(job: Job) -> Prepared:
    import jax
    from peer_programs import PEERS
    from tensor_kernels import Candidates, compiled, device_arrays

    peer = next(p for p in PEERS if p.benchmark.name == job.name)
    benchmark = peer.benchmark
    arguments = device_arrays(benchmark, job.size or benchmark.size)
    places = benchmark.places if len(benchmark.places) > 1 else benchmark.places[0]
    ways = {"JAX": benchmark.direct, **{way.__name__: way for way in (*peer.ways, *peer.better)}}
    others = {name: compiled(jax.grad(way, places), arguments)[0] for name, way in ways.items()}
    derivative = benchmark.function.grad(*benchmark.wrt)
    kernels, known = _all_kernels(Candidates.of(derivative, arguments))
    kernels[BEFORE] = _as_on_a_cpu(derivative, arguments)
    first, *rest = kernels
    return Prepared(
        {first: kernels[first], **others, **{name: kernels[name] for name in rest}},
        arguments,
        {"kernels": {**known, **{name: _cost(other) for name, other in others.items()}}},
    )


def _prepared_growth(job: Job) -> Prepared:
    from tensor_kernels import GROWTH, Candidates, compiled, derivatives, device_arrays
    from tensor_programs import ALL

    benchmark = next(b for b in ALL if b.name == job.name)
    assert job.size is not None
    arguments = device_arrays(benchmark, job.size)
    derivative = benchmark.function.grad(*benchmark.wrt)
    kernels, known = _all_kernels(Candidates.of(derivative, arguments))
    kernels[BEFORE] = _as_on_a_cpu(derivative, arguments)
    if job.size <= GROWTH[job.name][1]:
        kernels["JAX"] = compiled(derivatives(benchmark)[1], arguments)[0]
        known["JAX"] = _cost(kernels["JAX"])
    return Prepared(kernels, arguments, {"kernels": known})


def _difference(prepared: Prepared) -> float | None:
    """Between ours and JAX's, relative to the largest entry."""
    from tensor_kernels import difference

    if "JAX" not in prepared.kernels:
        return None
    ours, *_ = prepared.kernels.values()
    found = difference(ours(*prepared.arguments), prepared.kernels["JAX"](*prepared.arguments))
    return found if math.isfinite(found) else None


def _timed(prepared: Prepared) -> dict[str, Any]:
    """Median ms of each kernel, and JAX's time over that of each in the same turns."""
    import numpy as np
    from tensor_table import in_turn

    times = in_turn([*prepared.kernels.values()], prepared.arguments, TURNS)
    spent = dict(zip(prepared.kernels, np.median(times, axis=1).tolist(), strict=True))
    found: dict[str, Any] = {"ms": spent, "difference": _difference(prepared)}
    if "JAX" in spent:
        theirs = times[[*spent].index("JAX")]
        ratios = np.median(theirs / times, axis=1).tolist()
        found["ratios"] = dict(zip(spent, ratios, strict=True))
    return {**found, **prepared.known}


def work(connection: Any, folder: str) -> None:
    """Profile, prepare and time, as the messages say, until there are no more."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    sys.setrecursionlimit(20_000)
    log = Path(folder, "log.txt").open("a")  # noqa: SIM115
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    import jax

    prepared: Prepared | None = None
    for message, job, launch in iter(connection.recv, None):
        try:
            match message:
                case "begin":
                    import peer_programs  # noqa: F401
                    import tensor_table  # noqa: F401

                    answer = {"device": jax.devices()[0].device_kind}
                case "profile":
                    answer = _profile()
                case "prepare":
                    prepared = None
                    match job.part:
                        case "table":
                            prepared = _prepared_table(job, launch)
                        case "peers":
                            prepared = _prepared_peer(job)
                        case _:
                            prepared = _prepared_growth(job)
                    answer = {}
                case "time":
                    assert prepared is not None
                    answer = _timed(prepared)
                    prepared = None
        except Exception as error:  # whatever a program does, the next one is measured
            answer = {"why": f"{type(error).__name__}: {error}"[:300]}
        connection.send(answer)


def _profile() -> dict[str, Any]:
    import jax
    from tensor_peers import overhead

    from jupyter_hvd.tensor.jax.device_measurement import measure_device

    call, jitted = overhead(10)
    measured = json.loads(measure_device().as_json())
    return {**measured, "jax": jax.__version__, "call_us": call, "jitted_call_us": jitted}


# In the process that begins them


@dataclass
class Worker:
    """A process, what it prepares at the moment, and the seconds that it has spent on it."""

    process: Any
    connection: Any
    job: Job | None = None
    spent: float = 0.0

    @staticmethod
    def started(folder: Path) -> Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=work, args=(theirs, str(folder)), daemon=True)
        process.start()
        ours.send(("begin", None, None))
        return Worker(process, ours)

    def asked(self, message: str, job: Job | None, launch: float, seconds: float) -> dict[str, Any]:
        """The answer, or why there is none."""
        self.connection.send((message, job, launch))
        return self.answered(seconds)

    def answered(self, seconds: float) -> dict[str, Any]:
        try:
            if self.connection.poll(max(0.0, seconds)):
                return self.connection.recv()
        except EOFError:
            return {"why": "its process ended"}
        return {"why": f"took more than {seconds:.0f} s"}

    def ended(self) -> None:
        self.process.kill()


class Results:
    """The file to which each result is written at once."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = (folder / "results.jsonl").open("a")
        self.began = time.monotonic()

    def keep(self, part: str, name: str, found: Mapping[str, Any], size: int | None = None) -> None:
        at = round(time.monotonic() - self.began, 1)
        row = {"part": part, "name": name, "size": size, "at": at, **found}
        print(json.dumps(row), file=self.file, flush=True)
        print(_line(row), flush=True)


def _line(row: Mapping[str, Any]) -> str:
    ms = " ".join(f"{name}={spent:.3g}" for name, spent in row.get("ms", {}).items())
    size = f" {row['size']}" if row.get("size") else ""
    return f"{row['at']:6} {row['part']} {row['name']}{size}: {row.get('why') or ms or 'measured'}"


def jobs() -> Iterator[Job]:
    """What is measured, the most important first: the peers, the table with some of each class, growth, the rest of the table."""
    from peer_programs import PEERS
    from tensor_kernels import GROWTH
    from tensor_table import class_by_class

    yield from (Job("peers", peer.benchmark.name) for peer in PEERS)
    yield Job("peers", "n-body, i<j, both unknown", 4000)
    table = [Job("table", program.name) for program in class_by_class()]
    yield from table[:60]
    for name, (sizes, _) in GROWTH.items():
        yield from (Job("growth", name, size) for size in sizes[1:])
    yield from table[60:]


def run_tests(folder: Path, seconds: float, processes: int) -> dict[str, Any]:
    """Tests of the tensor language that need no other part of the package, as far as they come; the failures by name."""
    files = [str(ROOT / "tests" / "tensor" / f"{name}.py") for name in TESTS]
    options = f"-q -n {processes} --dist load -p no:cacheprovider -p device_tests".split()
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        os.devnull,
        f"--rootdir={ROOT}",
        f"--confcutdir={ROOT / 'tests' / 'tensor'}",
        *options,
        *files,
    ]
    outcomes = folder / "tests.jsonl"
    path = os.pathsep.join([str(ROOT / "benchmarks"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "DEVICE_TESTS": str(outcomes)}
    environment.pop("PYTEST_XDIST_WORKER", None)  # this may be a test's own run
    with (folder / "tests.txt").open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()
    rows = (
        [json.loads(line) for line in outcomes.read_text().splitlines()]
        if outcomes.exists()
        else []
    )
    return {
        "passed": sum(row["outcome"] == "passed" for row in rows),
        "skipped": sum(row["outcome"] == "skipped" for row in rows),
        "failed": {row["test"]: row["why"] for row in rows if row["outcome"] == "failed"},
        "complete": process.returncode in (0, 1),
    }


def measure(
    due: Sequence[Job],
    workers: list[Worker],
    launch: float,
    ends: float,
    compiling: float,
    folder: Path,
    results: Results,
) -> None:
    """Round by round: each worker prepares a program; then, one after the other, those that have are timed, while the rest is
    suspended.
    """
    left = list(due)
    while time.monotonic() < ends - 5 and (left or any(worker.job for worker in workers)):
        for k, worker in enumerate(workers):
            if worker.job is None and not worker.process.is_alive():
                workers[k] = Worker.started(folder)
                workers[k].job = BEGINNING
            elif worker.job is None and left:
                worker.job = left.pop(0)
                worker.spent = 0.0
                worker.connection.send(("prepare", worker.job, launch))
        began = time.monotonic()
        ready: list[tuple[Worker, dict[str, Any]]] = []
        waiting = [worker for worker in workers if worker.job is not None]
        while waiting and time.monotonic() < min(began + ROUND, ends - 3):
            connections = [worker.connection for worker in waiting]
            for connection in wait(connections, 0.2):
                worker = next(worker for worker in waiting if worker.connection is connection)
                ready.append((worker, worker.answered(0)))
                waiting.remove(worker)
        for worker in waiting:
            worker.spent += time.monotonic() - began
            os.kill(worker.process.pid, signal.SIGSTOP)
        for worker, answer in ready:
            if time.monotonic() < ends:
                _timed_alone(worker, answer, launch, ends, results)
        for worker in waiting:
            os.kill(worker.process.pid, signal.SIGCONT)
            if worker.spent > compiling and worker.job is not None:
                why = {"why": f"did not compile in {worker.spent:.0f} s"}
                results.keep(worker.job.part, worker.job.name, why, worker.job.size)
                worker.ended()
                workers[workers.index(worker)] = fresh = Worker.started(folder)
                fresh.job = BEGINNING
    for worker in workers:
        if worker.job not in (None, BEGINNING):
            why = {"why": "the time was over before it was compiled"}
            results.keep(worker.job.part, worker.job.name, why, worker.job.size)


def _timed_alone(
    worker: Worker, answer: dict[str, Any], launch: float, ends: float, results: Results
) -> None:
    """Time what a worker has prepared, and keep the result."""
    job, worker.job = worker.job, None
    assert job is not None
    if job is BEGINNING:
        return
    if "why" not in answer:
        answer = worker.asked("time", job, launch, min(20.0, ends - time.monotonic()))
    results.keep(job.part, job.name, answer, job.size)


def _processes() -> int:
    """How many programs are prepared at once."""
    return max(1, min(10, (os.cpu_count() or 1) - 2))


def run_all(options: argparse.Namespace) -> None:
    seconds, folder, skip = options.seconds, options.out, options.skip
    ends = time.monotonic() + seconds
    results = Results(folder)
    workers = [Worker.started(folder) for _ in range(_processes())]
    begun = [worker.answered(60) for worker in workers]
    results.keep("device", begun[0].get("device", "?"), {"workers": len(workers)})
    profile: Mapping[str, Any] = {}
    if "profile" not in skip:
        profile = workers[0].asked("profile", None, 0.0, min(90.0, seconds / 2))
        results.keep("profile", str(profile.get("name")), profile)
    if "tests" not in skip:
        found = run_tests(folder, options.testing * seconds, len(workers))
        results.keep("tests", "tensor", found)
    os.environ["JUPYTER_HVD_TUNE"] = "never"
    due = [
        job
        for job in jobs()
        if job.part not in skip and any(part in job.name for part in options.only)
    ]
    due.sort(key=lambda job: next(k for k, part in enumerate(options.only) if part in job.name))
    launch = profile.get("launch", 7e-5)
    measure(due, workers, launch, ends, options.compiling, folder, results)
    for worker in workers:
        worker.ended()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=420.0)
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument(
        "--only",
        nargs="*",
        default=("",),
        help="programs with one of these in their name, the first ones first",
    )
    parser.add_argument(
        "--skip", nargs="*", default=(), help="profile, tests, peers, growth, table"
    )
    parser.add_argument(
        "--merge", type=Path, help="folder with results for docs/performance-tables.md"
    )
    parser.add_argument("--testing", type=float, default=TESTING, help="part of the time for tests")
    parser.add_argument("--compiling", type=float, default=COMPILING, help="seconds for a program")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / "benchmarks"))
    if options.merge:
        from device_columns import merge

        merge(options.merge)
        return
    # Several processes share the device, and none gives memory back.
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{0.95 / _processes():.3f}"
    os.environ["JUPYTER_HVD_TUNE"] = "never"
    run_all(options)


if __name__ == "__main__":
    main()
