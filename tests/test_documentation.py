"""Every block of Python in README and docs runs, but those that say why not: `<!-- not run: … -->` above them."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from IPython.core.inputtransformer2 import TransformerManager
from IPython.core.interactiveshell import InteractiveShell
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[1]
#: Pages that are made of what tests run: the rules' examples, one function's stages, NumPy's functions.
MADE = {"rules.md", "kernels.md", "numpy.md"}
PAGES = [
    path
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").glob("*.md")),
    )
    if path.name not in MADE
]

ARRAYS = "import numpy as np\nA, x = np.ones((3, 3)), np.ones(3)"
#: What a page speaks of before its first block.
GIVEN = {
    "README.md": ARRAYS,
    "gradient-cost.md": "import numpy as np",
    "recurrences.md": "import numpy as np\nfrom jupyter_hvd.tensor import tensor\n"
    "W, U, x, h = np.eye(3), np.ones((3, 2)), np.ones((5, 2)), np.ones(3)",
    "tensor-language.md": ARRAYS,
    "tensor-language-reference.md": ARRAYS,
}


def blocks(path: Path) -> Iterator[tuple[int, str, bool]]:
    """The blocks of a page that are Python or a cell of a notebook: their line, text, and whether they run."""
    tokens = MarkdownIt("commonmark").parse(path.read_text())
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.type not in ("fence", "code_block"):
            continue
        marked = before is not None and before.content.startswith("<!-- not run: ")
        if token.info == "python" or (not token.info and is_python(token.content)):
            yield token.map[0] + 1, token.content, not marked


def is_python(text: str) -> bool:
    try:
        ast.parse(TransformerManager().transform_cell(text))
    except SyntaxError:
        return False
    # A word alone, or a number, is what some command printed.
    return re.search(r"[(=%]|^import ", text, re.M) is not None


@pytest.fixture
def own_precision():
    """A page may change JAX's default precision, for itself."""
    import jax

    before = jax.config.jax_enable_x64
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.mark.usefixtures("own_precision")
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_blocks_of_python_run(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    shell = InteractiveShell()
    shell.run_cell(GIVEN.get(path.name, "")).raise_error()
    for line, text, runs in blocks(path):
        if runs:
            try:
                shell.run_cell(text).raise_error()
            except Exception as error:
                error.add_note(f"{path.relative_to(ROOT)}, line {line}")
                raise


def test_results_of_kernels_are_those_of_the_tables():
    """A row's geometric mean and worst ratio stand in one line of the tables."""
    page = (ROOT / "docs" / "performance.md").read_text().split("## Results")[1]
    tables = (ROOT / "docs" / "performance-tables.md").read_text().splitlines()
    rows = [line.split(" | ")[-2:] for line in page.splitlines() if re.search(r"\d \|$", line)]
    found = {tuple(re.findall(r"\d+(?:\.\d+)?", " ".join(cells))): cells for cells in rows}
    assert found
    missing = [
        cells
        for numbers, cells in found.items()
        if not any(set(numbers) <= {*re.findall(r"\d+(?:\.\d+)?", line)} for line in tables)
    ]
    assert not missing


def anchors(text: str) -> set[str]:
    """The anchors of a page: its headings', as GitHub makes them, and those that are written out."""
    tokens = MarkdownIt("commonmark").parse(text)
    titles = (
        "".join(child.content for child in inline.children or ())
        for opening, inline in pairwise(tokens)
        if opening.type == "heading_open"
    )
    slugs: Counter[str] = Counter()
    found = set(re.findall(r'<a id="([^"]+)"', text))
    for title in titles:
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        found.add(f"{slug}-{slugs[slug]}" if slugs[slug] else slug)
        slugs[slug] += 1
    return found


def test_old_anchors_lead_somewhere():
    """`anchors.txt` has what links may name; add an anchor where a heading is moved or renamed."""
    links = [
        line.split("#") for line in (Path(__file__).parent / "anchors.txt").read_text().split()
    ]
    pages = {name: anchors((ROOT / name).read_text()) for name, _ in links}
    gone = [f"{name}#{anchor}" for name, anchor in links if anchor not in pages[name]]
    assert not gone


def test_what_a_page_runs_is_found():
    found = [text for _, text, runs in blocks(ROOT / "README.md") if runs]
    assert any('energy.grad("x")(A, x)' in text for text in found)
