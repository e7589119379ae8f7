"""What prints, draws or writes files: the calls that one rank should make for all."""

from __future__ import annotations

import re

import libcst as cst

from .values import Kind, Roles, argument, method

PRINTING = (
    "builtins.print",
    "tensorflow.print",
    "pprint.pprint",
    "IPython.display.display",
    "matplotlib.pyplot.show",
)
WRITING = (
    "matplotlib.pyplot.savefig",
    "matplotlib.pyplot.imsave",
    "numpy.save",
    "numpy.savez",
    "numpy.savez_compressed",
    "numpy.savetxt",
    "pickle.dump",
    "joblib.dump",
    "json.dump",
    "tensorflow.saved_model.save",
    "tensorflow.keras.models.save_model",
    "tensorflow.keras.utils.plot_model",
    "tensorflow.keras.utils.save_img",
    "tensorflow.keras.preprocessing.image.save_img",
    "tensorflow.io.write_file",
)
#: Methods that write, by what they are called on.
WRITING_METHODS = {
    Kind.MODEL: frozenset({"save", "save_weights", "export", "summary"}),
    Kind.CHECKPOINT: frozenset({"save", "write"}),
    Kind.CHECKPOINT_MANAGER: frozenset({"save"}),
}
#: Methods that write whatever they are called on.
ALWAYS_WRITING = frozenset(
    {
        "savefig",
        "to_csv",
        "to_json",
        "to_excel",
        "to_pickle",
        "to_parquet",
        "write_text",
        "write_bytes",
    }
)


#: What opens a file, and the place of the mode among its arguments.
OPENING = {"builtins.open": 1, "io.open": 1, "gzip.open": 1, "tensorflow.io.gfile.GFile": 1}


def opens_for(roles: Roles, call: cst.Call) -> str | None:
    """The mode in which a call opens a file, None where it opens none or the mode cannot be seen."""
    position = OPENING.get(roles.qualified(call.func))
    if position is None:
        own = method(call) == "open" and not roles.qualified(call.func)
        given = call.args[0].value if own and call.args else None
        shown = given.evaluated_value if isinstance(given, cst.SimpleString) else None
        return shown if isinstance(shown, str) and re.fullmatch("[wax][bt+]*", shown) else None
    mode = argument(call, "mode", position)
    if mode is None:
        return "r"
    return str(mode.value.evaluated_value) if isinstance(mode.value, cst.SimpleString) else None


def prints(roles: Roles, call: cst.Call) -> bool:
    """Whether a call prints or shows something."""
    return roles.qualified(call.func) in PRINTING


def writes(roles: Roles, call: cst.Call) -> bool:
    """Whether a call writes a file, or prints as `summary` does."""
    if roles.qualified(call.func) in WRITING:
        return True
    if not isinstance(call.func, cst.Attribute):
        return False
    name = method(call)
    if name in ALWAYS_WRITING:
        return bool(call.args)
    return any(name in WRITING_METHODS.get(kind, ()) for kind in roles.kinds(call.func.value))
