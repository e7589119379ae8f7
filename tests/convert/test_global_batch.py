"""`--batch global`: two lines are added to a program, and the rest stays as it is."""

from __future__ import annotations

import ast
import difflib
import json
import textwrap
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from jupyter_hvd import Options, convert_notebook, convert_source, runtime
from jupyter_hvd.jobs.shared_runtime import runtime_file
from jupyter_hvd.settings import OptionError

from ..suite import PROGRAMS as SUITE

HERE = Path(__file__).parent
FOUND = [
    *sorted((HERE.parent / "exact" / "programs").glob("*.py")),
    *(program.path for program in SUITE if not program.is_run),
]
GLOBAL = Options(batch="global")
ADDED = (
    "import jupyter_hvd.runtime as jhvd\n"
    "jhvd.start_shared()  # Horovod, added by jupyter hvd: the ranks share each batch\n"
)
#: It chooses a GPU; it imports the runtime under our name; its optimizer is TensorFlow 1's, which no conversion takes.
NOT_AS_IT_IS = ("seed_device_environment", "shared_function", "graph_gradients")
PROGRAMS = [path for path in FOUND if path.stem not in NOT_AS_IT_IS]


def changed(source: str, converted: str) -> list[str]:
    lines = difflib.ndiff(source.splitlines(True), converted.splitlines(True))
    return [line for line in lines if line[0] in "+-"]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_two_lines_are_added(path: Path) -> None:
    """And it is converted once, in whichever mode."""
    source = path.read_text()
    conversion = convert_source(source, options=GLOBAL)
    assert conversion.status == "converted", conversion.diagnostics
    assert changed(source, conversion.code) == [f"+ {line}" for line in ADDED.splitlines(True)]
    ast.parse(conversion.code)
    (change,) = conversion.changes
    assert (change.rule, change.needs) == ("HVD701", ())
    for options in (GLOBAL, Options()):
        again = convert_source(conversion.code, options=options)
        assert (again.code, again.status) == (conversion.code, "unchanged")
        assert {d.code for d in again.diagnostics if d.severity == "error"} == set()


@pytest.mark.parametrize(
    ("code", "source"),
    [
        ("HVD901", "import horovod.tensorflow as hvd\nhvd.init()\n"),
        ("HVD902", "s = tf.distribute.MultiWorkerMirroredStrategy()\n"),
        ("HVD903", "tf.compat.v1.disable_eager_execution()\n"),
        ("HVD904", "tf.estimator.DNNClassifier([10], [f]).train(g)\n"),
        ("HVD908", "import os\nos.environ['KERAS_BACKEND'] = 'jax'\n"),
        ("HVD001", "if True:\n"),
    ],
)
def test_what_cannot_be_shared_is_refused(code: str, source: str) -> None:
    found = convert_source(f"import tensorflow as tf\n{source}", options=GLOBAL)
    assert found.status in ("refused", "invalid")
    assert code in {d.code for d in found.diagnostics if d.severity == "error"}
    assert found.code == f"import tensorflow as tf\n{source}"


def test_a_program_without_tensorflow_stays() -> None:
    assert (
        convert_source("import numpy\nprint(numpy.ones(3))\n", options=GLOBAL).status == "unchanged"
    )
    assert convert_source("def f():\n    import keras\n", options=GLOBAL).status == "converted"


FIT = "import keras\nmodel = keras.Sequential([keras.layers.Dense(1)])\nmodel.compile('sgd', 'mse')\nmodel.fit(x, y)\n"


@pytest.mark.parametrize(
    ("head", "first"),
    [
        ("", ""),
        ("#!/usr/bin/env python\n# A licence.\n\n", "#!/usr/bin/env python\n# A licence.\n\n"),
        ('"""What it does,\n\nand why."""\nfrom __future__ import annotations\n', None),
        ("@f\ndef g(): pass\n", ""),
        ("import os; import sys\n", ""),
    ],
)
def test_where_it_starts(head: str, first: str | None) -> None:
    before = head if first is None else first
    code = convert_source(head + FIT, options=GLOBAL).code
    assert code == before + ADDED + head[len(before) :] + FIT
    ast.parse(code)


def test_names_and_newlines_are_the_programs() -> None:
    code = convert_source(("jhvd = 3\n" + FIT).replace("\n", "\r\n"), options=GLOBAL).code
    assert code.startswith(
        "import jupyter_hvd.runtime as jupyter_hvd_runtime\r\njupyter_hvd_runtime.start_shared()"
    )
    assert code.count("\n") == code.count("\r\n")


def test_without_a_guard() -> None:
    code = convert_source(FIT, options=Options(batch="global", guard=False)).code
    assert "jhvd.start_shared(guard=False)  #" in code


def test_data_of_rank_zero() -> None:
    given = {"batch": "global", "guard": False, "data": "rank0"}
    code = convert_source(FIT, options=Options.resolve(given)).code
    assert 'jhvd.start_shared(guard=False, data="rank0")  #' in code
    with pytest.raises(OptionError, match="each, rank0"):
        Options(batch="global", data="none")


def test_strategies_of_one_process_and_chosen_gpus() -> None:
    head = (
        "import os\nimport tensorflow as tf\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\n"
        "s = tf.distribute.MirroredStrategy()\n"
    )
    source = head + FIT
    code = convert_source(source, options=GLOBAL).code
    assert "s = tf.distribute.get_strategy()\n" in code
    assert "CUDA" not in code
    assert "horovod.tensorflow" not in code


def notebook(*cells: str) -> nbformat.NotebookNode:
    return new_notebook(cells=[new_markdown_cell("# Title"), *map(new_code_cell, cells)])


@pytest.mark.parametrize(
    ("cells", "place"),
    [
        (("!pip install keras\n%matplotlib inline\nimport numpy", FIT), (0, 2)),
        (("%%bash\nls", "%%time\nimport os", FIT), (1, 1)),
        (("%load_ext tensorboard", "  import os\n  x = 1", FIT), (1, 0)),
        (("if a:\n    !ls\nimport os", FIT), (0, 0)),
    ],
)
def test_notebooks(cells: tuple[str, ...], place: tuple[int, int]) -> None:
    cell, line = place
    found = convert_notebook(notebook(*cells), options=GLOBAL)
    assert found.status == "converted"
    after = [each.source for each in found.notebook.cells[1:]]
    expected = [*cells]
    lines = cells[cell].splitlines(True)
    indent = lines[line][: len(lines[line]) - len(lines[line].lstrip())]
    lines.insert(line, textwrap.indent(ADDED, indent))
    expected[cell] = "".join(lines)
    assert after == expected
    (change,) = found.changes
    assert change.cell == cell + 1


def test_the_command_line(hvd, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FIT)
    assert hvd("convert", "train.py", "--batch", "global").returncode == 0
    assert (tmp_path / "train_hvd.py").read_text() == ADDED + FIT
    again = hvd("convert", "train.py", "--batch", "global", "--json")  # over its own output
    assert json.loads(again.stdout)["files"][0]["status"] == "converted"
    assert hvd("convert", "train.py", "--batch", "all").returncode == 2


def test_a_file_beside_the_program(hvd, tmp_path: Path) -> None:
    """A stand-alone program imports it; it is written beside the outcome, and over none of somebody else's."""
    (tmp_path / "train.py").write_text(FIT)
    beside = tmp_path / "jupyter_hvd_sharing.py"
    standalone = ("convert", "train.py", "--batch", "global", "--standalone")
    for _ in range(2):
        assert hvd(*standalone).returncode == 0
        assert beside.read_text() == runtime_file()
    code = (tmp_path / "train_hvd.py").read_text()
    assert code == ADDED.replace("jupyter_hvd.runtime", "jupyter_hvd_sharing") + FIT
    assert convert_source(code).status == convert_source(code, options=GLOBAL).status == "unchanged"
    beside.write_text("own = 1\n")
    done = hvd(*standalone)
    assert (done.returncode, "there already and not from jupyter hvd" in done.stderr) == (2, True)
    assert beside.read_text() == "own = 1\n"


def test_the_file_beside_the_program_is_the_runtime() -> None:
    """Its modules are those of the package, byte for byte, and all that they import of it."""
    names: dict = {"__name__": "jupyter_hvd_sharing_of_a_test", "__file__": "/nowhere/beside.py"}
    text = runtime_file()
    head = text[: text.index("class Sources")]
    exec(head, names)
    folder = Path(runtime.__file__).parent
    sources = names["SOURCES"]
    assert {
        "process.py",
        "horovod_names.py",
        "sharing/start.py",
        "sharing/calls.py",
    } <= sources.keys()
    for name, source in sources.items():
        assert source == (folder / name).read_text()
        for found in ast.walk(ast.parse(source)):
            if isinstance(found, ast.ImportFrom) and found.level:
                above = Path(name).parents[found.level - 1]
                modules = [found.module] if found.module else [a.name for a in found.names]
                for module in modules:
                    file = str(above / module.replace(".", "/"))
                    assert {f"{file}.py", f"{file}/__init__.py"} & sources.keys(), (name, module)
            if isinstance(found, ast.Import | ast.ImportFrom) and not getattr(found, "level", 0):
                words = [getattr(found, "module", None) or "", *(a.name for a in found.names)]
                assert not any(word.startswith("jupyter_hvd") for word in words)


def test_a_job_takes_it_along(hvd, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FIT)
    for kind in ("--slurm", "--kubernetes"):
        done = hvd("job", "train.py", kind, "-n", 2, "--batch", "global", "-o", "out", "--force")
        assert done.returncode == 0, done.stderr
    written = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert written["jupyter_hvd_sharing.py"] == runtime_file()
    assert "import jupyter_hvd_sharing as jhvd" in written["train_hvd.py"]
    assert '"jupyter_hvd_sharing.py"' in written["train_hvd.Dockerfile"]
    assert "jupyter-hvd==" not in written["train_hvd.Dockerfile"]
