"""Programs as they are, on two and three ranks: they print and learn what one process does, and planted faults are found."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from shared_laboratory import PROGRAMS, Laboratory, expected
from sharing_mutants import FOUND_BY

from ..stacks import KERAS_2, LEGACY, Stack

HERE = Path(__file__).parent
#: pytest's fixture `record_property`.
Noted = Callable[[str, object], None]
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("exact")]
#: What `make test` runs; the rest is for `make test-thorough`.
QUICK = (
    *("fit_batch_norm_dropout", "wgan_gp", "train_step_ema", "eager_calls", "not_by_rows", "different_data"),
    "small_messages",
)  # fmt: skip
QUICK_MUTANTS = ("no_average", "local_moments", "no_row_check", "no_checksum")


@pytest.fixture(scope="module")
def laboratory() -> Iterator[Laboratory]:
    found = Laboratory()
    yield found
    found.close()


def named(cases: list, quick: tuple) -> list:
    """The quick cases first; the others are for `make test-thorough`."""
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=() if case in quick else pytest.mark.thorough,
        )
        for case in sorted(cases, key=lambda case: (case not in quick, case))
    ]


CASES = [(size, path.stem) for size in (2, 3) for path in PROGRAMS.glob("*.py")]
#: Three ranks differ from two by rows that the number of ranks does not divide, which this program has.
QUICK_CASES = (*((2, program) for program in QUICK), (3, "fit_batch_norm_dropout"))


@pytest.mark.parametrize(("size", "program"), named(CASES, QUICK_CASES))
def test_equal_to_one_process(laboratory: Laboratory, size: int, program: str) -> None:
    verdict, why = laboratory.judge(PROGRAMS / f"{program}.py", size)
    assert verdict == expected(program), why


@pytest.mark.parametrize("mutant", named(list(FOUND_BY), QUICK_MUTANTS))
def test_faults_are_found(laboratory: Laboratory, mutant: str, record_property: Noted) -> None:
    record_property("mutant", "in the sharing of one run")
    program = FOUND_BY[mutant]
    verdict, _ = laboratory.judge(PROGRAMS / f"{program}.py", 2, mutant)
    assert verdict != expected(program)


def programs_of(stack: Stack) -> list[str]:
    """The programs for a stack of Keras 2; beside tf_keras, `keras` is Keras 3."""
    names = [path.stem for path in sorted(PROGRAMS.glob("*.py"))]
    if stack != LEGACY:
        return names
    return [name for name in names if "import keras" not in (PROGRAMS / f"{name}.py").read_text()]


def judged_on(stack: Stack, names: list[str]) -> dict[str, str]:
    """What becomes of each program on two ranks of another stack."""
    command = [str(stack.python), str(HERE / "shared_laboratory.py"), "--sizes", "2", *names]
    environment = {**os.environ, **stack.environment}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return dict(re.findall(r"^(\w+) +2: (\w+(?: alone)?) ", done.stdout, re.MULTILINE))


@pytest.mark.parametrize("stack", [KERAS_2.case()])
@pytest.mark.long
def test_keras_2(stack: Stack) -> None:
    assert judged_on(stack, ["recurrent_batch_norm"]) == {"recurrent_batch_norm": "equal"}


@pytest.mark.thorough
@pytest.mark.parametrize("stack", [KERAS_2.case(), LEGACY.case()])
def test_all_programs_on_other_stacks(stack: Stack) -> None:
    """Those that do not run there in one process, as they use what only Keras 3 has, are left out."""
    names = programs_of(stack)
    found = {
        n: verdict for n, verdict in judged_on(stack, names).items() if verdict != "fails alone"
    }
    assert found == {name: expected(name) for name in found}
    assert len(found) > 0.7 * len(names)


def test_run_as_it_is(hvd, tmp_path: Path) -> None:
    """Rank 0 alone is seen, and its files alone are in the user's folder."""
    path = tmp_path / "train.py"
    path.write_text(
        "import os\nimport numpy as np\nimport tensorflow as tf\n"
        "open('own.txt', 'w').write('written')\n"
        "x = np.random.rand(10, 3)\n"
        "model = tf.keras.Sequential([tf.keras.layers.Input((3,)), tf.keras.layers.Dense(1)])\n"
        "model.compile('sgd', 'mse')\nmodel.fit(x, x[:, 0], batch_size=5, verbose=0)\n"
        "print('weights', model.get_weights()[0].shape, open('own.txt').read())\n"
    )
    done = hvd("run", path, "-n", 2, "--batch", "global", "--no-log")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["weights (3, 1) written"]


def test_ranks_with_different_data_stop(hvd, tmp_path: Path) -> None:
    path = tmp_path / "differ.py"
    path.write_text((PROGRAMS / "different_data.py").read_text())
    done = hvd("run", path, "-n", 2, "--batch", "global", "--no-log")
    assert done.returncode == 1
    assert "the ranks computed on different data at differ.py, line 10" in done.stderr
    assert "Traceback" not in done.stderr


def copy_keras(folder: Path, version: str) -> None:
    """A Keras in a folder, which is the installed one but for the version that it gives itself."""
    spec = find_spec("keras")
    assert spec is not None
    assert spec.origin is not None
    ignored = shutil.ignore_patterns("version.py", "version.*.pyc")
    copy = folder / "keras"
    shutil.copytree(Path(spec.origin).parent, copy, copy_function=os.symlink, ignore=ignored)
    text = Path(spec.origin).with_name("src").joinpath("version.py").read_text()
    other = re.sub(r'(?<=__version__ = )"[^"]+"', repr(version), text)
    (copy / "src" / "version.py").write_text(other)


@pytest.mark.own_forks
@pytest.mark.long
def test_a_rank_with_another_keras_stops_all(hvd, tmp_path: Path) -> None:
    copy_keras(tmp_path / "other", "3.15.99")
    other = f"import os, sys\nif os.environ['HOROVOD_RANK'] == '1':\n    sys.path.insert(0, {str(tmp_path / 'other')!r})\n"
    (tmp_path / "train.py").write_text(f"{other}import tensorflow as tf\nprint('begun')\n")
    done = hvd("run", "train.py", "-n", 2, "--batch", "global", "--no-log")
    assert done.returncode == 1
    assert "the ranks compute with different versions: rank 0 has TensorFlow" in done.stderr
    assert "and keras 3.15.99. Install the same" in done.stderr
    assert "begun" not in done.stdout


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        ("import horovod.tensorflow as hvd\n", (), "it uses Horovod itself"),
        ("", ("--select", "HVD1"), "--select: --batch global runs the program as it is"),
    ],
)
def test_what_is_refused(hvd, tmp_path: Path, source: str, options: tuple, said: str) -> None:
    path = tmp_path / "program.py"
    path.write_text(source)
    done = hvd("run", path, "-n", 2, "--batch", "global", *options)
    assert done.returncode == 2
    assert said in done.stderr


def test_settings_choose_the_batch(hvd, tmp_path: Path) -> None:
    """As refused as with --batch global; the command line goes before them."""
    (tmp_path / "pyproject.toml").write_text('[tool.jupyter-hvd]\nbatch = "global"\n')
    (tmp_path / "program.py").write_text("import horovod.tensorflow as hvd\n")
    done = hvd("run", "program.py", "-n", 1)
    assert (done.returncode, "it uses Horovod itself" in done.stderr) == (2, True)
    done = hvd("run", "program.py", "-n", 1, "--batch", "per-rank", "--no-log")
    assert (done.returncode, "HVD901" in done.stderr) == (1, True)
    done = hvd("verify", "program.py", "--batch", "global")
    assert (done.returncode, "it uses Horovod itself" in done.stderr) == (2, True)
