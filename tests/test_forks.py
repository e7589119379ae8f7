"""What is forked for a verification is as good as a process of its own: it is found, ended and reported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from jupyter_hvd.launch.base import rank_environment
from jupyter_hvd.launch.job import JobResult, Program, run_job, run_single
from jupyter_hvd.launch.processes import end_processes, processes_of
from jupyter_hvd.launch.rank_placement import place_ranks
from jupyter_hvd.launch.reaper import PrivateFolder, private_folder
from jupyter_hvd.ranks.forks import FORKS_VARIABLE, ForkServerCache, start_forkservers
from jupyter_hvd.verify.exact.rank import limit_variables
from jupyter_hvd.verify.workspace import prepare_working_folders

pytestmark = [pytest.mark.slow, pytest.mark.own_forks]

Run = Callable[..., tuple[JobResult, list[str]]]


@pytest.fixture(scope="module")
def owner() -> Iterator[PrivateFolder]:
    with private_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    """What servers are to import, one of two modules that they and their forks find."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "drawn.py").write_text(
        "import numpy\ndef main():\n    print(numpy.random.rand())\n    return 3\n"
    )
    (folder / "imported.py").write_text(
        "import sys\ndef main():\n    print('tensorflow' in sys.modules, 'horovod' in sys.modules)\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        yield ("drawn",)


@pytest.fixture(scope="module")
def forks(owner: PrivateFolder, modules: tuple[str, ...]) -> Iterator[Mapping[str, str]]:
    """Servers for all tests here that do not end them."""
    with start_forkservers(owner.path, owner.job, modules, without_horovod=True) as found:
        yield found


@pytest.fixture
def folder() -> Iterator[PrivateFolder]:
    with private_folder() as found:
        yield found
        end_processes(found.job)


@pytest.fixture
def run(folder: PrivateFolder, forks: Mapping[str, str], tmp_path: Path) -> Run:
    """Runs a program as a verification runs it alone."""

    def run_it(source: str, forks: Mapping[str, str] = forks, **more: str) -> tuple:
        path = tmp_path / "program.py"
        path.write_text(source)
        ordered = {**prepare_working_folders(tmp_path, tmp_path, ranks=0), **limit_variables()}
        (tmp_path / "cwd-0").mkdir(exist_ok=True)
        program = Program(path, path, ("one", "two"), module="jupyter_hvd.verify.exact.rank")
        return run_single(program, folder, timeout=60, environment={**ordered, **forks, **more})

    return run_it


def told(folder: Path, name: str = "pid") -> int:
    """The number that a program has written into its folder."""
    deadline = time.monotonic() + 60
    while not (folder / name).exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return int((folder / name).read_text())


WAITS = """
import os, time
with open('pid.new', 'w') as file: file.write(str(os.getpid()))
os.rename('pid.new', 'pid')
time.sleep(600)
"""


@pytest.mark.long
def test_it_is_what_was_asked_for(run: Run, tmp_path: Path) -> None:
    result, printed = run(
        "import os, sys\nprint(os.environ['OWN'], sys.argv[1:], os.getcwd(), __name__, os.getpid())\nsys.exit(3)\n",
        OWN="value",
    )
    assert result.code == 3
    *said, pid = printed[0].rsplit(" ", 1)
    assert said == [f"value ['one', 'two'] {tmp_path / 'cwd-0'} __main__"]
    assert not psutil.pid_exists(int(pid))


def test_tensorflow_is_there(run: Run) -> None:
    _, printed = run(
        "import sys\nprint('tensorflow' in sys.modules, 'libcst' in sys.modules)\n"
        "import tensorflow as tf\nprint(int(tf.reduce_sum(tf.ones([3, 4]) @ tf.ones([4, 5]))))\n"
    )
    assert printed == ["True False", "60"]


def test_ranks_order_sets_in_one_way(
    folder: PrivateFolder, forks: Mapping[str, str], tmp_path: Path
) -> None:
    """Labels that are numbered through a set have one number on all ranks, whichever server they are forks of."""
    work, beside = tmp_path / "work", tmp_path / "beside"
    work.mkdir()
    beside.mkdir()
    path = beside / "program.py"
    path.write_text("print(hash('label'))\n")
    hashes: dict[int, str] = {}
    result = run_job(
        Program(path, path, (), module="jupyter_hvd.verify.exact.rank"),
        place_ranks(2),
        folder,
        timeout=60,
        listener=lambda rank, _, text: hashes.setdefault(rank, text),
        environment={
            **prepare_working_folders(work, beside, ranks=2),
            **limit_variables(),
            **forks,
        },
    )
    assert result.code == 0, result.report
    assert hashes.keys() == {0, 1}
    assert hashes[0] == hashes[1]


def test_temporary_files_go_with_the_verification(run: Run, tmp_path: Path) -> None:
    """A rank that is ended while TensorFlow's compiled text lies in a file leaves it where all of it goes."""
    _, printed = run(
        "import os, signal, tempfile\nimport tensorflow as tf\n"
        "@tf.function\ndef twice(x):\n    return 2 * x if x > 0 else x\n"
        "twice(tf.constant(1))\nprint(tempfile.gettempdir(), flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert printed == [str(tmp_path / "temporary")]
    assert list((tmp_path / "temporary").glob("__autograph_generated_file*.py"))


def test_it_bears_its_job_s_name(run: Run, folder: PrivateFolder, tmp_path: Path) -> None:
    """What looks for a job's processes finds it, and not its server."""
    thread = threading.Thread(target=run, args=(WAITS,))
    thread.start()
    pid = told(tmp_path / "cwd-0")
    assert pid in processes_of(folder.job)
    servers = psutil.Process(pid).ppid()
    end_processes(folder.job)
    thread.join(10)
    assert not psutil.pid_exists(pid)
    assert psutil.pid_exists(servers)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_signals_to_who_asked_are_for_the_fork(
    run: Run, folder: PrivateFolder, tmp_path: Path, number: int
) -> None:
    found: list[JobResult] = []
    thread = threading.Thread(target=lambda: found.append(run(WAITS)[0]))
    thread.start()
    pid = told(tmp_path / "cwd-0")
    (asked,) = [p for p in processes_of(folder.job) if p != pid]
    os.kill(asked, number)
    thread.join(10)
    assert found[0].code == (130 if number == signal.SIGINT else 128 + number)
    assert psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], 5)[1] == []


def test_a_fork_that_is_killed(run: Run) -> None:
    result, _ = run("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    assert result.code == 137


ENDS = """
import atexit, ctypes, sys, threading, time

class Last:
    def __init__(self):
        self.itself = self
    def __del__(self):
        kept.write('collected\\n')
        kept.flush()

class Named:
    def __del__(self, file=open('named', 'w')):
        file.write('let go')

def later():
    time.sleep(0.5)
    print('a thread')

kept = open('kept', 'w')
open_still = sys.unwritten = open('open', 'w')
open_still.write('written')
named, cycle = Named(), Last()
cycle = None
ctypes.CDLL(None).puts(b'C')
atexit.register(print, 'registered')
threading.Thread(target=later).start()
sys.exit(7)
"""


def test_it_ends_as_python_does(run: Run, tmp_path: Path) -> None:
    result, printed = run(ENDS)
    alone = tmp_path / "alone"
    alone.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", ENDS], cwd=alone, capture_output=True, text=True, check=False
    )
    for code, lines, folder in (
        (done.returncode, done.stdout.splitlines(), alone),
        (result.code, printed, tmp_path / "cwd-0"),
    ):
        assert code == 7
        assert sorted(lines) == ["C", "a thread", "registered"]
        texts = {name: (folder / name).read_text() for name in ("kept", "open", "named")}
        assert texts == {"kept": "collected\n", "open": "written", "named": "let go"}


@pytest.mark.long
def test_without_a_server_it_runs_by_itself(run: Run, tmp_path: Path) -> None:
    result, printed = run("print('ran')\n", forks={FORKS_VARIABLE: f"{sys.prefix}:{tmp_path}"})
    assert result.code == 0, result.report
    assert printed == ["ran"]


@pytest.mark.long
def test_another_python_has_none_of_ours(run: Run, forks: Mapping[str, str]) -> None:
    """Its TensorFlow is another."""
    folder = forks[FORKS_VARIABLE].rpartition(":")[2]
    program = "import sys\nprint('tensorflow' in sys.modules, 'jupyter_hvd.ranks.forkserver' in sys.orig_argv)\n"
    assert run(program)[1] == ["True True"]
    assert run(program, forks={FORKS_VARIABLE: f"/another:{folder}"})[1] == ["True False"]


def test_servers_end_with_their_owner() -> None:
    with private_folder() as own, start_forkservers(own.path, own.job):
        servers = [psutil.Process(pid) for pid in processes_of(own.job)]
        assert len(servers) == 2
    assert psutil.wait_procs(servers, 5)[1] == []
    assert not processes_of(own.job)


@pytest.fixture
def kept(modules: tuple[str, ...]) -> Iterator[ForkServerCache]:
    servers = ForkServerCache(modules)
    yield servers
    servers.end_servers()


def test_they_are_kept_while_the_environment_stays(
    kept: ForkServerCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What TensorFlow reads of it, it reads when it is imported."""
    first = kept.server_variables()
    assert kept.server_variables() == first
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")
    second = kept.server_variables()
    assert second != first
    folders = [Path(found[FORKS_VARIABLE].rpartition(":")[2]) for found in (first, second)]
    assert [folder.exists() for folder in folders] == [False, True]
    kept.end_servers()
    assert not folders[1].exists()


def forked(forks: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """A module's `main`, run by a fork."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "jupyter_hvd.ranks.forks", *arguments],
        env=rank_environment(uuid.uuid4().hex, forks),
        capture_output=True,
        text=True,
        check=False,
    )


def test_forks_of_one_server_draw_other_numbers(forks: Mapping[str, str]) -> None:
    """NumPy's generator is seeded when it is imported, once for all of them."""
    done = [forked(forks, "drawn") for _ in range(2)]
    assert [each.returncode for each in done] == [3, 3], done[0].stderr
    assert done[0].stdout != done[1].stdout


def test_what_must_do_without_horovod_is_forked_before_it_is_imported(
    forks: Mapping[str, str],
) -> None:
    """From then on its operations are in TensorFlow's lists, and a model that names them would load."""
    for order, imported in ((), "True True"), (("--without-horovod",), "True False"):
        done = forked(forks, *order, "imported")
        assert done.stdout.strip() == imported, done.stderr
