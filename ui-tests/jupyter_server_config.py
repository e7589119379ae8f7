"""A JupyterLab, with Notebook 7, of its own for the browser tests: empty folder, fixed token, no news."""

import atexit
import json
import shutil
import tempfile
from pathlib import Path

c = get_config()  # type: ignore[name-defined]  # noqa: F821

folder = Path(tempfile.mkdtemp(prefix="jupyter-hvd-ui-"))
atexit.register(shutil.rmtree, folder, ignore_errors=True)
notebooks = folder / "notebooks"
notebooks.mkdir()
settings = folder / "settings" / "@jupyterlab" / "apputils-extension"
settings.mkdir(parents=True)
(settings / "notification.jupyterlab-settings").write_text(json.dumps({"fetchNews": "false"}))

c.ServerApp.root_dir = str(notebooks)
c.ServerApp.open_browser = False
c.ServerApp.port_retries = 0
c.ServerApp.allow_root = True
c.IdentityProvider.token = "ui-tests"  # noqa: S105 — of a server that lives for the tests
c.LabApp.user_settings_dir = str(folder / "settings")
c.LabApp.workspaces_dir = str(folder / "workspaces")
c.LabApp.expose_app_in_browser = True
c.JupyterNotebookApp.expose_app_in_browser = True
c.FileContentsManager.delete_to_trash = False
c.FileContentsManager.always_delete_dir = True  # each test's files go with their folders
# Of jupyter-collaboration, where it is installed.
c.SQLiteYStore.db_path = str(folder / "ystore.db")
