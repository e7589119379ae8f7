"""The Jupyter server's extension: its routes, the processes that convert and verify for it, and tools for assistants."""

from __future__ import annotations

from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "jupyter_hvd.server"}]


def _load_jupyter_server_extension(server_app: Any) -> None:
    from .routes import add_routes

    add_routes(server_app)
