"""The recipes of `CONTRIBUTING.md`: their changes apply to a copy of the checkout, and their commands pass there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RECIPES = {
    title: text
    for title, text in re.findall(
        r"^## (.+? in ten minutes)\n(.*?)(?=^## )",
        (ROOT / "CONTRIBUTING.md").read_text(),
        re.M | re.S,
    )
    if "```diff" in text
}
STEP = re.compile(r"^```(diff|sh)\n(.*?)^```", re.M | re.S)
NEEDED = ("jupyter_hvd", "labextension", "scripts", "tests")
FILES = ("pyproject.toml", "package.json", "tsconfig.json", "yarn.lock", ".yarnrc.yml")


def test_all_are_found():
    assert list(RECIPES) == [
        f"A {what} in ten minutes" for what in ("NumPy function", "launcher", "panel figure")
    ]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.needs("node")
@pytest.mark.parametrize("title", RECIPES)
def test_its_commands_pass(title: str, tmp_path: Path) -> None:
    unneeded = shutil.ignore_patterns("__pycache__", "programs")
    for name in NEEDED:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=unneeded)
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(ROOT / "node_modules")
    (tmp_path / ".venv").symlink_to(Path(sys.prefix))
    environment = {
        **os.environ,
        "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}",
        "PYTHONPATH": str(tmp_path),
    }
    for kind, text in STEP.findall(RECIPES[title]):
        command = ["git", "apply", "-"] if kind == "diff" else ["bash", "-e"]
        done = subprocess.run(
            command,
            input=text,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, text + done.stdout + done.stderr
