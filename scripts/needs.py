#!/usr/bin/env python3
"""What the checks need of the system beside Python, by whom it is needed, and which Debian packages have it.

    scripts/needs.py build              fails, in a line, where Horovod cannot be compiled
    scripts/needs.py has NAME           prints "yes" where a need is met
    scripts/needs.py skip NAME PART     notes that a part of `make test` is left out for want of it
    scripts/needs.py closing            prints a line for each need that tests were left out for
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
    """Programs, each with the Debian package that has it."""

    kind: str
    programs: dict[str, str]


HOSTS = {"ip": "iproute2", "unshare": "util-linux"}
SSH = {"sshd": "openssh-server", "ssh": "openssh-client", "ssh-keygen": "openssh-client"}
SLURM = {"slurmctld": "slurm-wlm", "slurmd": "slurm-wlm", "salloc": "slurm-wlm", "munged": "munge"}
NEEDS = {
    "build": Need("Horovod", {"g++": "g++", "cmake": "cmake", "make": "make"}),
    "node": Need("Node", {"node": "nodejs"}),
    "browser": Need(
        "browser", {os.environ.get("CHROMIUM", "chromium"): "chromium", "node": "nodejs"}
    ),
    "sshd": Need("sshd", {**SSH, **HOSTS}),
    "slurm": Need("Slurm", {**SLURM, **HOSTS}),
}
#: Needs that no package meets, each with what to do.
OTHERS = {"root": ("root", "run them as root")}


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
        return None if os.geteuid() == 0 else f"{kind} tests skipped: {remedy}"
    packages = lacking(name)
    if not packages:
        return None
    newer = f" {'.'.join(map(str, NODE))} or newer" if packages == ["nodejs"] else ""
    return f"{NEEDS[name].kind} tests skipped: install {' '.join(packages)}{newer}, or run `make system`"


def note(count: int, sentence: str) -> None:
    """Keep for the end of `make test` that tests were left out."""
    if place := os.environ.get(NOTES_VARIABLE):
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
    files = (ROOT / folders[part]).glob("**/*.spec.ts")
    return sum(len(re.findall(r"^\s*(?:test|it)\(", file.read_text(), re.M)) for file in files)


def closing(strict: bool) -> int:
    """Print a line for each need that tests were left out for; fail if a package would have met one, and must be there."""
    counts: Counter[str] = Counter()
    for count, sentence in notes():
        counts[sentence] += count
    for sentence, count in counts.items():
        print(f"{count} {sentence}")
    if not counts:
        print("0 tests skipped")
    if strict and any("make system" in sentence for sentence in counts):
        print("tests were skipped for want of a package")
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
        print("" if why_not(rest[0]) else "yes")
    elif command == "skip":
        name, part = rest
        sentence = why_not(name)
        assert sentence, f"{name} is there"
        note(count_of(part), sentence)
        print(f"{part}: {count_of(part)} {sentence}")
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
