import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session", autouse=True)
def compiled_once(kernels_kept):
    """Most of these tests compile small kernels."""


@pytest.fixture(scope="session", autouse=True)
def by_the_model(tmp_path_factory):
    """No test depends on what was measured, or writes it into the user's cache or settings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_HVD_TUNE", "never")
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(scope="session", autouse=True)
def double_precision():
    """The evaluator computes in doubles; so should JAX beside it."""
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.fixture
def blocks_of():
    """Arrays of so many entries are made in blocks of so many, as others of half a million are."""
    from jupyter_hvd.tensor.jax.devices import planned_for
    from jupyter_hvd.tensor.lowering.device import CPU

    with ExitStack() as stack:
        yield lambda intermediate, block: stack.enter_context(
            planned_for(replace(CPU, intermediate=intermediate, block=block))
        )


def pytest_terminal_summary(terminalreporter):
    theorems = sys.modules.get("theorems")
    if theorems is not None and theorems.RATIOS.programs:
        seen = theorems.RATIOS
        terminalreporter.write_line(
            f"tensor: {seen.programs} random programs; largest $D/$ = {float(seen.forward):.3f}, "
            f"largest $IO(Dᵀ)/$IO = {float(seen.adjoint):.3f} (the bound is 4)"
        )
