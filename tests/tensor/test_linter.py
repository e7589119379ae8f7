"""`lint`: where `jax.grad` of plain JAX grows faster than the function."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jupyter_hvd.tensor import TensorError, lint, linter


@pytest.fixture
def _short(monkeypatch):
    """What is measured in these tests is not how long things take."""
    monkeypatch.setattr(linter, "LARGE", 3_000)
    monkeypatch.setattr(linter, "SHORT", 0)


def smooth(x, w):
    return jnp.sum(jnp.tanh(x @ w) ** 2)


def written(x):
    """JAX's issue #15906: what a turn writes into what is carried, under a condition, is kept whole in
    each turn.
    """

    def turn(ys, i):
        new = ys.at[i].set(jnp.sin(x[i] + ys[i - 1]))
        return jnp.where(i > -10, new, ys * x[i]), None

    return jnp.sum(lax.scan(turn, jnp.zeros_like(x), jnp.arange(len(x)))[0])


def shifted(x):
    """JAX's issue #17640: a slice of a row of what is carried is replaced; its gradient copies the whole."""
    rows = len(x)

    def turn(carried, i):
        row = lax.dynamic_slice(carried, (i % rows, 0), (1, 8))
        row = jnp.roll(row, 1, 1) * 0.9
        return lax.dynamic_update_slice(carried, jnp.sin(row), (i % rows, 0)), None

    return jnp.sum(lax.scan(turn, x, jnp.arange(rows))[0][:, 0])


def diagonal(x):
    return jnp.diag(x)[:, 0] @ jnp.diag(x)[0, :]


@pytest.mark.usefixtures("_short")
def test_a_function_as_it_should_be():
    found = lint(smooth, np.ones((8, 16), "f"), np.ones((16, 4), "f"))
    assert [g.size for g in found.growths] == ["x.shape[0]", "x.shape[1]", "w.shape[1]"]
    assert found.wrt == (0, 1)
    first = found.growths[0]
    assert [s.size for s in first.steps] == [8 * 2**k for k in range(len(first.steps))]
    assert all(s.gradient_seconds > 0 < s.value_seconds for s in first.steps)
    assert not any(g.larger for g in found.growths)


@pytest.mark.usefixtures("_short")
def test_bytes_of_a_gradient_that_grow_faster():
    """What XLA says of the bytes does not depend on how busy the machine is."""
    found = lint(written, np.linspace(0, 1, 64, dtype="f"))
    (growth,) = found.growths
    assert growth.size == "x.shape[0]"
    assert growth.bytes_exponents == pytest.approx((1, 2), abs=0.3)
    assert growth.larger
    assert "THE GRADIENT STORES MORE" in str(found)
    assert any("test_linter.py:" in culprit for culprit in growth.culprits)


@pytest.mark.usefixtures("_short")
def test_text_and_json_say_the_same():
    found = lint(diagonal, grow=lambda n: (np.ones(n, "f"),), start=16)
    data, text = json.loads(found.json()), str(found)
    (growth,) = data["growths"]
    assert growth["steps"][0]["size"] == 16
    assert growth["slower"] == found.growths[0].slower
    assert text.startswith("diagonal: jax.grad by argument 0: ")
    assert f"{growth['steps'][-1]['gradient_bytes']:,}" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (written, (np.linspace(0, 1, 256, dtype="f"),)),
        (shifted, (np.ones((256, 24), "f"),)),
        (diagonal, (np.ones(256, "f"),)),
    ],
)
@pytest.mark.long
def test_open_issues_of_jax_are_found(function, arguments):
    found = lint(function, *arguments)
    assert found.findings, str(found)
    assert "GROWS FASTER" in str(found) or "STORES MORE" in str(found)


@pytest.mark.usefixtures("_short")
def test_index_arrays_and_dictionaries_are_arguments():
    def gathered(params, at):
        return jnp.sum(params["w"][at] * params["scale"])

    found = lint(gathered, {"w": np.ones(12, "f"), "scale": np.float32(2)}, np.arange(12)[:10])
    assert found.wrt == (0,)
    assert [g.size for g in found.growths] == ["params['w'].shape[0]", "at.shape[0]"]


def test_what_cannot_be_linted():
    with pytest.raises(TensorError, match="nothing to call"):
        lint(smooth)
    with pytest.raises(TensorError, match="only a scalar"):
        lint(jnp.sin, np.ones(4))
    with pytest.raises(TensorError, match="no argument is of floats"):
        lint(jnp.sum, np.arange(4))
    with pytest.raises(TensorError, match="argument 3"):
        lint(jnp.sum, np.ones(4), wrt=3)
    with pytest.raises(TensorError, match="could grow"):
        lint(jnp.sin, 0.5)
    with pytest.raises(TensorError, match="leave one of them out"):
        lint(jnp.sum, np.ones(4), grow=lambda n: (np.ones(n),))
