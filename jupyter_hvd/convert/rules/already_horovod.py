"""HVD901: programs that use Horovod already."""

from __future__ import annotations

from collections.abc import Iterator

from .base import Example, Finding, Problem, program
from .context import Context
from .imports import is_converted_already, uses_horovod
from .refusal import Refusal


class AlreadyHorovod(Refusal):
    """Refuse programs that already use Horovod.

    Nothing. A program that this converter has written stays as it is, with a note. Any other program with Horovod in it is refused.

    Why:
    A second conversion would average twice and scale the learning rate twice.

    Known problems:
    A program that imports Horovod and does not train with it is refused, too. Remove the import.

    When it does not apply:
    To `%%distribute`: a cell that uses Horovod itself runs as it is ([distribute.md](distribute.md)).
    """

    code = "HVD901"
    name = "already Horovod"
    rationale = "The program already uses Horovod."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf
                import horovod.tensorflow as hvd

                hvd.init()
                model = tf.keras.Sequential()
                model.compile('sgd')
                model.fit([1.0])
                """
            ),
            None,
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        node = uses_horovod(context)
        if node is None:
            return
        if is_converted_already(context):
            yield Problem(
                node,
                "this program is converted already; nothing is changed",
                "convert the original to change it",
                "info",
            )
        else:
            yield Problem(
                node,
                "this program already uses Horovod, and converting it again would average and scale twice",
                "run it as it is with `horovodrun`, or remove Horovod from it first",
            )
