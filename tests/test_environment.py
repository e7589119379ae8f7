"""What `make` needs of a machine: Pythons, locks with hashes, programs of the system, and how it says that one is not there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from jupyter_hvd.runtime.sharing.tested_versions import is_tested

from .needs import needs
from .selection import find_later_cases, select_tenth

ROOT = Path(__file__).parents[1]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_pin_has_a_hash_and_no_lock_names_an_index(lock: Path) -> None:
    text = "".join(line for line in lock.open() if not line.startswith("#"))
    pins = text.replace("\\\n", "").splitlines()
    assert pins
    for pin in pins:
        assert re.match(
            r"[\w.-]+==[\w.+!]+ (; .*)?--hash=sha256:[0-9a-f]{64}", re.sub(r" +", " ", pin)
        ), pin
    assert "://" not in text
    assert "index" not in text


@pytest.mark.parametrize("lock", ["tf215.txt", "tf218.txt", "tf221.txt"])
def test_every_lock_has_what_the_package_is_built_with(lock: str) -> None:
    """The package is installed without build isolation, so a build requirement that no lock has fails a fresh `make env`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pinned = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements" / lock).read_text(), re.M))
    required = {re.split(r"[<>=]", each)[0] for each in project["build-system"]["requires"]}
    assert required - pinned == set()


def environment(*words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "environment.py"), *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )


def python(folder: Path, major: int, minor: int) -> Path:
    """What answers as an interpreter of a version does."""
    made = folder / f"python{major}.{minor}"
    made.write_text(f"#!/bin/sh\necho {major} {minor} {made}\n")
    made.chmod(0o755)
    return made


@pytest.mark.parametrize("version", [(3, 10), (3, 14)])
def test_a_python_without_wheels(tmp_path: Path, version: tuple[int, int]) -> None:
    done = environment(tmp_path / "env", "tf221", "--python", python(tmp_path, *version))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "TensorFlow 2.21 has wheels for Python 3.11 or 3.12 or 3.13" in done.stderr
    assert "make PYTHON=python3.13" in done.stderr
    assert not (tmp_path / "env").exists()


def test_a_python_that_is_none(tmp_path: Path) -> None:
    done = environment(tmp_path / "env", "tf221", "--python", tmp_path / "none")
    assert done.stderr == f"PYTHON={tmp_path / 'none'}: there is no such Python\n"


def test_pythons_are_found_on_the_path_and_in_pyenv(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "versions" / "3.13.2" / "bin").mkdir(parents=True)
    on_path = python(tmp_path / "bin", 3, 12)
    of_pyenv = python(tmp_path / "versions" / "3.13.2" / "bin", 3, 13)
    found = environment(
        "--others",
        tmp_path,
        PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        PYENV_ROOT=str(tmp_path),
    ).stdout
    assert f"3.13 {of_pyenv}" in found or "3.13 /usr/bin" in found
    assert f"3.12 {on_path}" in found or "3.12 /usr/bin" in found


def test_a_folder_of_wheels_that_is_none(tmp_path: Path) -> None:
    done = environment(tmp_path / "env", "--wheels", tmp_path / "none")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "make wheels WHEELS=" in done.stderr


# What is missing is said


@pytest.fixture
def nothing_there(monkeypatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(needs.shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(needs.os, "geteuid", lambda: 1000)
    notes = tmp_path / "skipped"
    monkeypatch.setenv(needs.NOTES_VARIABLE, str(notes))
    return notes


@pytest.mark.usefixtures("nothing_there")
def test_the_reason_says_what_to_install() -> None:
    assert needs.why_not("browser").endswith("install chromium nodejs, or run `make system`")
    assert "openssh-server" in needs.why_not("sshd")
    assert "slurm-wlm" in needs.why_not("slurm")
    assert "install libopenmpi-dev openmpi-bin, or" in needs.why_not("mpi")
    assert "nodejs 20.19 or newer" in needs.why_not("node")
    assert needs.why_not("root") == "root tests skipped: run them as root"


def test_an_old_node_is_none(monkeypatch) -> None:
    monkeypatch.setattr(needs.shutil, "which", lambda program, **_: f"/usr/bin/{program}")
    monkeypatch.setattr(needs, "node_version", lambda: (18, 20))
    assert "install nodejs 20.19 or newer" in needs.why_not("node")
    monkeypatch.setattr(needs, "node_version", lambda: (20, 19))
    assert needs.why_not("node") is None


@pytest.mark.usefixtures("nothing_there")
def test_one_closing_line_for_each_need(capsys) -> None:
    needs.main(["skip", "browser", "test-ui"])
    needs.main(["skip", "node", "site"])
    needs.main(["skip", "node", "binder"])
    needs.note(3, needs.why_not("root"))
    capsys.readouterr()
    assert needs.main(["closing"]) == 0
    browser, node, root = capsys.readouterr().out.splitlines()
    count = sum(
        len(re.findall(r"^ *test\(", path.read_text(), re.M))
        for path in (ROOT / "ui-tests").glob("*.spec.ts")
    )
    assert (
        browser == f"{count} browser tests skipped: install chromium nodejs, or run `make system`"
    )
    assert node.startswith("2 Node tests skipped: ")
    assert root == "3 root tests skipped: run them as root"


LEFT = "tests are left to `make test-all`: long ones"
#: Notes of one `make test`, the closing lines after them, and whether CI passes.
CLOSINGS = {
    "nothing": ([], ["0 tests skipped"], True),
    "tests left to another run": ([(40, LEFT), (9, LEFT)], [f"49 {LEFT}", "0 tests skipped"], True),
    "no package": (
        [(2, "sshd tests skipped: install x")],
        ["2 sshd tests skipped: install x"],
        False,
    ),
    "no root": ([(1, "root tests skipped: be root")], ["1 root tests skipped: be root"], False),
    "a start that failed": ([(3, "Slurm tests skipped: no")], ["3 Slurm tests skipped: no"], False),
    "any other reason": ([(1, "tests skipped: not today")], ["1 tests skipped: not today"], False),
    "another Python": ([(7, "Keras 2 tests skipped: -")], ["7 Keras 2 tests skipped: -"], True),
    "another Keras": (
        [(5, "other Keras tests skipped: -")],
        ["5 other Keras tests skipped: -"],
        True,
    ),
}


@pytest.mark.usefixtures("nothing_there")
@pytest.mark.parametrize(("noted", "lines", "passes"), CLOSINGS.values(), ids=CLOSINGS)
def test_closing_lines(
    capsys: pytest.CaptureFixture[str],
    noted: list[tuple[int, str]],
    lines: list[str],
    passes: bool,
) -> None:
    for count, sentence in noted:
        needs.note(count, sentence)
    assert needs.main(["closing"]) == 0
    assert capsys.readouterr().out.splitlines() == lines
    assert (needs.main(["closing", "--strict"]) == 0) is passes
    said = capsys.readouterr().out.splitlines()
    assert said[: len(lines)] == lines
    assert [line.startswith("STRICT=1: ") for line in said[len(lines) :]] == [True] * (not passes)


def test_every_excused_kind_is_one_of_a_need() -> None:
    kinds = {need.kind for need in needs.NEEDS.values()} | {needs.OTHER_KERAS}
    assert needs.EXCUSED.keys() <= kinds


@pytest.mark.parametrize("name", ["mpi", "mcp", "tf215", "tf218", "types"])
def test_an_environment_that_has_not_been_made(monkeypatch, tmp_path: Path, name: str) -> None:
    monkeypatch.setattr(needs, "lacking", lambda _: [])
    monkeypatch.setattr(needs, "ROOT", tmp_path)
    file, target = needs.NEEDS[name].made
    assert needs.why_not(name).endswith(f" tests skipped: run `make {target}`")
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).touch()
    assert needs.why_not(name) is None
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M)


@pytest.mark.usefixtures("nothing_there")
def test_browser_tests_that_make_test_leaves_out_are_counted(capsys) -> None:
    assert needs.main(["leave", "test-ui"]) == 0
    assert needs.main(["closing", "--strict"]) == 0
    left, none = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\d\d browser tests are left to `make test-all`: long ones", left)
    assert none == "0 tests skipped"


@pytest.mark.usefixtures("nothing_there")
def test_make_system_says_what_to_install_where_it_cannot(capsys) -> None:
    assert needs.main(["install"]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("install (Debian's names): ")
    assert "chromium" in line


@pytest.mark.usefixtures("nothing_there")
def test_no_compiler_is_said_before_anything_is_fetched(capsys) -> None:
    assert needs.main(["build"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_tests_without_their_program_are_skipped_with_a_line(tmp_path: Path) -> None:
    """Whole runs of pytest, for which no sshd is to be found, and no browser's tests are there."""
    program = (
        "import sys, pytest; from tests import needs\n"
        "needs.needs.lacking = lambda name: ['openssh-server'] if name == 'sshd' else []\n"
        "sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', 'tests/distribute/test_two_hosts.py']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, needs.NOTES_VARIABLE: str(tmp_path / "skipped")},
    )
    assert done.returncode == 0, done.stdout
    (note,) = (tmp_path / "skipped").read_text().splitlines()
    assert re.fullmatch(
        r"\d+ sshd tests skipped: install openssh-server, or run `make system`", note
    )
    assert note in done.stdout


SKIPS = r"""import os, subprocess, sys
import pytest
from tests.needs import needs

def test_it_skips_itself():
    pytest.skip("this machine\nis too slow")

@pytest.fixture
def failing():
    pytest.skip(f"Slurm{needs.SKIPPED}no node came up")

@pytest.mark.parametrize("case", [1, 2])
def test_a_fixture_skips(failing, case): ...

def test_inner_runs_note_nothing():
    assert needs.NOTES_VARIABLE not in os.environ
"""


@pytest.mark.parametrize("options", [(), ("--numprocesses=1",)], ids=["alone", "in a worker"])
def test_tests_that_skip_themselves_are_noted(tmp_path: Path, options: tuple[str, ...]) -> None:
    notes, file = tmp_path / "skipped", tmp_path / "test_skips.py"
    file.write_text(SKIPS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.needs"]
    done = subprocess.run(
        [*command, *options, f"--rootdir={tmp_path}", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, needs.NOTES_VARIABLE: str(notes)},
    )
    assert done.returncode == 0, done.stdout
    assert notes.read_text().splitlines() == [
        "1 tests skipped: this machine is too slow",
        "2 Slurm tests skipped: no node came up",
    ]


def test_the_extra_installs_a_tested_pair() -> None:
    """Ranks refuse to train with a TensorFlow and Keras that are not in the table."""
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pins = dict(each.removesuffix(".*").split("==") for each in extra["tensorflow"])
    assert is_tested(pins["tensorflow-cpu"], "keras", pins["keras"])


@pytest.mark.parametrize(
    ("lock", "module", "package"),
    [
        ("tf221.txt", "keras", "keras"),
        ("tf215.txt", "keras", "keras"),
        ("tf218.txt tf218-keras.txt", "tf_keras", "tf-keras"),
    ],
)
def test_every_lock_has_a_tested_pair(lock: str, module: str, package: str) -> None:
    text = "".join((ROOT / "requirements" / name).read_text() for name in lock.split())
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.M))
    assert is_tested(pinned["tensorflow-cpu"], module, pinned[package])


def test_a_workflow_runs_all_that_a_merge_requires() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "build.yml").read_text())["jobs"]
    commands = [
        line
        for job in jobs.values()
        for step in job["steps"]
        for line in step.get("run", "").splitlines()
    ]
    assert ".ci/run" in commands
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    made = {line.split()[1] for line in commands if line.startswith("make ")}
    assert made
    assert made <= targets


def test_a_tenth_has_a_test_of_each_file() -> None:
    tests = [f"a::{n}" for n in range(30)] + ["b::0", "b::1"]
    assert select_tenth(tests, 3) == ["a::3", "a::13", "a::23", "b::1"]


def test_a_brief_run_has_one_case_of_each_test() -> None:
    tests = ["a::x[1]", "a::x[2]", "a::y", "b::x[1]", "b::x[3]"]
    assert find_later_cases(tests) == {"a::x[2]", "b::x[3]"}
