"""Every request is answered, however the two sides' threads happen to run."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.long]

#: Rank 0 answers while the thread that sends and receives is held up before it asks rank 1.
HELD_UP = """
import time
from jupyter_hvd.rank import remote

ranks = get_ipython().magics_manager.registry['HvdMagics'].session.ranks
call = ranks._call

def held_up(rank, *request):
    if rank == 1:
        ranks._client._io_loop.add_callback(time.sleep, 0.05)
    return call(rank, *request)

ranks._call = held_up
runs = [ranks.run(remote.where) for _ in range(10)]
ranks._call = call
print(sum(len(run.replies) == 2 for run in runs), 'answered')
"""
MANY = """
runs = [ranks.run(remote.where) for _ in range(500)]
print(sum(len(run.replies) == 2 for run in runs), 'answered')
"""


def test_an_answer_between_two_requests(notebook: Any) -> None:
    notebook.good("%%distribute -n 2\n1")
    assert notebook.good(HELD_UP).stdout == "10 answered\n"
    assert notebook.good(MANY).stdout == "500 answered\n"


#: The first request to each rank goes astray, as one does that overtakes the rank's connection to the controller.
ASTRAY = """
from ipyparallel import Client

send, sent = Client.send_apply_request, []

def astray(self, *args, ident, **kwargs):
    sent.append(ident)
    return send(self, *args, ident=ident if sent.count(ident) > 1 else b'nobody', **kwargs)

Client.send_apply_request = astray
"""


def test_a_rank_that_does_not_hear_at_first(open_notebook: Any) -> None:
    notebook = open_notebook()
    notebook.good(ASTRAY)
    result = notebook.good("%%distribute -n 2\nprint('heard')")
    assert result.stdout.count("heard") == 1
    assert notebook.good("print(len(set(sent)), len(sent) > 4)").stdout == "2 True\n"


#: The first controller ends, or passes nothing on, as where a port that it had chosen is another's by then.
ENDED = """
from jupyter_hvd.session.cluster import Cluster

launch, launched = Cluster._launch, []

def ended(self):
    launch(self)
    launched.append(self)
    if len(launched) == 1:
        self._processes[1].kill()

Cluster._launch = ended
"""
DEAF = """
from ipyparallel import Client
from jupyter_hvd.session import cluster

cluster.PATIENT, send, launched = 2, Client.send_apply_request, []

def deaf(self, *args, ident, **kwargs):
    if self not in launched:
        launched.append(self)
    return send(self, *args, ident=ident if len(launched) > 1 else b'nobody', **kwargs)

Client.send_apply_request = deaf
"""


@pytest.mark.parametrize("fault", [ENDED, DEAF], ids=["ended", "deaf"])
def test_a_controller_that_is_lost_at_the_start(open_notebook: Any, fault: str) -> None:
    notebook = open_notebook()
    notebook.good(fault)
    assert notebook.good("%%distribute -n 2\nprint('heard')").stdout.count("heard") == 1
    assert notebook.good("print(len(launched))").stdout == "2\n"
