"""Every request is answered, however the two sides' threads happen to run."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.slow

#: Rank 0 answers while the thread that sends and receives is held up before it asks rank 1.
HELD_UP = """
import time
from jupyter_hvd.ranks import remote

ranks = get_ipython().magics_manager.registry['HvdMagics'].session.held.cluster
messages = ranks._messages
call = messages.call

def held_up(rank, *request):
    if rank == 1:
        messages._messages.io_loop.add_callback(time.sleep, 0.05)
    return call(rank, *request)

messages.call = held_up
runs = [ranks.run(remote.status_row) for _ in range(10)]
messages.call = call
print(sum(len(run.replies) == 2 for run in runs), 'answered')
"""
MANY = """
runs = [ranks.run(remote.status_row) for _ in range(500)]
print(sum(len(run.replies) == 2 for run in runs), 'answered')
"""


@pytest.mark.long
def test_an_answer_between_two_requests(notebook: Any) -> None:
    notebook.good("%%distribute -n 2\n1")
    assert notebook.good(HELD_UP).stdout == "10 answered\n"
    assert notebook.good(MANY).stdout == "500 answered\n"


#: The rank prints much, in pieces, just before it answers.
FLOOD = """%%distribute
for k in range(20_000):
    print(k, flush=k % 1000 == 0)
"""


def test_output_precedes_the_answer(notebook: Any) -> None:
    printed = notebook.good(FLOOD).stdout
    assert printed.split() == [str(k) for k in range(20_000)]
    assert "19999" not in notebook.good("%%distribute\nprint('next')").stdout


#: The answer names a class that the kernel does not have.
UNREADABLE = """
from jupyter_hvd.notebook.rank_messages import RankMessages, _read_answer
from jupyter_hvd.ranks import messages
answer = {"buffers": [b"cno_such_module\\nthing\\n."]}
print(_read_answer(answer).type)
"""


def test_an_answer_that_cannot_be_read_is_an_error(notebook: Any) -> None:
    assert notebook.good(UNREADABLE).stdout == "ModuleNotFoundError\n"
