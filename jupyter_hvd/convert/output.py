"""What prints, draws or writes files: the calls that one rank should make for all."""

from __future__ import annotations

import libcst as cst

from .roles import Kind, Roles, method

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
ALWAYS_WRITING = frozenset({"savefig", "to_csv", "to_json", "to_excel", "to_pickle", "to_parquet"})


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
