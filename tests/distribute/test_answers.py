"""Every request is answered, however the two sides' threads happen to run."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from jupyter_hvd.launch.addresses import PORTS_NEEDED, ports_to_keep

pytestmark = pytest.mark.slow

#: Rank 0 answers while the thread that sends and receives is held up before it asks rank 1.
HELD_UP = """
import time
from jupyter_hvd.ranks import remote

ranks = get_ipython().magics_manager.registry['HvdMagics'].session.ranks
call = ranks._send_call

def held_up(rank, *request):
    if rank == 1:
        ranks._client._io_loop.add_callback(time.sleep, 0.05)
    return call(rank, *request)

ranks._send_call = held_up
runs = [ranks.run(remote.status_row) for _ in range(10)]
ranks._send_call = call
print(sum(len(run.replies) == 2 for run in runs), 'answered')
"""
MANY = """
runs = [ranks.run(remote.status_row) for _ in range(500)]
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


@pytest.mark.long
def test_a_rank_that_does_not_hear_at_first(open_notebook: Any) -> None:
    notebook = open_notebook()
    notebook.good(ASTRAY)
    result = notebook.good("%%distribute -n 2\nprint('heard')")
    assert result.stdout.count("heard") == 1
    assert notebook.good("print(len(set(sent)), len(sent) > 4)").stdout == "2 True\n"


#: The first controller ends, or passes nothing on, as where a port that it had chosen is another's by then.
ENDED = """
from jupyter_hvd.notebook.cluster import Cluster

launch, launched = Cluster._launch_ranks, []

def ended(self):
    launch(self)
    launched.append(self)
    if len(launched) == 1:
        self._processes[1].kill()

Cluster._launch_ranks = ended
"""
DEAF = """
from ipyparallel import Client
from jupyter_hvd.notebook import cluster

cluster.PATIENT, send, launched = 2, Client.send_apply_request, []

def deaf(self, *args, ident, **kwargs):
    if self not in launched:
        launched.append(self)
    return send(self, *args, ident=ident if len(launched) > 1 else b'nobody', **kwargs)

Client.send_apply_request = deaf
"""
#: The ranks' output is lost, their answers are not: each goes by a port of its own.
DUMB = """
from ipyparallel import Client
from jupyter_hvd.notebook import cluster

cluster.PATIENT, dispatch, launched = 2, Client._dispatch_iopub, []

def dumb(self, message):
    if self not in launched:
        launched.append(self)
    if len(launched) > 1:
        return dispatch(self, message)

Client._dispatch_iopub = dumb
"""


@pytest.mark.parametrize("fault", [ENDED, DEAF, DUMB], ids=["ended", "deaf", "dumb"])
@pytest.mark.long
def test_a_controller_that_is_lost_at_the_start(open_notebook: Any, fault: str) -> None:
    notebook = open_notebook()
    notebook.good(fault)
    assert notebook.good("%%distribute -n 2\nprint('heard')").stdout.count("heard") == 1
    assert notebook.good("print(len(launched))").stdout == "2\n"


LOST_LATER = """
from ipyparallel import Client
from jupyter_hvd.notebook import cluster

cluster.LAST_PRINTED, dispatch, lost = 1, Client._dispatch_iopub, False
Client._dispatch_iopub = lambda self, message: None if lost else dispatch(self, message)
"""


@pytest.mark.long
def test_output_that_does_not_come_is_told(open_notebook: Any) -> None:
    notebook = open_notebook()
    notebook.good(LOST_LATER)
    assert "first" in notebook.good("%%distribute -n 2\nprint('first')").stdout
    result = notebook.good(
        "lost = True\nget_ipython().run_cell_magic('distribute', '', 'print(\"later\")')"
    )
    assert "has not all come through" in result.stream("stderr")
    assert "later" not in result.text


@pytest.mark.long
def test_ports_that_no_other_program_is_given() -> None:
    """Another that asks for any port, as Horovod, Jupyter and ipyparallel do, gets none of them before they are listened on."""
    ports = ports_to_keep("127.0.0.1")
    assert len(set(ports)) == PORTS_NEEDED
    others = [socket.create_server(("127.0.0.1", 0)) for _ in range(500)]
    taken = {other.getsockname()[1] for other in others}
    for other in others:
        other.close()
    assert taken.isdisjoint(ports)
    assert max(ports) < min(taken)
