"""Bandwidth and latency from the times of allreduces."""

from __future__ import annotations

import pytest

from jupyter_hvd.notebook.errors import DistributeError
from jupyter_hvd.notebook.network import FUSED, Network, fit_network
from jupyter_hvd.ranks.allreduce_times import SIZES


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_figures_are_those_of_the_times(ranks: int) -> None:
    real = Network(ranks, 2e9, 40e-6, 0.0, ())
    found = fit_network(ranks, [(size, real.allreduce_seconds(size)) for size in SIZES])
    assert found.bandwidth == pytest.approx(2e9)
    assert found.latency == pytest.approx(40e-6)
    assert found.error < 1e-6


def test_each_time_counts_by_its_own_measure() -> None:
    """A fifth more of the largest alone moves the bandwidth, and hardly the latency."""
    real = Network(2, 2e9, 40e-6, 0.0, ())
    times = [
        (size, real.allreduce_seconds(size) * (1.2 if size == SIZES[-1] else 1)) for size in SIZES
    ]
    found = fit_network(2, times)
    assert found.latency == pytest.approx(40e-6, rel=0.1)
    assert 0.05 < found.error < 0.2


def test_times_that_do_not_grow_are_no_network() -> None:
    with pytest.raises(DistributeError, match="do not grow"):
        fit_network(2, [(size, 1e-3 / (k + 1)) for k, size in enumerate(SIZES)])


def test_each_buffer_of_gradients_has_its_latency() -> None:
    network = Network(4, 2e9, 40e-6, 0.0, ())
    assert network.averaging_seconds(0) == 0
    assert network.averaging_seconds(FUSED) == network.allreduce_seconds(FUSED)
    more = network.averaging_seconds(2 * FUSED + 4)
    assert more == pytest.approx(network.allreduce_seconds(2 * FUSED + 4) + 2 * 6 * 40e-6)
