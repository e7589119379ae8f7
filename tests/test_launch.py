"""`jupyter hvd run`: output by rank, exit codes, one traceback, no process left."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
import uuid
from pathlib import Path

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from jupyter_hvd.launch.base import JOB_VARIABLE
from jupyter_hvd.launch.job import Program, run_single
from jupyter_hvd.launch.processes import end_processes
from jupyter_hvd.launch.reaper import private_folder
from jupyter_hvd.ranks.agent import follow_process

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]

# A program without training is quick. The terminal shows rank 0's output only, so each rank writes what it has
# to say beside the program: by a full path, for the other ranks work on copies of the folder.
HEAD = """import os, pathlib, sys
rank = int(os.environ['HOROVOD_RANK'])
def say(*words):
    with pathlib.Path(__file__).with_name(f'said-{rank}').open('a') as file:
        print(*words, file=file)
"""


#: Tells this module's processes from those of other jobs on the machine.
MARK = "JUPYTER_HVD_TEST"


def left_over(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and JOB_VARIABLE in process.environ():
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.fixture(autouse=True)
def no_process_left(monkeypatch: pytest.MonkeyPatch):
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    yield
    assert not left_over(mark)


def program(tmp_path: Path, body: str) -> Path:
    path = tmp_path / "job.py"
    path.write_text(HEAD + textwrap.dedent(body))
    return path


def test_output_arguments_and_imports(hvd, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("value = 'from a module beside'\n")
    path = program(
        tmp_path,
        "import beside\nprint('rank', rank)\nprint('rank', rank, file=sys.stderr)\n"
        "say(rank, sys.argv[1:], beside.value, __file__, __name__)\nsay(hash('a word'))\n",
    )
    done = hvd("run", path, "-n", 2, "--", "--epochs", "3")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "rank 0\n", "only rank 0's output is shown"
    assert "rank 0" in done.stderr.splitlines()
    assert "rank 1" not in done.stderr
    said = [(tmp_path / f"said-{rank}").read_text().splitlines() for rank in (0, 1)]
    for rank in (0, 1):
        assert said[rank][0] == f"{rank} ['--epochs', '3'] from a module beside {path} __main__"
    assert said[0][1] == said[1][1], "a set of words has one order on all ranks"


BREAKPOINTS = """import pdb
for _ in range(3):
    breakpoint()
    pdb.set_trace()
print("came through")
"""


@pytest.mark.parametrize("name", ["train.py", "train.ipynb"])
def test_breakpoints_are_passed_over(hvd, tmp_path: Path, name: str) -> None:
    notebook = nbformat.writes(new_notebook(cells=[new_code_cell(BREAKPOINTS)]))
    (tmp_path / name).write_text(notebook if name.endswith(".ipynb") else BREAKPOINTS)
    done = hvd("run", name, "-n", 2, "--batch", "global", "--no-log")
    assert done.returncode == 0, done.stderr
    assert "came through" in done.stdout
    said = done.stdout + done.stderr
    assert said.count("breakpoint() is passed over: the ranks of a job have no input") == 1
    assert "`%hvd debug RANK`" in said


def test_exit_code_of_the_rank(hvd, tmp_path: Path) -> None:
    done = hvd("run", program(tmp_path, "sys.exit(3 if rank == 1 else 0)\n"), "-n", 2)
    assert done.returncode == 3
    assert "rank 1 failed with exit code 3" in done.stderr


@pytest.mark.own_forks
def test_traceback_once(hvd, tmp_path: Path) -> None:
    path = program(
        tmp_path,
        "def f():\n    raise ValueError('not today')\nif rank == 1:\n    f()\nimport time; time.sleep(60)\n",
    )
    done = hvd("run", path, "-n", 2)
    assert done.returncode == 1
    assert done.stderr.count("ValueError: not today") == 1
    assert "rank 1 failed" in done.stderr
    assert "raise ValueError('not today')" in done.stderr
    assert "jupyter_hvd/ranks/" not in done.stderr


@pytest.mark.own_forks
def test_killed_rank(hvd, tmp_path: Path) -> None:
    path = program(
        tmp_path,
        "import time, signal\nif rank == 1:\n    print('a warning', file=sys.stderr, flush=True)\n    time.sleep(1)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(60)\n",
    )
    done = hvd("run", path, "-n", 2)
    assert done.returncode not in (0, 2)
    assert "rank 1 failed" in done.stderr
    assert "killed" in done.stderr
    assert done.stderr.count("a warning") == 1  # of a rank whose output is not shown otherwise


@pytest.mark.own_forks
def test_timeout(hvd, tmp_path: Path) -> None:
    done = hvd("run", program(tmp_path, "import time; time.sleep(300)\n"), "-n", 2, "--timeout", 8)
    assert done.returncode == 124
    assert "8 s" in done.stderr


@pytest.mark.thorough
@pytest.mark.own_forks
def test_a_rank_may_start_half_a_minute_later(hvd, tmp_path: Path) -> None:
    """Gloo's own limit is 30 s, after which it aborts the ranks that are there."""
    late = "import time; time.sleep(33 * rank)\nimport tensorflow\nsay('joined')\n"
    done = hvd("run", program(tmp_path, late), "-n", 2)
    assert done.returncode == 0, done.stderr
    assert [(tmp_path / f"said-{rank}").read_text() for rank in (0, 1)] == ["joined\n"] * 2


def test_failing_cell_is_named(hvd, tmp_path: Path) -> None:
    cells = [new_code_cell("a = 1"), new_code_cell("# more\nb = a / 0")]
    (tmp_path / "job.ipynb").write_text(nbformat.writes(new_notebook(cells=cells)))
    done = hvd("run", "job.ipynb", "-n", 2)
    assert done.returncode == 1
    assert "in cell 1:" in done.stderr
    assert done.stderr.count("ZeroDivisionError: division by zero") == 1


def test_shell_lines_run_on_rank_zero_first(hvd, tmp_path: Path) -> None:
    """Each rank runs them in its folder, one after rank 0, and goes on with rank 0's output and exit code."""
    (tmp_path / "lines.txt").touch()
    cells = (
        f"import os, pathlib\nrank, name, top = os.environ['HOROVOD_RANK'], 'made', {str(tmp_path)!r}",
        "!echo rank $$HOROVOD_RANK; echo line >> lines.txt; echo begun >> {top}/order.txt",
        "!sleep 1; echo ended >> {top}/order.txt; mkdir {name}",
        "found = !ls made/.. | grep made\nassert found == ['made'], found",
        "drawn = !cat /proc/sys/kernel/random/uuid",
        "%%bash\necho cell >> cells.txt; sleep 1; mv made moved",
        "assert pathlib.Path('moved').is_dir()\nfor turn in range(2):\n    !echo turn >> turns.txt",
        "%%writefile -a written.txt\nonce",
        "!exit $((3 + HOROVOD_RANK))",
        "code = _exit_code\n!mkdir {top}/once\nassert _exit_code == 0, _exit_code",
        "names = 'lines', 'cells', 'turns', 'written'\n"
        "texts = [pathlib.Path(f'{name}.txt').read_text() for name in names]\n"
        "pathlib.Path(top, f'seen-{rank}').write_text(f'{texts} {code} {drawn}')",
    )
    notebook = new_notebook(cells=[new_code_cell(source) for source in cells])
    (tmp_path / "job.ipynb").write_text(nbformat.writes(notebook))
    done = hvd("run", "job.ipynb", "-n", 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rank 0" in done.stdout.splitlines()
    assert "rank 1" not in done.stdout
    seen = [(tmp_path / f"seen-{rank}").read_text() for rank in (0, 1)]
    assert seen[0].startswith("['line\\n', 'cell\\n', 'turn\\nturn\\n', 'once\\n'] 3 ['")
    assert seen[0] == seen[1]
    order = (tmp_path / "order.txt").read_text().split()
    assert order == ["begun", "begun", "ended", "ended"]
    for name in ("lines", "cells"):
        assert (tmp_path / f"{name}.txt").read_text().count("\n") == 1


def test_verify_of_shell_lines(hvd, tmp_path: Path) -> None:
    """Each rank runs them in a folder of its own; the ranks agree on what they print and write."""
    cells = (
        "%%bash\necho 200 > count.txt",
        "import numpy as np\nimport tensorflow as tf\nfound = !cat count.txt\n!touch seen.txt\ncount = int(found[0])",
        "x = np.ones((count, 3), 'float32')\nmodel = tf.keras.Sequential([tf.keras.layers.Dense(1)])\n"
        "model.compile('sgd', loss='mse')\nmodel.fit(x, x[:, :1], verbose=0)",
    )
    notebook = new_notebook(cells=[new_code_cell(source) for source in cells])
    (tmp_path / "job.ipynb").write_text(nbformat.writes(notebook))
    done = hvd("verify", "job.ipynb", "-n", 2, "--steps", 2, "--json")
    checks = {c["check"]: c for c in json.loads(done.stdout)["checks"]}
    for name in ("2 ranks: final weights", "2 ranks: ranks agree", "your files untouched"):
        assert checks[name]["status"] == "pass", done.stdout
    assert checks["2 ranks: files"]["status"] == "pass", done.stdout
    assert "2 files" in checks["2 ranks: files"]["detail"]


#: Cells of magics and help, all of which print something.
MAGICS = (
    "%env SOME_NAME=1",
    "%env SOME_NAME",
    "x = 3\nx?",
    "??x",
    "%who",
    "%pwd",
    "%%time\ny = x + 1",
    "%timeit -n1 -r1 x + 1",
    "%lsmagic",
    "%magic",
)


def test_magics_print_on_rank_zero(hvd, tmp_path: Path) -> None:
    """Magics run on all ranks, and rank 0 prints."""
    cells = (
        *MAGICS,
        "def f():\n    print('from f')\n%time f()",
        "from IPython.core.magic import register_line_magic\n"
        "@register_line_magic\ndef own(line):\n    print('own', line)\n%own here",
        "import os\nassert os.environ['SOME_NAME'] == '1'\nplace = %pwd\nassert place == os.getcwd()\n"
        f"open({str(tmp_path)!r} + '/ran-' + os.environ['HOROVOD_RANK'], 'w').close()",
    )
    notebook = new_notebook(cells=[new_code_cell(source) for source in cells])
    (tmp_path / "job.ipynb").write_text(nbformat.writes(notebook))
    done = hvd("run", "job.ipynb", "-n", 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {p.name for p in tmp_path.glob("ran-*")} == {"ran-0", "ran-1"}
    for text in ("from f", "own here", "env: SOME_NAME=1"):
        assert done.stdout.splitlines().count(text) == 1
    for text in ("env: SOME_NAME=1", "Docstring", "Wall time", "IPython's 'magic' functions"):
        assert text in done.stdout


@pytest.mark.long
def test_verify_accepts_magics(hvd, tmp_path: Path) -> None:
    cells = (
        *MAGICS,
        "import numpy as np\nimport tensorflow as tf\nx = np.ones((64, 3), 'float32')\n"
        "model = tf.keras.Sequential([tf.keras.layers.Dense(1)])\nmodel.compile('sgd', loss='mse')",
        "%time model.fit(x, x[:, :1], verbose=0)",
        "model.fit(x, x[:, :1], verbose=0)\nmodel?",
    )
    notebook = new_notebook(cells=[new_code_cell(source) for source in cells])
    (tmp_path / "job.ipynb").write_text(nbformat.writes(notebook))
    done = hvd("verify", "job.ipynb", "-n", 2, "--steps", 2, "--json")
    checks = {c["check"]: c for c in json.loads(done.stdout)["checks"]}
    assert checks["2 ranks: final weights"]["status"] == "pass", done.stdout
    assert checks["2 ranks: ranks agree"]["status"] == "pass", done.stdout


@pytest.mark.parametrize(
    ("size", "message"), [(0, "at least one rank"), (10_000, "exceed the limit")]
)
def test_sizes_that_cannot_be_meant(hvd, tmp_path: Path, size: int, message: str) -> None:
    done = hvd("run", program(tmp_path, ""), "-n", size)
    assert done.returncode == 2
    assert message in done.stderr


def test_warmup_epochs(hvd) -> None:
    program = ROOT / "tests" / "programs" / "fit_sgd_call.py"
    done = hvd("run", program, "-n", 2, "--warmup-epochs", 1, "--no-log")
    assert done.returncode == 0, done.stderr


def test_refused_program_is_not_run(hvd, tmp_path: Path) -> None:
    path = tmp_path / "job.py"
    path.write_text(
        "import tensorflow as tf\nprint('ran')\nstrategy = tf.distribute.MultiWorkerMirroredStrategy()\n"
        "model = tf.keras.Sequential()\nmodel.compile('sgd')\nmodel.fit(x, y)\n"
    )
    done = hvd("run", path, "-n", 2)
    assert done.returncode == 1
    assert "HVD902" in done.stderr
    assert "ran" not in done.stdout


def test_a_single_run_waits_for_no_child(tmp_path: Path) -> None:
    """A child that the program leaves behind holds its output open, and ends with the job."""
    path = tmp_path / "job.py"
    path.write_text(
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\n"
    )
    with private_folder() as folder:
        result, printed = run_single(Program(path, path), folder, timeout=60)
        assert result.code == 0, result.report
        assert psutil.pid_exists(int(printed[0]))
        end_processes(folder.job)
        assert not psutil.pid_exists(int(printed[0]))


def test_a_single_run_that_takes_too_long(tmp_path: Path) -> None:
    path = tmp_path / "job.py"
    path.write_text("import time; time.sleep(600)\n")
    with private_folder() as folder:
        result, _ = run_single(Program(path, path), folder, timeout=3)
    assert result.code == 124
    assert "3 s" in result.report


def test_all_that_a_process_has_written_is_passed_on_however_slowly() -> None:
    source = "import sys; sys.stdout.write('first\\n' + 'x' * 2**18 + '\\nlast')"
    process = subprocess.Popen(
        [sys.executable, "-c", source], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    lines: list[str] = []

    def pass_on(_: str, line: str) -> None:
        time.sleep(1.2)
        lines.append(line)

    assert follow_process(process, pass_on) == 0
    assert (lines[0], len(lines[1]), lines[2]) == ("first", 2**18, "last")


def test_a_child_that_holds_the_output_open_is_not_waited_for() -> None:
    source = "import os, time; print('parent', flush=True); os.fork() or time.sleep(60)"
    process = subprocess.Popen(
        [sys.executable, "-c", source], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    lines: list[str] = []
    began = time.monotonic()
    assert follow_process(process, lambda _, line: lines.append(line)) == 0
    assert lines == ["parent"]
    assert time.monotonic() - began < 30, "the child sleeps for a minute"


def test_a_placement_ends_while_a_thread_of_it_writes() -> None:
    """Python 3.13's own end aborts then: `could not acquire lock for <_io.BufferedWriter name='<stdout>'>`."""
    source = (
        "import sys, threading, time\n"
        "from jupyter_hvd.launch.base import exit_now\n"
        "def write():\n    while True:\n        sys.stdout.write('x' * 2**16)\n"
        "threading.Thread(target=write, daemon=True).start()\ntime.sleep(1)\nexit_now(0)"
    )
    process = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE)
    assert process.wait(60) == 0  # nobody reads: the pipe is full, and its writer holds the lock
