#!/usr/bin/env python3
"""What the checks need beside Python: programs, the Debian packages that have them, and what make builds of the checkout.

    scripts/needs.py build              fails, in a line, where Horovod cannot be compiled
    scripts/needs.py has NAME           prints "yes" where the programs of a need are installed
    scripts/needs.py skip NAME PART     notes that a part of `make test` is skipped for want of it
    scripts/needs.py leave PART         notes how many tests of a part are left to `make test-all`
    scripts/needs.py closing [--strict] prints what was skipped and left; with --strict fails if a test was that must run
    scripts/needs.py install            installs what is missing: `make system`

Any Python 3.8 runs this, and the tests import it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
#: Where parts of one `make test` note what they leave out: a count and a sentence a line.
NOTES_VARIABLE = "JUPYTER_HVD_SKIPPED"
#: The oldest Node that builds the extension (rspack's, JupyterLab's).
NODE = (20, 19)


class Need(NamedTuple):
    """What tests of a kind need.

    Attributes:
        kind: what closing lines call the tests. programs: each with the Debian package that has it.
        made: a file of the checkout, and the target of make that builds it.
    """

    kind: str
    programs: dict[str, str]
    made: tuple[str, str] | None = None


HOSTS = {"ip": "iproute2", "unshare": "util-linux"}
SSH = {"sshd": "openssh-server", "ssh": "openssh-client", "ssh-keygen": "openssh-client"}
SLURM = {"slurmctld": "slurm-wlm", "slurmd": "slurm-wlm", "salloc": "slurm-wlm", "munged": "munge"}
MPI = {"mpirun": "openmpi-bin", "ompi_info": "openmpi-bin", "mpicxx": "libopenmpi-dev"}
NODE_PROGRAMS = {"node": "nodejs"}
NEEDS = {
    "build": Need("Horovod", {"g++": "g++", "cmake": "cmake", "make": "make"}),
    "node": Need("Node", NODE_PROGRAMS),
    "types": Need("Node", NODE_PROGRAMS, ("node_modules/.bin/json2ts", "labextension")),
    "browser": Need(
        "browser", {os.environ.get("CHROMIUM", "chromium"): "chromium", "node": "nodejs"}
    ),
    "sshd": Need("sshd", {**SSH, **HOSTS}),
    "slurm": Need("Slurm", {**SLURM, **HOSTS}),
    "mpi": Need("Open MPI", MPI, (".venv-mpi/.ready", "env-mpi")),
    "mcp": Need("assistant", {}, (".venv-mcp/.ready", "env-mcp")),
    "tf215": Need("Keras 2", {}, (".venv-tf215/.ready", "env-tf215")),
    "tf218": Need("tf-keras", {}, (".venv-tf218/.ready", "env-tf218")),
}
#: Needs that no package meets, each with what to do.
OTHERS = {"root": ("root", "run them as root")}
#: Tests of programs that run only with another version of Keras.
OTHER_KERAS = "other Keras"
#: The kinds of tests that may be skipped even in CI, each with the reason.
EXCUSED = {
    "Keras 2": "TensorFlow 2.15 has wheels for Python 3.11 only",
    "tf-keras": "`make test-thorough` makes its environment",
    OTHER_KERAS: "`make test-thorough` runs them where they run",
}
#: Between the kind of tests and the reason for skipping them.
SKIPPED = " tests skipped: "


def lacking(name: str) -> list[str]:
    """The Debian packages that a need lacks."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    programs = NEEDS[name].programs
    found = [programs[program] for program in programs if shutil.which(program, path=path) is None]
    if "node" in programs and "nodejs" not in found and node_version() < NODE:
        found.append("nodejs")
    return sorted(set(found))


def node_version() -> tuple[int, ...]:
    done = subprocess.run(["node", "--version"], stdout=subprocess.PIPE, text=True, check=False)
    return tuple(int(n) for n in re.findall(r"\d+", done.stdout)[:2])


def why_not(name: str) -> str | None:
    """Why the tests with a need are skipped, as the closing line says it; None where they run."""
    if name in OTHERS:
        kind, remedy = OTHERS[name]
        return None if os.geteuid() == 0 else f"{kind}{SKIPPED}{remedy}"
    need, packages = NEEDS[name], lacking(name)
    if packages:
        newer = f" {'.'.join(map(str, NODE))} or newer" if packages == ["nodejs"] else ""
        return f"{need.kind}{SKIPPED}install {' '.join(packages)}{newer}, or run `make system`"
    if need.made and not (ROOT / need.made[0]).exists():
        return f"{need.kind}{SKIPPED}run `make {need.made[1]}`"
    return None


def is_excused(sentence: str) -> bool:
    """Whether a closing line is about tests that may be skipped in CI, or that are not skipped but left to another run."""
    kind, skipped, _ = sentence.partition(SKIPPED.strip())
    return not skipped or kind.strip() in EXCUSED


def note(count: int, sentence: str, place: str | None = None) -> None:
    """Store for the end of `make test` that tests were skipped, or left to another run."""
    if place := place or os.environ.get(NOTES_VARIABLE):
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        with Path(place).open("a") as file:
            file.write(f"{count} {sentence}\n")


def notes() -> Iterator[tuple[int, str]]:
    place = Path(os.environ.get(NOTES_VARIABLE, ""))
    if place.is_file():
        for line in place.read_text().splitlines():
            count, _, sentence = line.partition(" ")
            yield int(count), sentence


def count_of(part: str) -> int:
    """How many tests a part of `make test` has, as far as can be seen without Node."""
    folders = {"test-ui": "ui-tests", "test-ts": "labextension/tests"}
    if part not in folders:
        return 1
    return count_in_specs(folders[part], r"^\s*(?:test|it)\(")


def count_in_specs(folder: str, pattern: str) -> int:
    files = (ROOT / folder).glob("**/*.spec.ts")
    return sum(len(re.findall(pattern, file.read_text(), re.M)) for file in files)


def count_long(part: str) -> int:
    """How many browser tests have the tag that `make test` leaves out."""
    return count_in_specs({"test-ui": "ui-tests"}[part], r"tag:.*@long")


def closing(strict: bool) -> int:
    """Print a line for each reason that tests were skipped for; fail if `strict` and one is not in `EXCUSED`."""
    counts: Counter[str] = Counter()
    for count, sentence in notes():
        counts[sentence] += count
    for sentence, count in counts.items():
        print(f"{count} {sentence}")
    if not any(SKIPPED.strip() in sentence for sentence in counts):
        print("0 tests skipped")
    if strict and (unexcused := [n for sentence, n in counts.items() if not is_excused(sentence)]):
        allowed = ", ".join(EXCUSED)
        print(f"STRICT=1: {sum(unexcused)} tests were skipped; only these may be: {allowed}")
        return 1
    return 0


def install() -> int:
    """Install what is missing by apt, as root or by sudo; elsewhere say what to install."""
    packages = sorted({package for name in NEEDS for package in lacking(name)})
    if not packages:
        print("nothing is missing")
        return 0
    apt, root = shutil.which("apt-get"), os.geteuid() == 0
    if apt is None or not (root or shutil.which("sudo")):
        who = "" if apt is None else ", as root"
        print(f"install{who} (Debian's names): {' '.join(packages)}")
        return 1
    lead = (
        ["env", "DEBIAN_FRONTEND=noninteractive"]
        if root
        else ["sudo", "DEBIAN_FRONTEND=noninteractive"]
    )
    for words in (
        ["update", "-qq"],
        ["install", "-y", "-qq", "--no-install-recommends", *packages],
    ):
        print(f"apt-get {' '.join(words)}", flush=True)
        done = subprocess.run([*lead, apt, *words], stdout=subprocess.DEVNULL, check=False)
        if done.returncode:
            return done.returncode
    left = sorted({package for name in NEEDS for package in lacking(name)})
    if left == ["nodejs"]:
        print(
            f"this system's Node is {'.'.join(map(str, node_version()))}: install {why_not('node')}"
        )
    return 1 if left else 0


def main(words: list[str]) -> int:
    command, *rest = words or ["closing"]
    if command == "build":
        if packages := lacking("build"):
            print(
                f"Horovod is compiled here. Install first: apt-get install {' '.join(packages)}",
                file=sys.stderr,
            )
            return 2
    elif command == "has":
        print("" if lacking(rest[0]) else "yes")
    elif command == "skip":
        name, part = rest
        sentence = why_not(name)
        assert sentence, f"{name} is there"
        note(count_of(part), sentence)
        print(f"{part}: {count_of(part)} {sentence}")
    elif command == "leave":
        note(count_long(rest[0]), "browser tests are left to `make test-all`: long ones")
    elif command == "closing":
        return closing("--strict" in rest)
    elif command == "install":
        return install()
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
