"""The Jupyter server's extension: its routes, the processes that convert and verify for it, and tools for assistants."""

from __future__ import annotations

from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    """Return the module that is the server extension; called by Jupyter Server."""
    return [{"module": "jupyter_hvd.server"}]


def _load_jupyter_server_extension(server_app: Any) -> None:
    """Add the routes to the server; called by Jupyter Server."""
    from .routes import add_routes

    add_routes(server_app)
