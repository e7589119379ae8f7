"""Every route asks for authentication: in the words of Jupyter Server, and when asked without a token."""

from __future__ import annotations

import warnings

import pytest
from jupyter_server.base.handlers import APIHandler
from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import JupyterServerAuthWarning
from tornado.httpclient import HTTPClientError

from jupyter_hvd.server import routes as server

pytestmark = pytest.mark.usefixtures("jp_environ")

#: A verb that a handler does not override has tornado's method.
VERBS = [
    (verb.upper(), route)
    for route, handler in server.ROUTES.items()
    for verb in ("get", "head", "post", "put", "patch", "delete")
    if getattr(handler, verb) is not getattr(APIHandler, verb)
]


def warnings_at_start() -> list[str]:
    """What a server says that allows nothing without authentication, and loads this extension only."""
    app = ServerApp(
        allow_unauthenticated_access=False,
        jpserver_extensions={"jupyter_hvd.server": True},
        reraise_server_extension_failures=True,
    )
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        app.initialize(argv=[], find_extensions=False, new_httpserver=False)
    return [str(r.message) for r in records if issubclass(r.category, JupyterServerAuthWarning)]


def test_every_verb_is_decorated():
    assert warnings_at_start() == []


def test_a_missing_decorator_is_found(monkeypatch):
    class Open(server.Handler):
        async def get(self) -> None: ...

    monkeypatch.setitem(server.ROUTES, "open", Open)
    assert any("Open" in text for text in warnings_at_start())


def test_all_routes_are_listed():
    assert {route for _, route in VERBS} == set(server.ROUTES)


@pytest.mark.parametrize(("verb", "route"), VERBS)
@pytest.mark.parametrize("token", ["", "token wrong"])
async def test_without_the_token_all_is_forbidden(jp_fetch, verb, route, token):
    body = "{}" if verb in ("POST", "PUT", "PATCH") else None
    with pytest.raises(HTTPClientError) as error:
        await jp_fetch(
            *("jupyter-hvd", route), method=verb, body=body, headers={"Authorization": token}
        )
    assert error.value.code == 403
