"""What evaluating an expression does besides giving a value: printing, writing, opening files.

What might train, draw from an iterator or wait for other ranks must run on every rank; only
what is pure, for certain, may be evaluated on one.
"""

from __future__ import annotations

import re

import libcst as cst

from .flow import is_iteration
from .index import Binding
from .library import Effects, Kind
from .syntax import argument, method
from .values import ValueAnalysis

#: Python's own library, and what most programs use beside it.
PYTHON = Effects(
    listed=("builtins.",),
    pure=(
        *("numpy.", "time.", "datetime.", "math.", "os.path.", "sklearn.metrics.", "scipy."),
        *("pathlib.", "pandas.DataFrame", "pandas.Series", "PIL.Image.", "cv2.cvtColor"),
    ),
    impure=(
        "numpy.random.",
        "scipy.io.",
        *(f"numpy.{name}" for name in "copyto fill_diagonal place putmask".split()),
    ),
    printing=frozenset(
        {
            "builtins.print",
            "pprint.pprint",
            "IPython.display.display",
            "matplotlib.pyplot.show",
        }
    ),
    writing=frozenset(
        {
            "google.colab.files.download",  # into the browser
            "matplotlib.pyplot.savefig",
            "matplotlib.pyplot.imsave",
            "numpy.save",
            "numpy.savez",
            "numpy.savez_compressed",
            "numpy.savetxt",
            "pickle.dump",
            "joblib.dump",
            "json.dump",
        }
    ),
    opening={
        **dict.fromkeys(("builtins.open", "io.open", "gzip.open", "bz2.open", "lzma.open"), 1),
        **dict.fromkeys(("zipfile.ZipFile", "tarfile.open", "h5py.File"), 1),
    },
    changing=frozenset(
        {
            *(f"os.{name}" for name in "mkdir makedirs remove unlink rmdir removedirs".split()),
            *(f"os.{name}" for name in "rename renames replace link symlink system".split()),
            *(f"shutil.{name}" for name in "rmtree move copy copy2 copyfile copytree".split()),
            *(f"shutil.{name}" for name in "make_archive unpack_archive".split()),
            *(f"subprocess.{name}" for name in "run call check_call check_output".split()),
            "urllib.request.urlretrieve",
            "wget.download",
            "gdown.download",
        }
    ),
    asking=frozenset(
        {
            *(f"os.path.{name}" for name in "exists isdir isfile islink lexists getsize".split()),
            *("os.listdir", "os.scandir", "os.walk", "os.stat", "os.access"),
            *("glob.glob", "glob.iglob"),
        }
    ),
    reading=frozenset(
        {
            *(f"numpy.{name}" for name in "load loadtxt genfromtxt fromfile memmap".split()),
            *("joblib.load", "scipy.io.loadmat", "scipy.io.wavfile.read", "scipy.sparse.load_npz"),
            *("PIL.Image.open", "cv2.imread", "cv2.VideoCapture", "skimage.io.imread"),
            *("matplotlib.pyplot.imread", "matplotlib.image.imread"),
            *("imageio.imread", "imageio.v2.imread", "imageio.v3.imread"),
            *("librosa.load", "soundfile.read"),
        }
    ),
)
#: Methods that change files whatever they are called on, where it is nothing of a library that is known for others.
_ALWAYS_CHANGING = frozenset("extractall mkdir rmdir unlink symlink_to hardlink_to".split())
#: Of `pathlib.Path` alone: other things have methods of these names.
_PATH_CHANGING = frozenset({"rename", "replace", "touch"})
#: Of archives alone.
_ARCHIVES = frozenset(
    {"zipfile.ZipFile", "tarfile.open", "tarfile.TarFile", "tarfile.TarFile.open"}
)
#: Methods that write whatever they are called on.
_ALWAYS_WRITING = frozenset("savefig write_text write_bytes tofile".split()) | {
    f"to_{form}"
    for form in "csv json excel pickle parquet feather hdf stata orc html latex markdown xml netcdf zarr".split()
}
#: Functions of any library that write what they are given, by their names: `imwrite`, `mimsave`, `savemat`, `write_png`, `dump`.
_WRITING_FUNCTION = re.compile(r"(im|mim|vol|mvol)?(save|write|dump)(?![rs]$)\w*")
#: Methods of anything that is not the program's own, by their names, where they are given a file's name.
_WRITING_METHOD = re.compile(r"save\w*|(write|export|dump)_\w+|export|dump")
_PURE_BUILTINS = frozenset(
    "abs all any bool callable chr complex dict dir divmod enumerate float format frozenset "
    " getattr hasattr hash hex id int isinstance issubclass len list map max min oct ord pow "
    " range repr reversed round set slice sorted str sum tuple type vars zip".split()
)
_PURE_METHODS = frozenset(
    "any all argmax argmin as_list astype capitalize copy count count_params cpu decode endswith "
    " eval flatten format get get_config get_weights index isoformat item items join keys lower "
    " lstrip max mean min most_common numpy ravel replace reshape result round rstrip split "
    " squeeze startswith std strftime strip sum title to_string tolist total_seconds upper "
    " values var zfill head tail describe transpose".split()
)


def is_pure(
    values: ValueAnalysis, expression: cst.CSTNode, inside: frozenset[cst.CSTNode] = frozenset()
) -> bool:
    """Whether evaluating the expression changes nothing and waits for nobody, for certain.

    Args:
        inside: the functions of the program that are being looked at already.
    """
    pending: list[cst.CSTNode] = [expression]
    while pending:
        node = pending.pop()
        if isinstance(node, (cst.Await, cst.Yield, cst.NamedExpr)):
            return False
        if isinstance(node, cst.Call) and not _is_pure_call(values, node, inside):
            return False
        if isinstance(node, cst.CompFor) and _is_collection(values, node.iter):
            return False
        pending.extend(node.children)
    return True


def _is_pure_function(
    values: ValueAnalysis, function: cst.CSTNode | None, inside: frozenset[cst.CSTNode]
) -> bool:
    """Whether a function of the program changes nothing but variables of its own, and waits for nobody, for certain."""
    if function in inside:
        return True  # as far as the rest of it is
    match function:
        case cst.Lambda(body=body):
            return is_pure(values, body, inside | {function})
        case cst.FunctionDef(decorators=[], asynchronous=None, body=body):
            pure = function not in values.index.generators
            return pure and _changes_its_own(values, body, inside | {function})
    return False


def _changes_its_own(
    values: ValueAnalysis, body: cst.CSTNode, inside: frozenset[cst.CSTNode]
) -> bool:
    """Whether the statements of a function are pure, but for what they bind to its own names."""
    pending: list[cst.CSTNode] = [body]
    while pending:
        node = pending.pop()
        match node:
            case (
                cst.Await()
                | cst.Yield()
                | cst.Global()
                | cst.Nonlocal()
                | cst.Del()
                | cst.ClassDef()
                | cst.FunctionDef()
            ):
                return False
            case cst.AssignTarget(target=target) | cst.AnnAssign(target=target):
                if not _binds_own(values, target):
                    return False
            case cst.AugAssign(target=target):
                if not _is_own(values, target, _IMMUTABLE):
                    return False
            case cst.For(iter=iterable) | cst.CompFor(iter=iterable):
                if not _stays(values, iterable):
                    return False
            case cst.Call(func=cst.Attribute(value=filled, attr=cst.Name("append" | "extend"))):
                if not _is_own(values, filled, (cst.List, cst.ListComp)):
                    return False
            case cst.Call():
                touches = writes(values, node) or changes_files(values, node)
                if touches or opens_for(values, node) or not _is_pure_call(values, node, inside):
                    return False
        pending.extend(node.children)
    return True


_IMMUTABLE = (cst.Integer, cst.Float, cst.SimpleString, cst.FormattedString)


def _binds_own(values: ValueAnalysis, target: cst.BaseExpression) -> bool:
    """Whether what is assigned to is names, or elements of what the function has made by itself."""
    match target:
        case cst.Name():
            return True
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            return all(_binds_own(values, element.value) for element in elements)
        case cst.Subscript(value=whole):
            return _is_own(values, whole, (cst.List, cst.ListComp, cst.Dict, cst.DictComp))
    return False


def _is_own(
    values: ValueAnalysis, expression: cst.BaseExpression, made: tuple[type[cst.CSTNode], ...]
) -> bool:
    """Whether a name holds nothing but what is made where it is bound, by expressions of these kinds."""
    if not isinstance(expression, cst.Name):
        return False
    found = values.definitions.of(expression)
    function = values.module.function_of(expression)
    return bool(found) and all(
        isinstance(binding, Binding)
        and binding.place is not None
        and values.module.function_of(binding.place) is function
        and (binding.adds or (not binding.path and isinstance(binding.value, made)))
        for binding in found
    )


def _stays(values: ValueAnalysis, iterable: cst.BaseExpression) -> bool:
    """Whether going through an iterable leaves it as it was: it is no iterator, and no library's collection."""
    if isinstance(iterable, cst.Call) and is_iteration(values.qualified(iterable.func)):
        return all(_stays(values, arg.value) for arg in iterable.args)
    kinds = values.kinds(iterable)
    moves = bool(kinds & {Kind.UNKNOWN, Kind.GENERATOR}) or _is_collection(values, iterable)
    return bool(kinds) and not moves


#: What looks at a collection, and goes through none of its elements.
_LOOKING = frozenset({"builtins.len", "builtins.print", "builtins.type", "builtins.isinstance"})


def _is_collection(values: ValueAnalysis, expression: cst.BaseExpression) -> bool:
    """Whether an expression may be a library's collection: who goes through it moves its next order on."""
    return any(map(values.library.is_collection, values.kinds(expression)))


#: What `pathlib.Path` makes names of, in methods that nothing else has.
_PATH_NAMES = frozenset(
    "with_name with_suffix with_stem joinpath expanduser absolute relative_to as_posix".split()
)
#: What makes one image of another.
_IMAGE_METHODS = frozenset("convert copy crop resize rotate transpose".split())


def _is_pure_call(
    values: ValueAnalysis, call: cst.Call, inside: frozenset[cst.CSTNode] = frozenset()
) -> bool:
    name, effects = values.qualified(call.func), values.library.effects
    if name not in _LOOKING and any(_is_collection(values, arg.value) for arg in call.args):
        return False
    if name.startswith("builtins."):
        return name.removeprefix("builtins.") in _PURE_BUILTINS
    if name:
        return name.startswith(effects.pure) and not name.startswith(effects.impure)
    if _pure_methods(values, call.func) is not None:
        return True  # what is pure to call itself
    callees = values.of(call.func)
    if callees and all(callee.kind is Kind.FUNCTION for callee in callees):
        return all(_is_pure_function(values, callee.node, inside) for callee in callees)
    if not isinstance(call.func, cst.Attribute):
        return False
    known = _pure_methods(values, call.func.value)
    if known is not None:
        return method(call) in _PURE_METHODS | known
    if method(call) in _PURE_METHODS | _PATH_NAMES:
        return Kind.INSTANCE not in values.kinds(call.func.value)
    return method(call) in _IMAGE_METHODS and _is_image(values, call.func.value)


def _pure_methods(values: ValueAnalysis, receiver: cst.BaseExpression) -> frozenset[str] | None:
    """The pure methods of what is of one kind for certain, a kind whose values are pure to call."""
    kinds = values.kinds(receiver)
    return values.library.effects.pure_methods.get(next(iter(kinds))) if len(kinds) == 1 else None


def opens_for(values: ValueAnalysis, call: cst.Call) -> str | None:
    """The mode in which a call opens a file, None where it opens none or the mode cannot be seen."""
    name = values.qualified(call.func)
    if name in values.library.effects.opening_to_write:
        return "w"
    position = values.library.effects.opening.get(name)
    if position is None:
        own = method(call) == "open" and not name
        given = call.args[0].value if own and call.args else None
        shown = given.evaluated_value if isinstance(given, cst.SimpleString) else None
        return shown if isinstance(shown, str) and re.fullmatch("[wax][bt+]*", shown) else None
    mode = argument(call, "mode", position)
    if mode is None:
        return "r"
    if not isinstance(mode.value, cst.SimpleString):
        return None
    return re.split("[:|]", str(mode.value.evaluated_value))[0]  # `w:gz` of an archive


def names_file(values: ValueAnalysis, expression: cst.BaseExpression) -> bool:
    """Whether an expression seems to be the name of a file: a string, or what is made of strings."""
    pending: list[cst.CSTNode] = [expression]
    seen: set[cst.CSTNode] = set()  # `total = total + loss` is made of itself
    while pending:
        for value in values.of(pending.pop()):
            node = value.node
            if value.name in ("os.path.join", "pathlib.Path", "builtins.str"):
                return True
            if isinstance(node, (cst.SimpleString, cst.FormattedString, cst.ConcatenatedString)):
                return True
            if isinstance(node, cst.Call) and method(node) in _MAKING_NAMES:
                return True
            if isinstance(node, cst.BinaryOperation) and node not in seen:
                seen.add(node)
                pending += (node.left, node.right)
    return False


#: Methods of strings and paths that give a name.
_MAKING_NAMES = frozenset("format joinpath with_suffix with_name".split())


def changes_files(values: ValueAnalysis, call: cst.Call) -> bool:
    """Whether a call creates, removes, renames or unpacks files, downloads, or runs another program.

    Making a folder that may exist already is the same however many do it.
    """
    allowed = argument(call, "exist_ok", 2 if method(call) != "mkdir" else None)
    if (
        allowed is not None
        and isinstance(allowed.value, cst.Name)
        and allowed.value.value == "True"
    ):
        return False
    if values.qualified(call.func) in values.library.effects.changing:
        return True
    if not isinstance(call.func, cst.Attribute) or values.qualified(call.func):
        return False
    name = method(call)
    if name in _ALWAYS_CHANGING:
        return True
    made = {value.name for value in values.of(call.func.value)}
    if name == "extract":
        return bool(made) and made <= _ARCHIVES
    return name in _PATH_CHANGING and made == {"pathlib.Path"}


def prints(values: ValueAnalysis, call: cst.Call) -> bool:
    """Whether a call prints or shows something."""
    return values.qualified(call.func) in values.library.effects.printing


def writes(values: ValueAnalysis, call: cst.Call) -> bool:
    """Whether a call writes a file, or prints as `summary` does.

    What is not known by its name is known by what names of its kind mean: functions of a library that stand alone or are given
    a file's name, and methods, of what is not the program's own, that are given one.
    """
    effects, library = values.library.effects, values.qualified(call.func)
    if any(_is_in_memory(values, arg.value) for arg in call.args):
        return False
    if library in effects.writing:
        return True
    if library:
        return _seems_to_write(values, call, library)
    if not isinstance(call.func, cst.Attribute):
        return False
    name, kinds = method(call), values.kinds(call.func.value)
    if any(name in effects.writing_methods.get(kind, ()) for kind in kinds):
        return True
    if values.flow.methods(call.func) or any(map(values.library.is_collection, kinds)):
        return False
    if name in _ALWAYS_WRITING or (name == "save" and _is_image(values, call.func.value)):
        return bool(call.args)
    return bool(_WRITING_METHOD.fullmatch(name)) and _is_given_name(values, call)


def _is_in_memory(values: ValueAnalysis, given: cst.BaseExpression) -> bool:
    """Whether an expression is a buffer for certain: each rank reads what it has written there itself."""
    made = values.of(given)
    return bool(made) and all(value.name in _BUFFERS for value in made)


#: What has a file's methods, and is none.
_BUFFERS = frozenset({"io.BytesIO", "io.StringIO"})


def _is_image(values: ValueAnalysis, image: cst.BaseExpression) -> bool:
    """Whether a library of images has made this, whatever the name is under which it is saved."""
    while isinstance(image, cst.Call) and isinstance(image.func, cst.Attribute):
        if values.qualified(image.func):
            break
        image = image.func.value  # `Image.open(path).resize(size)`
    made = [value.name for value in values.of(image)]
    return any(name.startswith("PIL.") or "array_to_img" in name for name in made)


def _seems_to_write(values: ValueAnalysis, call: cst.Call, name: str) -> bool:
    """Whether a function of a library writes what it is given, to judge by its name."""
    last = name.rpartition(".")[2]
    if name.startswith(values.library.effects.listed):
        return False
    if not call.args or not _WRITING_FUNCTION.fullmatch(last):
        return False
    return isinstance(values.module.parent(call), cst.Expr) or _is_given_name(values, call)


def _is_given_name(values: ValueAnalysis, call: cst.Call) -> bool:
    return any(not arg.star and names_file(values, arg.value) for arg in call.args)
