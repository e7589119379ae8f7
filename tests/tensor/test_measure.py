"""Growth: sizes are doubled until a measurement is long, and a power is fitted to it."""

import pytest

from jupyter_hvd.tensor import TensorError
from jupyter_hvd.tensor.measure import (
    fit_doubled,
    fit_exponent,
    fit_exponents,
    fit_growth,
    measure_doubled,
)


def test_sizes_double_until_a_point_is_long_or_none():
    assert measure_doubled(lambda factor: factor, lambda point: point > 5) == [1, 2, 4, 8]
    assert measure_doubled(lambda k: None if k > 2 else k, lambda _: False) == [1, 2]


def test_an_error_ends_a_measurement_but_at_its_first_size():
    def limited(factor: int) -> int:
        if factor > 4:
            raise TensorError("too large")
        return factor

    assert measure_doubled(limited, lambda _: False) == [1, 2, 4]
    with pytest.raises(TensorError, match="too large"):
        measure_doubled(lambda factor: limited(8 * factor), lambda _: False)


def test_exponents_are_slopes_on_logarithmic_axes():
    sizes = [4, 8, 32]
    assert fit_exponent(sizes, [3 * n**1.5 for n in sizes]) == pytest.approx(1.5)
    assert fit_exponent([4, 4], [1, 2]) is None
    assert fit_exponent(sizes, [0, 1, 2]) is None
    assert fit_exponents(sizes, [(n, n**2) for n in sizes]) == pytest.approx((1, 2))
    assert fit_exponents(sizes[:2], [(1, 1), (2, 4)]) is None, "two sizes are no slope"
    assert fit_doubled([(2**k, 5) for k in range(4)]) == pytest.approx((1, 0))
    assert fit_doubled([(1, 1), (0, 1), (1, 1)]) is None


def test_growth_is_that_of_what_exceeds_a_call():
    sizes = [2**k for k in range(2, 14)]
    found = fit_growth(sizes, [1e-5 + 1e-10 * n**2 for n in sizes])
    assert found.exponent == pytest.approx(2, abs=0.02)
    assert 256 < found.since < 1024, "from 447 on two thirds of the time are work"
    assert fit_growth(sizes, [1e-5] * len(sizes)) is None
    assert fit_growth(sizes, [*[1e-5] * 10, 9e-5, 9e-4]) is None, "two points are no slope"
    assert fit_growth(sizes, [1e-5, *[3e-4, 4e-5] * 5, 1e-4]) is None, "no power fits"
