"""What another user of the machine can try: the programs that a test runs as another user id, and what they find.

Both are run by the system's Python, from `/`, and say in a line of JSON on standard output what they have found.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NOBODY = 65534
#: The Python of the system: one below `/root` is nobody's business.
PYTHON = ("/usr/bin/python3", "-I", "-c")

BECOME = f"""\
import json, os, re, socket, sys, time
from contextlib import suppress
told = json.loads(sys.stdin.readline())
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})

def connected(port):
    return socket.create_connection(("127.0.0.1", port), timeout=0.3)
"""

#: Searches all that this user can read for the bytes of secrets, of which it is told by name.
SEARCH = (
    BECOME
    + """
secrets = {name: value.encode() for name, value in told["secrets"].items()}
found, read = set(), 0

def look(where, content):
    global read
    read += 1
    for name, value in secrets.items():
        if value in content:
            found.add((name, where))

def look_into(path):
    with suppress(OSError), open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        look(path, file.read(2**22))

for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) == os.getpid():
        continue
    for name in ("cmdline", "environ", "maps", "comm", "status", "stat", "wchan", "syscall"):
        look_into(f"/proc/{pid}/{name}")
    for link in ("cwd", "exe", "root"):
        with suppress(OSError):
            look(f"/proc/{pid}/{link}", os.readlink(f"/proc/{pid}/{link}").encode())
    with suppress(OSError):
        for number in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                look(f"/proc/{pid}/fd", os.readlink(f"/proc/{pid}/fd/{number}").encode())
look_into("/proc/net/unix")
for top in told["folders"]:
    for folder, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            look(path, os.fsencode(path))
        for name in files:
            with suppress(OSError):
                path = os.path.join(folder, name)
                if os.path.isfile(path) and not os.path.islink(path):
                    look_into(path)
for port in told["ports"]:
    with suppress(OSError), connected(port) as connection:
        connection.settimeout(0.2)
        for said in (b"", b"\\n", b"GET / HTTP/1.0\\r\\n\\r\\n"):
            with suppress(TimeoutError):
                connection.sendall(said)
                look(f"port {port}", connection.recv(2**16))
print(json.dumps({"found": sorted(found), "read": read}))
"""
)

#: Tries to be rank 1 of the job that listens at some ports, with all that can be read of it, until it is told to stop.
JOIN = (
    BECOME
    + """
import hashlib, hmac, select
WORD = re.compile(rb"[0-9a-f]{16,}")
tried, received = 0, []

def words():
    found = {b"guessed"}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("cmdline", "environ"):
            with suppress(OSError):
                found.update(WORD.findall(open(f"/proc/{pid}/{name}", "rb").read()))
    for folder in ("/dev/shm", "/tmp", *told["folders"]):
        with suppress(OSError):
            found.update(WORD.findall(" ".join(os.listdir(folder)).encode()))
    return {word.decode() for word in found}

def knock(port, word):
    with connected(port) as connection:
        lines = connection.makefile("rb")
        challenge = json.loads(lines.readline())["challenge"]
        text = json.dumps(["rank", challenge, "n", "rank 1"])
        proof = hmac.new(word.encode(), text.encode(), "sha256").hexdigest()
        answer = {"name": "rank 1", "nonce": "n", "proof": proof, "pid": 1, "host": "here"}
        connection.sendall(json.dumps(answer).encode() + b"\\n")
        connection.settimeout(2)
        while line := lines.readline():
            if b"connection" in line:
                received.append(line.decode())
                return

print("begun", flush=True)
while not select.select([sys.stdin], [], [], 0.05)[0]:
    for word in words():
        for port in told["ports"]:
            tried += 1
            with suppress(OSError, ValueError, LookupError, TypeError):
                knock(port, word)
print(json.dumps({"tried": tried, "received": received}))
"""
)


def search(
    secrets: Mapping[str, str], folders: Sequence[Path | str], ports: Collection[int]
) -> Any:
    """Search all that another user can read for secrets.

    Args:
        secrets: by name.
        folders: whose files are read, and the names of everything below them.
        ports: where to connect and listen. Gloo's own must not be among them while ranks start: it takes the first who connects
            for a rank, and the rank that comes after it ends the job (docs/security.md).

    Returns:
        `found`, pairs of a secret's name and where it was; `read`, how many things were looked at.
    """
    told = json.dumps(
        {"secrets": secrets, "folders": list(map(str, folders)), "ports": list(ports)}
    )
    done = subprocess.run(
        [*PYTHON, SEARCH], input=told + "\n", capture_output=True, text=True, check=True, cwd="/"
    )
    return json.loads(done.stdout)


@contextmanager
def joining(ports: Sequence[int], folder: Path | str = "/tmp") -> Iterator[dict[str, Any]]:
    """Another user tries to join a job, for a block; then the dictionary says what came of it.

    Args:
        ports: where its processes report. Gloo's own are left alone: whoever connects there ends the job (docs/security.md).
        folder: where names may tell something.
    """
    told = json.dumps({"ports": list(ports), "folders": [str(folder)]})
    process = subprocess.Popen(
        [*PYTHON, JOIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(told + "\n")
    process.stdin.flush()
    assert process.stdout.readline() == "begun\n"
    result: dict[str, Any] = {}
    try:
        yield result
    finally:
        said, _ = process.communicate("stop\n")
        result.update(json.loads(said.splitlines()[-1]))
