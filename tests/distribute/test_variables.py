"""Where values differ, and by how much; no process is started here."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from jupyter_hvd.magics.distribute import distribute_parser, hvd_parser, rank_parser
from jupyter_hvd.notebook.variables import (
    VariablesTable,
    compare_summaries,
    first_difference,
    shown_variables,
)
from jupyter_hvd.ranks.bounded_calls import BoundedCalls, UnansweredError
from jupyter_hvd.ranks.serialization import SerializedValue
from jupyter_hvd.ranks.variables import MOST_CHARACTERS, VariableSummary, summarize_value


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
        rank: {"a": summarize_value(value, None), "b": VariableSummary("an iterator")}
        for rank, value in enumerate(values)
    }
    packed = {rank: {"a": SerializedValue("plain", value)} for rank, value in enumerate(values)}
    table = VariablesTable(shown_variables(compare_summaries(told), packed), ["rank 4 is stopped"])
    assert repr(table).splitlines() == [
        "variable  on                value",
        "≠ a       ranks 0, 1 and 3  float64 (3,): 0, 0, 0",
        "          rank 2            float64 (3,): 0, 0, 2",
        "                            differs from rank 0: [2]: 2.0 instead of 0.0, largest difference 2, 1 of 3 entries",
        "b         all ranks         an iterator (not compared)",
        "rank 4 is stopped",
    ]
    markup = table._repr_html_()
    assert markup.count("<tr>") == 4
    assert "≠ a</td>" in markup
    assert "<br><small>differs from rank 0: [2]: 2.0 instead of 0.0" in markup
    assert "<p>rank 4 is stopped</p>" in markup


def test_text_of_users_is_escaped() -> None:
    told = {rank: {"<b>": VariableSummary(f"<i>{rank}")} for rank in (0, 1)}
    markup = VariablesTable(shown_variables(compare_summaries(told), {}), ["<p>"])._repr_html_()
    assert "≠ &lt;b&gt;" in markup
    assert "&lt;i&gt;1" in markup
    assert "<i>" not in markup


def test_a_repr_that_is_not_known_says_nothing_of_a_difference() -> None:
    unread = VariableSummary("Slow: its repr takes longer than 1 s", is_unread=True)
    told = {0: unread, 1: VariableSummary("Slow(1)"), 2: VariableSummary("Slow(2)")}
    (found,) = compare_summaries({rank: {"a": each} for rank, each in told.items()})
    assert [group.ranks for group in found.groups] == [(0, 1), (2,)]
    assert found.groups[0].text.startswith("Slow(1)")
    (same,) = compare_summaries({rank: {"a": told[rank]} for rank in (0, 1)})
    assert same.is_replicated
    (all_unread,) = compare_summaries({rank: {"a": unread} for rank in (0, 1)})
    assert [group.ranks for group in all_unread.groups] == [(0, 1)]


def test_what_python_says_of_a_value_is_cut() -> None:
    class Long:
        def __repr__(self) -> str:
            return "long " * 10**6

    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    for value in (Long(), Broken(), "x" * 10**7, list(range(10**6)), 10**5000, {1: "x" * 10**6}):
        text = summarize_value(value, BoundedCalls()).text
        assert 0 < len(text) <= MOST_CHARACTERS
        assert "\n" not in text


def never_ends() -> None:
    while True:
        with suppress(Exception):  # as the code of users does
            time.sleep(0.01)


def test_what_catches_every_error_is_stopped_too() -> None:
    with pytest.raises(UnansweredError, match=r"takes longer than 0\.05 s"):
        BoundedCalls(each=0.05).call(never_ends)
    deadline = time.monotonic() + 60
    while "hvd-bounded-call" in {thread.name for thread in threading.enumerate()}:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_calls_that_hang_have_one_limit_together() -> None:
    hangs, calls = threading.Event(), BoundedCalls(each=0.05, together=0.1)
    for _ in range(3):
        with pytest.raises(UnansweredError):
            calls.call(hangs.wait)
    with pytest.raises(UnansweredError, match="is not called, because others take too long"):
        calls.call(list)
    hangs.set()


def test_errors_of_a_call_are_reported() -> None:
    def leave() -> None:
        raise SystemExit

    with pytest.raises(ZeroDivisionError):
        BoundedCalls().call(lambda: 1 / 0)
    with pytest.raises(RuntimeError, match="SystemExit"):
        BoundedCalls().call(leave)


def test_magics_need_no_arguments() -> None:
    assert distribute_parser().parse_line("").n is None
    assert hvd_parser().parse_line("", default="status").command == "status"


@pytest.mark.parametrize(
    ("line", "ranks"),
    [
        ("0,2", [{0, 2}]),
        ("0-2 4", [{0, 1, 2}, {4}]),
        ("[0,2]", [{0, 2}]),
        ("[0, 2]", [{0}, {2}]),
        ("all", [None]),
    ],
)
def test_ranks_of_a_cell(line: str, ranks: list[set[int] | None]) -> None:
    assert rank_parser().parse_line(line).ranks == ranks
