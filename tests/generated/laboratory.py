"""Converts programs, runs them on living ranks, and makes those that fail small."""

from __future__ import annotations

from grammar import Program, is_sound, simpler, text
from oracle import Verdict, judge, refusal
from ranks import ALONE, SIZE, Ranks, StuckError

from jupyter_hvd import convert_source
from jupyter_hvd.convert import Options

#: After so many programs the ranks are started anew: TensorFlow keeps some of each.
LIFETIME = 400


def converted(source: str, options: Options | None = None):
    return convert_source(source, options=options)


class Laboratory:
    """Converts and runs programs; starts ranks where there are none, and anew where they are stuck."""

    def __init__(self, options: Options | None = None, timeout: float = 30.0) -> None:
        self.options, self.timeout = options, timeout
        self._ranks: Ranks | None = None
        self._ran = 0

    def __enter__(self) -> Laboratory:
        return self

    def __exit__(self, *_: object) -> None:
        if self._ranks is not None:
            self._ranks.close()
        self._ranks = None

    def try_out(self, p: Program, seed: int, conversion=None) -> Verdict:
        """The verdict on a program."""
        conversion = conversion or converted(text(p), self.options)
        verdict = refusal(p, conversion)
        if verdict is not None:
            return verdict
        if self._ranks is None or self._ran >= LIFETIME:
            self.__exit__()
            self._ranks, self._ran = Ranks(), 0
        self._ran += 1
        sources = dict.fromkeys(range(SIZE), conversion.code) | {ALONE: text(p, SIZE)}
        try:
            answers, files = self._ranks.run(
                sources, seed=seed, eager=is_eager(p, seed), timeout=self.timeout
            )
        except StuckError as stuck:
            self.__exit__()
            return Verdict("wrong", f"no rank stuck: {stuck}")
        verdict = judge(p, answers, files)
        if len({bool(a["error"]) for rank, a in answers.items() if rank != ALONE}) > 1:
            self.__exit__()
        return verdict

    def smallest(self, p: Program, seed: int, verdict: Verdict) -> tuple[Program, Verdict]:
        """The program with as few parts as keep the verdict: none of them can be left out."""
        while True:
            for less in simpler(p):
                if not is_sound(less):
                    continue
                again = self.try_out(less, seed)
                if again.kind == verdict.kind and again.check == verdict.check:
                    p, verdict = less, again
                    break
            else:
                return p, verdict


def is_eager(p: Program, seed: int) -> bool:
    """Whether Keras' own steps run uncompiled, which is quick and shows each batch; every fourth program's are compiled."""
    return not p.place.startswith("compiled") and seed % 4 != 0
