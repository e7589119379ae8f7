"""`f.profile(*args)`: exact operations, and no more than that is claimed."""

import numpy as np
import pytest
from programs import CASES

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.jax.profile import ProfileCancelledError


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c.name in ("convolution_loss", "masked_stencil", "springs")],
    ids=lambda case: case.name,
)
def test_operations_are_those_of_the_cost_model(case):
    gradient = case.function.grad(*case.wrt)
    found = gradient.profile(*case.arguments, repeats=1)
    assert found.total.operations == gradient.cost(*case.arguments).total
    assert [s.name for s in found.statements] == [s.name for s in gradient.ssa.statements]
    assert all(s.seconds > 0 and s.bytes >= 0 for s in found.statements)
    assert found.compile_seconds > 0


def test_progress_and_cancel():
    @tensor
    def square(x):
        return sum(x[i] * x[i] for i in range(len(x)))

    seen = []
    square.profile(np.ones(3), repeats=1, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(k + 1, len(seen)) for k in range(len(seen))]
    with pytest.raises(ProfileCancelledError):
        square.profile(np.ones(3), repeats=1, cancelled=lambda: True)
