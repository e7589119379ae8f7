"""What a notebook is as a script."""

from __future__ import annotations

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from jupyter_hvd.source.export import to_script, without_magics


def test_cells_stay_apart_and_text_becomes_comments():
    cells = [new_markdown_cell("# Title\n\ntext"), new_code_cell("x = 1\n")]
    script = to_script(new_notebook(cells=cells))
    assert script == "# %% [markdown]\n# # Title\n#\n# text\n\n# %%\nx = 1\n"


@pytest.mark.parametrize(
    ("cell", "python"),
    [
        ("%pylab inline\nx = 1", "pass  # %pylab inline\nx = 1"),
        ("if x:\n    !ls", "if x:\n    pass  # !ls"),
        ("files = !ls", "pass  # files = !ls"),
        ("print?", "pass  # print?"),
        ("%time x = f()", "x = f()"),
        ("%  time x = f()", "x = f()"),
        ("x = %time f()", "x = f()"),
        ("%%time\nx = 1", "# %%time\nx = 1"),
        ("%%bash\nls", "# %%bash\n# ls"),
        ('text = """\n%s\n!\n"""', 'text = """\n%s\n!\n"""'),
        ("####\nx = a % b", "####\nx = a % b"),
    ],
)
def test_magics_become_comments(cell, python):
    assert without_magics(cell) == python
    compile(python, "cell", "exec")
