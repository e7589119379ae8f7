"""The example notebooks, with `%%distribute` on their training cells and nothing else changed.

Training is random, so accuracies are looked at, on held-back pictures; those of the same notebooks as batch jobs
are in `test_examples.py`.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[1] / "examples"
TRAINING = {
    "gradient_tape": "for epoch in range(EPOCHS)",
    "tf_function": "for epoch in range(8)",
    "keras_fit": "model.fit(",
    "gan": "train(dataset, EPOCHS)",
}
ACCURACY = re.compile(r"accuracy on held-back digits: ([\d.]+)")


def in_notebook(name: str, folder: Path) -> str:
    """All that the distributed notebook prints."""
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    training = [c for c in notebook.cells if c.cell_type == "code" and TRAINING[name] in c.source]
    for cell in training:
        cell.source = "%%distribute -n 2\n" + cell.source
    assert len(training) == 1
    NotebookClient(
        notebook,
        timeout=200,
        resources={"metadata": {"path": str(folder)}},
        extra_arguments=["--IPKernelApp.extensions=jupyter_hvd"],
    ).execute()
    return "".join(
        output.text
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output.output_type == "stream" and output.name == "stdout"
    )


@pytest.mark.parametrize(
    "name",
    # One more runs to its end in `test_examples.py`, the others in `make test-thorough`.
    [
        pytest.param(name, marks=[] if name == "tf_function" else [pytest.mark.thorough])
        for name in TRAINING
    ],
)
@pytest.mark.long
def test_the_notebook_trains(name: str, tmp_path: Path) -> None:
    printed = in_notebook(name, tmp_path)
    accuracies = ACCURACY.findall(printed)
    print(f"{name}: {accuracies}")
    assert all(float(accuracy) > 0.9 for accuracy in accuracies)
    if name == "gan":  # it has no accuracy: it prints a line an epoch
        assert len(re.findall(r"Epoch \d+: generator", printed)) == 10
    else:
        assert accuracies
