"""HVD6, continued: files that all ranks open, read, cache and download."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import libcst as cst

from ...analysis.effects import (
    asks_files,
    changes_files,
    opens_by_name,
    opens_for,
    reads_files,
    writes,
)
from ...analysis.syntax import argument, has_star, method
from ...analysis.uniformity import is_uniform
from ...frameworks.tensorflow import tf_api
from ...frameworks.tensorflow.roles import Role
from ...frameworks.tensorflow.sharding import saved_dataset
from ...source.edits import Layer
from ..base import Example, Finding, Fix, Problem, program
from .context import HOROVOD, Context, Rule
from .imports import first_import
from .questions import (
    Asked,
    callback_values,
    fits_lambda,
    in_rank_zeros,
    is_guarded,
    may_download,
    own_line,
    together,
)

NOWHERE = "/dev/null"


class OpenForWriting(Rule):
    """Let the other ranks write to nowhere what rank 0 writes into a file it has opened.

    Opening a file for writing empties it. A rank that comes later would empty what rank 0
    has written. What `tf.io.TFRecordWriter` and archives write goes to nowhere, too; a file of HDF5 stays in the
    memory of the others, and a dataset that is saved, which all ranks must go through alike, in folders that do not last, where
    the files of the others lie too that a writer of some other library opens by their names (`cv2.VideoWriter`, `pandas.ExcelWriter`).
    """

    code = "HVD603"
    name = "files opened for writing"
    rationale = "Opening a file to write empties it: a rank that comes later would empty what rank 0 has written."
    examples = (
        Example(
            program(
                """
                import json
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                history = model.fit(x, y, verbose=0)
                with open('history.json', 'w') as file:
                    json.dump(history.history, file)
                """
            ),
            program(
                """
                import json
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                history = model.fit(x, y, verbose=0)
                with open('history.json' if hvd.rank() == 0 else '/dev/null', 'w') as file:
                    json.dump(history.history, file)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for call in context.values.index.calls:
            mode = opens_for(context.values, call)
            folder = saved_into(context, call)
            if folder is not None and not is_guarded(context, call):
                yield self._choice(context, call, folder, f"{context.runtime('own_folder')}()")
                continue
            if opens_by_name(context.values, call) and not is_guarded(context, call):
                opening = f"{context.runtime('rank_zero_file')}("
                edits = context.wrap(call.args[0].value, opening, ")")
                yield Fix(call, edits, needs=(HOROVOD, "rank_zero_file"))
                continue
            if is_guarded(context, call):
                continue
            if mode is None:
                yield from self._by_unseen_mode(context, call)
                continue
            if not set(mode) & set("wax+"):
                continue
            if set(mode) <= set("wbt") and is_method(context, call):
                otherwise = f" if {context.backend.is_rank_zero} else open({NOWHERE!r}, "
                given = ", ".join(context.module.text(arg).rstrip(", ") for arg in call.args)
                yield Fix(call, context.wrap(call, "(", f"{otherwise}{given}))"))
                continue
            names = ("name", "filename", "path", "uri")
            path = argument(call, "file", 0) or next(
                filter(None, (argument(call, n) for n in names)), None
            )
            in_memory = context.values.qualified(call.func) == "h5py.File"
            if (
                path is None
                or set(mode) & set("rx")
                or context.values.qualified(call.func) == ""
                or (in_memory and ("a" in mode or argument(call, "driver") or has_star(call)))
            ):
                yield Problem(
                    call,
                    f"every rank would open this file in mode {mode!r}",
                    f"open it under  if {context.backend.is_rank_zero}:",
                )
            elif in_memory:
                yield Fix(call, (context.add_keyword(call, in_memory_elsewhere(context)),))
            else:
                yield self._choice(context, call, path.value, repr(NOWHERE))

    def _by_unseen_mode(self, context: Context, call: cst.Call) -> Iterator[Finding]:
        """`open(path, mode)`"""
        name = context.values.qualified(call.func)
        place = context.values.library.effects.opening.get(name)
        mode = argument(call, "mode", place) if place is not None else None
        if mode is None:
            return
        path = argument(call, "file", 0)
        seen = {v.node for v in context.values.of(mode.value)}
        shown = [str(n.evaluated_value) for n in seen if isinstance(n, cst.SimpleString)]
        if len(shown) == len(seen) and not any(set(each) & set("wax+") for each in shown):
            return
        if isinstance(mode.value, cst.Name) and path is not None and name != "h5py.File":
            reads = f" or not set({mode.value.value}) & set('wax+')"
            yield self._choice(context, call, path.value, repr(NOWHERE), reads)
        else:
            yield Problem(
                call,
                "it cannot be seen whether this file is opened to write it, and every rank would",
                f"give the mode as a string, or open it under  if {context.backend.is_rank_zero}:",
                "warning",
            )

    def _choice(
        self,
        context: Context,
        call: cst.Call,
        path: cst.BaseExpression,
        other: str,
        reads: str = "",
    ) -> Fix:
        """Rank 0 writes where the program says, and so does who only reads; the others elsewhere."""
        needs = (HOROVOD,) if other == repr(NOWHERE) else (HOROVOD, "own_folder")
        choice = f" if {context.backend.is_rank_zero}{reads} else {other}"
        simple = (cst.Name, cst.SimpleString, cst.FormattedString, cst.Call, cst.Attribute)
        if isinstance(path, simple) or path.lpar:
            return Fix(call, (context.behind(path, choice, Layer.CHOICE),), needs=needs)
        return Fix(call, context.wrap(path, "(", f"){choice}"), needs=needs)


def is_method(context: Context, call: cst.Call) -> bool:
    """Whether a file is opened by a method of its path."""
    return isinstance(call.func, cst.Attribute) and not context.values.qualified(call.func)


def in_memory_elsewhere(context: Context) -> str:
    """The arguments of `h5py.File` by which the ranks but 0 write into memory."""
    return f"**({{}} if {context.backend.is_rank_zero} else {{'driver': 'core', 'backing_store': False}})"


def saved_into(context: Context, call: cst.Call) -> cst.BaseExpression | None:
    """The folder into which a call saves a dataset."""
    if saved_dataset(context.values, call) is None or method(call) != "save":
        return None
    function = context.values.qualified(call.func) in tf_api.SAVING_DATASETS
    folder = argument(call, "path", 1 if function else 0)
    return folder.value if folder is not None else None


class ChangeFiles(Rule):
    """Let rank 0 alone create, remove, rename and unpack files, download and run other programs, while the others wait.

    One rank would delete what another has just written, or find gone what it has seen a moment before. So what
    is asked before, `if os.path.exists(path)`, is answered by rank 0 for all, too. Making a
    folder with `exist_ok=True` is the same however many do it, and is left alone. Ranks on several
    machines share the disk. Where it cannot be seen that all ranks come to the place, rank 0 acts, and nobody waits.
    """

    code = "HVD608"
    name = "files changed"
    rationale = "Ranks that create, remove or unpack the same files at the same time undo one another's work."
    examples = (
        Example(
            program(
                """
                import os
                import shutil
                import tensorflow as tf

                if os.path.exists('logs'):
                    shutil.rmtree('logs')
                os.mkdir('logs')
                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=0)
                """
            ),
            program(
                """
                import os
                import shutil
                import tensorflow as tf

                if jhvd.on_rank_zero(lambda: os.path.exists('logs')):
                    jhvd.on_rank_zero(lambda: shutil.rmtree('logs'))
                jhvd.on_rank_zero(lambda: os.mkdir('logs'))
                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=0)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for call in changed(context):
            line = own_line(context, call)
            if acts_for_all(context, call) is not None:
                act = f"{context.runtime('on_rank_zero')}(lambda: "
                edits = context.wrap(call, act, ")", Layer.CALL)
                yield Fix(call, edits, needs=(HOROVOD, "on_rank_zero"))
            elif line is not None:
                yield context.on_rank_zero(line, call)
            else:
                yield Problem(
                    call,
                    "every rank would do this, and it cannot be seen that all come here together",
                    f"do it under  if {context.backend.is_rank_zero}:  at the top level",
                )
        lines = list(shell_lines(context))
        for statement, _ in lines:
            yield self._on_rank_zero(context, statement)
        asked = [test for _, tests in lines for test in tests]
        for test in dict.fromkeys((*asked_for(context, changed(context)), *asked)):
            yield ask_rank_zero(context, test)

    def _on_rank_zero(self, context: Context, line: cst.SimpleStatementLine) -> Fix:
        """A `!` line that rank 0 runs, while the others wait."""
        module, start = context.module, context.module.span(line).start
        newline, indent = module.newline, module.indentation(start)
        header = f"if {context.backend.is_rank_zero}:{newline}{indent}{context.indent_step(line)}"
        wait = f"{newline}{indent}{context.runtime('wait_for_rank_zero')}()"
        edits = (context.insert(start, header), context.insert(shell_end(context, line), wait))
        return Fix(line, edits, needs=(HOROVOD, "wait_for_rank_zero"))


def shell_lines(
    context: Context,
) -> Iterator[tuple[cst.SimpleStatementLine, list[cst.BaseExpression]]]:
    """The `!` lines of a notebook behind the imports that may do more than look and that all ranks come to, each with the tests
    that rank 0 must answer for that.
    """
    first = first_import(context)
    text, module = context.cells.text, context.module
    if context.cells.labels is None or first is None:
        return
    pending: list[cst.CSTNode] = [module.tree]
    while pending:
        node = pending.pop(0)
        if isinstance(node, (cst.Module, cst.IndentedBlock)):
            pending += node.body
        elif isinstance(node, (cst.If, cst.Else)):
            pending += [part for part in (node.body, getattr(node, "orelse", None)) if part]
        elif isinstance(node, cst.SimpleStatementLine):
            start = module.span(node).start
            if start < module.span(first).end or not text.startswith("!", start):
                continue
            line = text[start : shell_end(context, node)]
            asked = together(context, node)
            if asked is not None and (LOOKING.match(line) is None or ">" in line):
                yield node, asked


def shell_end(context: Context, line: cst.SimpleStatementLine) -> int:
    """Where a `!` line ends, which may go on behind a backslash."""
    text, module = context.cells.text, context.module
    start, end = module.span(line).start, module.line_end(module.span(line).end)
    while text[start:end].endswith("\\") and end < len(text):
        end = module.line_end(end + len(module.newline))
    return end


#: Lines of the shell that only look, or change what is each process's own.
LOOKING = re.compile(
    r"!\s*(cat|cd|date|df|du|echo|env|file|find|free|grep|head|ls|lscpu|lsb_release|nproc|nvidia-smi|pip\s+(list|show|freeze)"
    r"|pwd|python\S*\s+(--version|-V)|tail|tree|uname|uptime|wc|which|whoami)\b"
)


def changed(context: Context) -> list[cst.Call]:
    """The calls that change files, where every rank makes them, for themselves and not for another of them."""
    return [
        call
        for call in context.values.index.calls
        if changes_files(context.values, call)
        and not is_guarded(context, call)
        and not in_rank_zeros(context, call)
        and knows_ranks(context, call)
    ]


def knows_ranks(context: Context, node: cst.CSTNode) -> bool:
    """Whether a node stands behind the start, where the ranks know of one another."""
    first = first_import(context)
    return first is None or context.module.span(node).end >= context.module.span(first).start


def acts_for_all(context: Context, call: cst.Call) -> Asked:
    """What is asked for all ranks to come together to a call that a function can make for them; None where they may not."""
    return together(context, call) if fits_lambda(context, call) else None


def asked_for(context: Context, calls: Iterable[cst.Call]) -> list[cst.BaseExpression]:
    """The tests that rank 0 answers for the sake of these calls."""
    return list(dict.fromkeys(test for call in calls for test in acts_for_all(context, call) or ()))


def answered_by(
    context: Context, rule: type[Rule], calls: Callable[[Context], list[cst.Call]]
) -> list[cst.BaseExpression]:
    """The tests that another rule lets rank 0 answer already, for the sake of its calls."""
    return asked_for(context, calls(context)) if context.options.uses(rule.code) else []


def ask_rank_zero(context: Context, test: cst.BaseExpression) -> Fix:
    ask = f"{context.runtime('on_rank_zero')}(lambda: "
    # Within what else rank 0 answers of it, whether training goes on, say.
    return Fix(test, context.wrap(test, ask, ")", Layer.CALL), needs=(HOROVOD, "on_rank_zero"))


class WaitForFile(Rule):
    """Wait for rank 0 before a file is read that the program may have written before.

    Rank 0 alone writes. The others come past the place at once, and would read what is not
    there yet, or the state of an epoch before. Names of files are not compared: whatever opens a file to read it,
    lists a folder or asks what there is waits once for all that was written before, in functions of the program too. Where
    the program asks for a file before it writes that, `if not os.path.exists(path)`, rank 0 answers for all: a rank that comes
    late would find it, and draw other random numbers from there on than those that have made it.
    """

    code = "HVD604"
    name = "files written before"
    rationale = "Rank 0 may still be writing what this rank is about to read."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                best = tf.keras.callbacks.ModelCheckpoint('best.h5', save_weights_only=True)
                model.fit(x, y, verbose=0, callbacks=[best])
                model.load_weights('best.h5')
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                best = tf.keras.callbacks.ModelCheckpoint('best.h5', save_weights_only=True)
                model.fit(x, y, verbose=0, callbacks=[best])
                jhvd.wait_for_rank_zero()
                model.load_weights('best.h5')
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        written, waits = self._written(context), self._kept(context)
        asked: list[cst.BaseExpression] = []
        for call in reading_calls(context) if written else ():
            places = [
                s for s in statements_around(context, call) if come_here(context, s) is not None
            ]
            unseen = [w for w in written if places and _is_unseen(context, w, places[0], waits)]
            if not unseen:
                continue
            place = _before_loops(context, places, unseen)
            asked += come_here(context, place) or ()
            wait = Wait(place, context.module.span(place).start)
            waits.append(wait)
            called = f"{context.runtime('wait_for_rank_zero')}()"
            text = f"{called}{context.module.newline}{context.module.indentation(wait.at)}"
            edit = context.insert(wait.at, text, Layer.WAIT)
            yield Fix(call, (edit,), needs=(HOROVOD, "wait_for_rank_zero"))
        trained = [*context.training.keras.fits, *(u.call for u in context.training.updates)]
        behind = {a for call in trained for a in context.module.ancestors(call)}
        for call in written:
            if call not in trained:  # to which no rank comes alone, nor to what decides about that
                tests = together(context, call) or ()
                asked += (test for test in tests if context.module.parent(test) not in behind)
                yield from _made_where_missing(context, call)
        answered = answered_by(context, ChangeFiles, changed) if asked else []
        answered += answered_by(context, Download, downloads) if asked else []
        for test in dict.fromkeys(asked):
            if test not in answered:
                yield ask_rank_zero(context, test)

    def _written(self, context: Context) -> list[cst.Call]:
        """Where the program writes files: in the text, or in a `fit` with a callback that does."""
        return leading_calls(
            context,
            [
                call
                for call in context.values.index.calls
                if (writes(context.values, call) and not method(call).endswith("summary"))
                or saved_into(context, call) is not None
                or (changes_files(context.values, call) and acts_for_all(context, call) is None)
                or set(opens_for(context.values, call) or "") & set("wax")
                or opens_by_name(context.values, call)
                or (
                    call in context.training.keras.fits
                    and any(
                        tf_api.callback(value.name) in tf_api.RANK_ZERO_CALLBACKS | tf_api.BACKUPS
                        for value in callback_values(context, call)
                    )
                )
            ],
        )

    def _kept(self, context: Context) -> list[Wait]:
        """Where what saving returns, a path, is broadcast to all: who has it has waited."""
        return [
            Wait(statement, context.module.span(call).end)
            for call in context.values.index.calls
            if writes(context.values, call)
            and not isinstance(context.module.parent(call), cst.Expr)
            and (statement := next(statements_around(context, call), None)) is not None
            and come_here(context, statement) == []
        ]


@dataclass(frozen=True)
class Wait:
    """A place where all ranks have waited for rank 0: in or in front of a statement."""

    statement: cst.CSTNode
    at: int


def _is_unseen(context: Context, written: cst.Call, place: cst.CSTNode, waits: list[Wait]) -> bool:
    """Whether no wait stands on the way from what is written to a statement that reads."""
    module = context.module
    function = module.function_of(written)
    called = context.values.calls.sites(function) if function is not None else ()
    if function is not module.function_of(place) and (called or module.function_of(place)):
        return False  # what calls the function is looked at; what none does may be called from anywhere
    write, here = module.span(written).start, module.span(place).start
    around = [*module.ancestors(place)]
    again = [
        loop
        for loop in module.ancestors(written)
        if isinstance(loop, (cst.For, cst.While)) and loop in around
    ]
    if write >= here and not again:
        return False
    return not any(
        wait.at <= here
        and module.parent(wait.statement) in around
        and (write < wait.at or any(loop in module.ancestors(wait.statement) for loop in again))
        for wait in waits
    )


def _made_where_missing(context: Context, written: cst.Call) -> Iterator[Problem]:
    """What tells of `except FileNotFoundError:` in which a file is made: a rank that comes late finds it, or half of it."""
    module = context.module
    for handler in module.ancestors(written):
        if isinstance(handler, cst.ExceptHandler):
            tried = module.parent(handler)
            assert isinstance(tried, cst.Try)
            inside = [c for c in context.values.index.calls if tried.body in module.ancestors(c)]
            if any(reads(context, call) for call in inside):
                yield Problem(
                    written,
                    "each rank looks for this file by itself: one that comes late finds what rank 0 has written by then, and goes on otherwise",
                    "ask for it first, `if os.path.exists(path):`, which rank 0 then answers for all, and make it in the `else`",
                    "warning",
                )


def _before_loops(
    context: Context, places: list[cst.CSTNode], written: list[cst.Call]
) -> cst.CSTNode:
    """The first of these places, or a loop around it in which nothing of this is written: to wait once is enough."""
    chosen = places[0]
    for place in places:
        start = context.module.span(place).start
        before = all(context.module.span(call).start < start for call in written)
        if isinstance(place, (cst.For, cst.While)) and before:
            chosen = place
    return chosen


def statements_around(context: Context, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The statements of its function in which a node stands, the innermost first, that something can be put in front of."""
    function = context.module.function_of(node)
    for ancestor in (node, *context.module.ancestors(node)):
        if ancestor is function:
            return
        if isinstance(context.module.parent(ancestor), (cst.IndentedBlock, cst.Module)):
            yield ancestor


def leading_calls(context: Context, calls: Iterable[cst.Call]) -> list[cst.Call]:
    """These calls and those that lead to them, through functions of the program."""
    leading = context.values.calls.leading_to
    return list(dict.fromkeys(found for call in calls for found in leading(call)))


def reading_calls(context: Context) -> list[cst.Call]:
    """The calls that read files, themselves or by a function that they call or are handed, in order."""
    module, values = context.module, context.values
    own = leading_calls(context, [call for call in values.index.calls if reads(context, call)])
    readers = {function for call in own if (function := module.function_of(call)) is not None}
    handed = [
        call
        for call in (values.index.calls if readers else ())
        if any(value.node in readers for arg in call.args for value in values.of(arg.value))
    ]
    return sorted(leading_calls(context, [*own, *handed]), key=lambda c: module.span(c).start)


def reads(context: Context, call: cst.Call) -> bool:
    """Whether a call reads a file: weights, a checkpoint, a model, arrays, or one it opens."""
    if reads_files(context.values, call):
        return True
    if not isinstance(call.func, cst.Attribute):
        return False
    kinds = context.values.kinds(call.func.value)
    return (method(call) == "load_weights" and Role.MODEL in kinds) or (
        method(call) in ("restore", "read", "restore_or_initialize")
        and bool(kinds & {Role.CHECKPOINT, Role.CHECKPOINT_MANAGER})
    )


def come_here(context: Context, statement: cst.CSTNode) -> Asked:
    """What rank 0 must answer for all, so that a statement is reached by every rank, as often by each; None where it may not be.

    At the top level a loop is taken to have as many turns for all, but one over files.
    """
    function = context.module.function_of(statement)
    if function is not None:
        tried = context.module.enclosing(statement, (cst.Try, cst.TryStar, cst.FunctionDef))
        return together(context, statement) if tried is function else None
    child = statement
    for ancestor in context.module.ancestors(statement):
        match ancestor:
            case cst.If(test=test) | cst.While(test=test):
                if child is not test and not is_uniform(context.values, test):
                    return None
            case cst.For(iter=iterable):
                if asks_files(context.values, iterable):
                    return None
            case cst.Try() | cst.TryStar():
                return None
        child = ancestor
    return []


class Download(Rule):
    """Let rank 0 download data, then the first rank of each other machine, before the others look for them.

    `mnist.load_data()` and the like keep what they download in one folder. Ranks that
    begin at once would write the same files at the same time. What is asked before,
    `if not os.path.exists(path)`, is answered by rank 0 for all. Where it cannot be seen that all
    ranks come to the place together, a wait could last forever: that is told, and nothing changed.
    """

    code = "HVD605"
    name = "downloads"
    rationale = "All ranks of a machine would download into the same files at the same time."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                (x, y), _ = tf.keras.datasets.mnist.load_data()
                model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=0)
                """
            ),
            program(
                """
                import tensorflow as tf

                (x, y), _ = jhvd.local_rank_zero_first(lambda: tf.keras.datasets.mnist.load_data())
                model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=0)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        calls = downloads(context)
        for call in calls:
            if acts_for_all(context, call) is not None:
                first = f"{context.runtime('local_rank_zero_first')}(lambda: "
                edits = context.wrap(call, first, ")", Layer.CALL)
                yield Fix(call, edits, needs=(HOROVOD, "local_rank_zero_first"))
            else:
                yield Problem(
                    call,
                    "all ranks may download this at the same time, and it cannot be seen that they come here together",
                    "download it at the top level, in front of where it is used",
                    "warning",
                )
        answered = answered_by(context, ChangeFiles, changed)
        for test in asked_for(context, calls):
            if test not in answered:
                yield ask_rank_zero(context, test)


def downloads(context: Context) -> list[cst.Call]:
    """The calls that may download, where every rank makes them."""
    return [
        call
        for call in context.values.index.calls
        if may_download(context, call)
        and not is_guarded(context, call)
        and not in_rank_zeros(context, call)
        and knows_ranks(context, call)
    ]


class CacheFile(Rule):
    """Give each rank a cache file of its own for what it caches of a dataset.

    Each rank caches its share. In one file they would overwrite one another, or read another's share.
    """

    code = "HVD606"
    name = "cache files"
    rationale = "Each rank caches its own share, so it needs a file of its own."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(tf.data.Dataset.from_tensor_slices((x, y)).cache('train.cache').batch(32), verbose=0)
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(tf.data.Dataset.from_tensor_slices((x, y)).cache('train.cache' + f'-{hvd.rank()}-of-{hvd.size()}').batch(32), verbose=0)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for call in context.values.index.calls:
            if method(call) not in ("cache", "snapshot") or not isinstance(
                call.func, cst.Attribute
            ):
                continue
            path = argument(call, "filename" if method(call) == "cache" else "path", 0)
            if path is None or not context.values.may_be(call.func.value, Role.DATASET):
                continue
            suffix = f" + f'-{{{context.backend.rank}}}-of-{{{context.backend.size}}}'"
            if isinstance(path.value, (cst.SimpleString, cst.Name, cst.FormattedString)):
                yield Fix(
                    path.value, (context.insert(context.module.span(path.value).end, suffix),)
                )
            else:
                yield Fix(path.value, context.wrap(path.value, "str(", f"){suffix}"))


RULES: tuple[type[Rule], ...] = (OpenForWriting, ChangeFiles, WaitForFile, Download, CacheFile)
