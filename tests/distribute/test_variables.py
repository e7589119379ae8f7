"""Where values differ, and by how much; no process is started here."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from jupyter_hvd.magics import distribute_parser, hvd_parser
from jupyter_hvd.rank.serialization import SerializedValue
from jupyter_hvd.rank.variables import (
    MOST_CHARACTERS,
    TooSlow,
    VariableSummary,
    summarize_value,
    time_limit,
)
from jupyter_hvd.session.variables import (
    compare_summaries,
    first_difference,
    shown_variables,
    table_of_variables,
)


@pytest.mark.parametrize(
    ("zero", "other", "told"),
    [
        (1, 1, ""),
        (1, 1.0, "float instead of int"),
        ("a", "b", "[0]: 'b' instead of 'a'"),
        (["same"], ["sand"], "[0][2]: 'nd' instead of 'me'"),
        (2.0, 2.5, "2.5 instead of 2.0, a difference of 0.5"),
        ([1, [2, 3]], [1, [2, 4]], "[1][1]: 4 instead of 3, a difference of 1"),
        ([1], [1, 2], "2 elements instead of 1"),
        ([b"same", 1], [b"same", 2], "[1]: 2 instead of 1, a difference of 1"),
        (b"a", b"b", "other bytes"),
        ({"a", "b"}, {"b", "a"}, ""),
        ({"a"}, {"a", "b"}, "has 'b'"),
        ({"a", "b"}, {"b"}, "has no 'a'"),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "the keys are in another order"),
        (np.zeros(1), -np.zeros(1), "equal numbers with other bits, as 0.0 and -0.0 are"),
        ({"a": 1}, {"b": 1}, "has no 'a'"),
        ({"a": 1}, {"a": 1, "b": 1}, "has 'b', too"),
        (np.zeros(2), np.zeros(3), "float64 (3,) instead of float64 (2,)"),
        (
            np.zeros((2, 2)),
            np.array([[0, 0], [3, -4.0]]),
            "[1, 0]: 3.0 instead of 0.0, largest difference 4, 2 of 4 entries",
        ),
        (np.array([np.nan, 1]), np.array([np.nan, 1]), ""),
        (np.array([0, 1.0]), np.array([0, np.nan]), "[1]: nan instead of 1.0, 1 of 2 entries"),
        (np.array(["a"]), np.array(["b"]), "[0]: b instead of a, 1 of 1 entries"),
        (
            np.uint8([0]),
            np.uint8([255]),
            "[0]: 255 instead of 0, largest difference 255, 1 of 1 entries",
        ),
    ],
)
def test_first_difference(zero: Any, other: Any, told: str) -> None:
    assert first_difference(zero, other) == told


def test_ranks_with_the_same_value_share_a_line() -> None:
    values = [np.zeros(3), np.zeros(3), np.array([0, 0, 2.0]), np.zeros(3)]
    told = {
        rank: {"a": summarize_value(value), "b": VariableSummary("an iterator")}
        for rank, value in enumerate(values)
    }
    packed = {rank: {"a": SerializedValue("plain", value)} for rank, value in enumerate(values)}
    lines = table_of_variables(shown_variables(compare_summaries(told), packed))
    assert lines == [
        "variable  on                value",
        "≠ a       ranks 0, 1 and 3  float64 (3,): 0, 0, 0",
        "          rank 2            float64 (3,): 0, 0, 2",
        "                            differs from rank 0: [2]: 2.0 instead of 0.0, largest difference 2, 1 of 3 entries",
        "b         all ranks         an iterator (not compared)",
    ]


def test_what_python_says_of_a_value_is_cut() -> None:
    class Long:
        def __repr__(self) -> str:
            return "long " * 10**6

    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    for value in (Long(), Broken(), "x" * 10**7, list(range(10**6)), 10**5000, {1: "x" * 10**6}):
        text = summarize_value(value).text
        assert 0 < len(text) <= MOST_CHARACTERS
        assert "\n" not in text


def never_ends() -> None:
    while True:
        with suppress(Exception):  # as the code of users does
            time.sleep(5)


def test_what_catches_every_error_is_stopped_too() -> None:
    started = time.monotonic()
    with pytest.raises(TooSlow), time_limit(0.05):
        never_ends()
    assert time.monotonic() - started < 2


def test_magics_need_no_arguments() -> None:
    assert distribute_parser().parse_line("").n is None
    assert hvd_parser().parse_line("", default="status").command == "status"
