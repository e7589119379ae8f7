"""What a panel is told of ranks, without any process: questions to a rank, its output, who differs."""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jupyter_hvd.launch.diagnosis import StallReport
from jupyter_hvd.launch.heartbeat import MESSAGES_VARIABLE
from jupyter_hvd.launch.progress import Stall
from jupyter_hvd.notebook.cell_output import KEPT, CellOutput, RankText
from jupyter_hvd.notebook.inspection import Inspector
from jupyter_hvd.notebook.monitor import Message
from jupyter_hvd.notebook.rank_messages import RankMessages
from jupyter_hvd.notebook.variables import compare_summaries, shown_variables, within_limit
from jupyter_hvd.ranks import notebook_rank
from jupyter_hvd.ranks.bounded_calls import BoundedCalls
from jupyter_hvd.ranks.code import is_code, packed_code, text_of_code
from jupyter_hvd.ranks.messages import READY, dump
from jupyter_hvd.ranks.serialization import digest_value, is_plain
from jupyter_hvd.ranks.variables import VariableSummary, list_variables, summarize_value, text_of

OFF = threading.Event()


def hang() -> None:
    OFF.wait(60)


def broken() -> None:
    raise KeyError("planted")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., SimpleQueue[Any]]]:
    """Asks a rank's end of the messages in this process to call a function; gives a queue of its answer."""
    ended = threading.Event()
    monkeypatch.setattr(notebook_rank, "end_self", ended.set)
    kernel = RankMessages("127.0.0.1", 0, "token", lambda _: None)
    rank = notebook_rank.Requests(kernel.variables[MESSAGES_VARIABLE], "0", "token")
    rank.messages.send_data(READY)
    while not kernel.ready:
        time.sleep(0.01)

    def ask(function: Any, *args: Any) -> SimpleQueue[Any]:
        answer = SimpleQueue[Any]()
        kernel.ask(0, dump((function, *args)), answer.put)
        return answer

    yield ask
    kernel.close()
    assert ended.wait(timeout=20)  # by then nothing calls what is replaced here
    rank.messages.stop()


def test_a_question_that_hangs_holds_up_no_other(asked: Callable[..., SimpleQueue[Any]]) -> None:
    hanging = asked(hang)
    assert asked(divmod, 7, 2).get(timeout=20) == (3, 1)
    failed = asked(broken).get(timeout=20)
    assert (failed.type, failed.text) == ("KeyError", "'planted'")
    assert hanging.empty()
    OFF.set()


def test_what_a_rank_prints_is_kept_as_a_terminal_shows_it() -> None:
    text = RankText()
    for piece in ("one\ntw", "o\r\n", "10 %\r20 %\r", "30 %\n", "\n", "x" * 20_000):
        text.add_text(piece)
    assert text.lines[:3] == ["one", "two", "30 %"]
    assert len(text.lines[3]) == 10_001
    text.add_text("\n".join(map(str, range(5000))))
    assert len(text.lines) == KEPT
    assert text.lines[-1] == "4999"


def test_what_one_stream_prints_does_not_break_a_line_of_the_other() -> None:
    text = RankText()
    for piece, stream in (("line 1", "stdout"), ("warned\n", "stderr"), ("265\n", "stdout")):
        text.add_text(piece, stream)
    assert text.lines == ["warned", "line 1265"]


REPORT = StallReport(
    "no progress for 9 s:",
    [("rank", "at"), ("0", "In[1], line 2"), ("1", "<stdin>")],
    ["Rank 0 waits for rank 1."],
)


def test_a_stall_is_shown_as_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, str]] = []
    monkeypatch.setattr(CellOutput, "_publish_data", lambda _, data, __: shown.append(data))
    screen = CellOutput(SimpleNamespace(), lambda _: REPORT, cell=3)
    screen.show_output(Stall((), {}))
    [data] = shown
    assert data["text/plain"].splitlines()[:4] == [
        "no progress for 9 s:",
        "rank  at",
        "0     In[1], line 2",
        "1     <stdin>",
    ]
    assert "<tr><td>1</td><td>&lt;stdin&gt;</td></tr>" in data["text/html"]


def test_the_output_of_every_rank_is_kept_whatever_the_notebook_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[Any] = []
    monkeypatch.setattr(CellOutput, "_publish_data", lambda _, data, __: shown.append(data))
    screen = CellOutput(SimpleNamespace(), lambda _: REPORT, shows_others=False, cell=3)
    for rank in (0, 1):
        screen.show_output(Message(rank, "stream", {"name": "stdout", "text": f"from {rank}\n"}))
    screen.show_output(Message(1, "stream", {"name": "stdout", "text": "more\n"}))
    assert [screen.texts[rank].lines for rank in (0, 1)] == [["from 0"], ["from 1", "more"]]
    screen.show_output(Message(1, "clear_output", {}))
    assert not screen.has_ended
    screen.show_rest()
    assert (sorted(screen.texts), screen.has_ended, shown) == ([0], True, [])


def test_an_instance_of_a_class_of_the_notebooks_is_not_plain() -> None:
    """No other process can read it before it has the class; the answer that held one was lost, and the ranks with it."""
    own = {"__module__": "__main__"}
    assert is_plain({"a": 1})
    assert not is_plain(type("Odd", (dict,), own)(a=1))
    assert not is_plain([type("Text", (str,), own)("a")])
    color = enum.IntEnum("Color", "RED GREEN")  # type: ignore[misc]
    color.__module__ = "__main__"
    assert not is_plain(color.RED)  # type: ignore[attr-defined]


def made(source: str) -> Any:
    """What a cell binds last."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "<cell>", "exec"), namespace)
    return [*namespace.values()][-1]


def test_functions_and_classes_are_compared_by_what_they_do() -> None:
    twice = "def f(a, factor=2):\n    return {'b', 'c', 'd'} - {a * factor}"
    one, same = made(twice), made(f"\n\n{twice}")
    assert is_code(one)
    assert not is_code(np.zeros)
    assert text_of_code(one) == "function f(a, factor)"
    assert digest_value(packed_code(one)) == digest_value(packed_code(same))
    for other in (twice.replace("*", "+"), twice.replace("2", "3"), twice.replace("'d'", "'e'")):
        assert digest_value(packed_code(made(other))) != digest_value(packed_code(one))
    first, second = (made(f"class C:\n    def g(self):\n        return {k}") for k in (1, 2))
    assert digest_value(packed_code(first)) != digest_value(packed_code(second))
    assert text_of_code(first) == "class C"


def test_what_a_cell_defines_is_listed_in_the_background() -> None:
    namespace = {
        "f": made("def f(): pass"),
        "x": 1,
        "zeros": np.zeros,
        "np": np,
        "thread": time.sleep,
    }
    rows = {str(row.path): row.in_background for row in list_variables(namespace, {}, [])}
    assert rows == {"f": True, "x": False}
    assert [row.in_background for row in list_variables(namespace, {}, ["f"])] == [False]
    told = {
        rank: {"f": summarize_value(namespace["f"], None, in_background=True)} for rank in (0, 1)
    }
    assert compare_summaries(told) == []


def test_no_code_of_the_users_runs_beside_a_cell() -> None:
    class Loud:
        def __repr__(self) -> str:
            raise AssertionError

    loud = Loud()
    assert text_of(loud, None) == "Loud"
    assert text_of([1, loud, {"a": loud}], None) == "[1, Loud, {'a': Loud}]"
    assert text_of(np.float32(1.5), None) == "float32: 1.5"
    assert summarize_value([0] * 200_000, None).digest is None
    assert summarize_value([0] * 200_000, BoundedCalls()).digest is not None


def test_equal_values_with_other_digests_are_one_group() -> None:
    from jupyter_hvd.ranks.serialization import SerializedValue

    told = {rank: {"s": VariableSummary("a set", digest=rank + 1, size=1)} for rank in (0, 1, 2)}
    sets = [{"a", "b"}, {"b", "a"}, {"a"}]
    values = {rank: {"s": SerializedValue("plain", sets[rank])} for rank in (0, 1, 2)}
    (shown,) = shown_variables(compare_summaries(told), values)
    assert [group.ranks for group in shown.groups] == [(0, 1), (2,)]
    assert shown.groups[1].note == "differs from rank 0: has no 'b'"


def test_secrets_are_compared_and_not_fetched() -> None:
    secret = VariableSummary("set", 1, 5, is_secret=True)
    told = {0: {"os.environ['A']": secret}, 1: {}}
    (found,) = compare_summaries(
        {**told, 2: {"os.environ['A']": VariableSummary("set", 2, 5, is_secret=True)}}
    )
    assert not found.is_replicated
    assert not found.is_fetched


def test_no_more_is_fetched_than_the_limit() -> None:
    def variable(name: str, size: int) -> Any:
        told = {rank: {name: VariableSummary(name, rank + 1, size)} for rank in (0, 1)}
        return compare_summaries(told)[0]

    sizes = {"large": 30 * 2**20, "small": 8, "half": 20 * 2**20}
    found = within_limit([variable(*each) for each in sizes.items()])
    assert [each.name for each in found] == ["small", "half"]


class Ranks:
    """Two ranks, of which the second does not answer."""

    size, ready = 2, True

    def ask_ranks(self, function: Any, *_: Any, **__: Any) -> dict[int, Any]:
        place = {"cell": ["<In[3]#1>", 2], "inside": "x", "cpu": 0.0, "time": time.monotonic()}
        return {
            0: {"device": "CPU", "memory": 5, **place} if function.__name__ == "panel_state" else {}
        }

    def rank_report(self, rank: int) -> dict[str, Any]:
        return {"pid": 10 + rank, "host": "here"}

    def find_lost(self, ranks: list[int]) -> tuple[int, str] | None:
        return None


def test_a_rank_that_does_not_answer_holds_up_no_other() -> None:
    from jupyter_hvd.ranks.sent_cells import SentCell

    cells = {"<In[3]#1>": SentCell(3, "%%distribute\nstep()", "%%distribute\nstep()")}
    seen = Inspector().panel_state(Ranks(), cells, None)  # type: ignore[arg-type]
    assert [(row["line"], row["text"], row["does"]) for row in seen["ranks"]] == [
        ("In[3], line 2", "step()", "computes"),
        ("", "", "does not answer"),
    ]
    assert (seen["silent"], seen["running"], seen["variables"]) == ([1], False, [])
