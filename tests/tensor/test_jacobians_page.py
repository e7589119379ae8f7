"""The examples of docs/jacobians.md run, and print what the page shows."""

import linecache
import re
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parents[2] / "docs" / "jacobians.md"


def test_examples_run_and_converge(capsys):
    text = PAGE.read_text()
    code = "\n\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    linecache.cache["jacobians page"] = (
        len(code),
        None,
        code.splitlines(keepends=True),
        "jacobians page",
    )
    names = {"__name__": "jacobians_page"}
    exec(compile(code, "jacobians page", "exec"), names)  # noqa: S102
    printed = capsys.readouterr().out
    (shown,) = re.findall(r"```\n\n((?:    .*\n)+)", text)
    assert printed == re.sub("^    ", "", shown, flags=re.MULTILINE)
    assert names["J"].nnz == 2996
    assert np.abs(names["seen"]).max() > 1
