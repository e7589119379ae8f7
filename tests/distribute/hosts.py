"""Two hosts on one machine: network namespaces on a bridge, made and removed here."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import suppress
from importlib.metadata import distribution
from pathlib import Path

import psutil

#: Of this process alone: others on the machine may run these tests at the same time.
BRIDGE, NETWORK = f"hvd{os.getpid():x}", f"10.213.{os.getpid() % 250 + 1}"
HOSTS = {f"{BRIDGE}a": f"{NETWORK}.11", f"{BRIDGE}b": f"{NETWORK}.12"}
#: This machine's own address on the bridge.
GATEWAY = f"{NETWORK}.1"
OWN_FILES = Path("/etc/netns")  # what stands here under a namespace's name, it sees in /etc
#: What each of them has as /etc/hosts; a host's own name stands for its address: Gloo asks for it.
NAMES = "127.0.0.1 localhost\n" + "".join(f"{ip} {name}\n" for name, ip in HOSTS.items())


def sh(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def on_host(name: str, *command: str) -> list[str]:
    """A command on one of them, which knows its own name."""
    return [
        *("ip", "netns", "exec", name, "unshare", "--uts"),
        *("sh", "-c", 'hostname "$1" && shift && exec "$@"', "sh", name, *command),
    ]


def cable(host: str) -> str:
    """This machine's end of the cable to a host."""
    return f"{host}v"


def make_network() -> None:
    """Make them.

    Raises:
        OSError: it may not be done here.
    """
    sh("ip", "link", "add", BRIDGE, "type", "bridge")
    sh("ip", "addr", "add", f"{GATEWAY}/24", "dev", BRIDGE)
    sh("ip", "link", "set", BRIDGE, "up")
    for name, address in HOSTS.items():
        (OWN_FILES / name).mkdir(parents=True)
        (OWN_FILES / name / "hosts").write_text(NAMES)
        sh("ip", "netns", "add", name)
        sh("ip", "link", "add", cable(name), "type", "veth", "peer", "name", "eth0", "netns", name)
        sh("ip", "link", "set", cable(name), "master", BRIDGE)
        sh("ip", "link", "set", cable(name), "up")
        for command in (
            ("link", "set", "lo", "up"),
            ("addr", "add", f"{address}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("route", "add", "default", "via", GATEWAY),
        ):
            sh("ip", "-n", name, *command)


def remove_network() -> None:
    for name in HOSTS:
        with suppress(OSError):
            for pid in sh("ip", "netns", "pids", name).split():
                with suppress(psutil.Error):
                    psutil.Process(int(pid)).kill()
        for command in (("link", "del", cable(name)), ("netns", "del", name)):
            with suppress(OSError):
                sh("ip", *command)
        shutil.rmtree(OWN_FILES / name, ignore_errors=True)
    with suppress(OSError):
        sh("ip", "link", "del", BRIDGE)


def make_sshd(folder: Path) -> list[subprocess.Popen[bytes]]:
    """An sshd on each host, and an `ssh` in `folder/bin` that knows the key."""
    for key in ("host", "user"):
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key))
    (folder / "authorized").write_text((folder / "user.pub").read_text())
    Path("/run/sshd").mkdir(exist_ok=True)
    servers = []
    for name in HOSTS:
        config = folder / f"{name}.conf"
        config.write_text(
            f"HostKey {folder / 'host'}\nAuthorizedKeysFile {folder / 'authorized'}\nPidFile none\n"
            "StrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nMaxStartups 50\n"
        )
        command = on_host(name, shutil.which("sshd") or "sshd", "-D", "-e", "-f", str(config))
        servers.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
    (folder / "bin").mkdir()
    ssh = folder / "bin" / "ssh"
    ssh.write_text(
        f"#!/bin/sh\nexec {shutil.which('ssh')} -F none -i {folder / 'user'} -o UserKnownHostsFile=/dev/null "
        '-o LogLevel=ERROR -o StrictHostKeyChecking=no "$@"\n'
    )
    ssh.chmod(0o755)
    time.sleep(0.5)
    return servers


def change(daemon: str, *command: str) -> None:
    """Run a command that mounts something where a daemon lives, known by a word of its command line: only its host sees it."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if daemon in process.cmdline() and process.name() != "ip":
                sh("nsenter", "--mount", f"--target={process.pid}", *command)
                return
    raise OSError(f"there is no process of {daemon}")


def another_keras(folder: Path, daemon: str) -> Path:
    """Let the host of a daemon have another version of Keras, as its package says; what was mounted there."""
    (metadata,) = (f for f in distribution("keras").files or () if f.name == "METADATA")
    real = Path(str(metadata.locate()))
    other = real.read_text().replace(f"Version: {distribution('keras').version}", "Version: 3.0.1")
    (folder / "METADATA").write_text(other)
    change(daemon, "mount", "--bind", str(folder / "METADATA"), str(real))
    return real


def command_lines() -> list[str]:
    """What every user of the machine can read of every process."""
    lines = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            lines.append(" ".join(process.cmdline()))
    return lines


def printed(logs: Path) -> list[str]:
    """What each rank of the only job in a folder of logs has printed: the job itself shows rank 0's output."""
    (job,) = logs.iterdir()
    ranks = sorted(job.glob("rank-*.txt"))
    assert [rank.name for rank in ranks] == [f"rank-{number}.txt" for number in range(len(ranks))]
    return [
        "".join(f"{line.partition(' ')[2]}\n" for line in rank.read_text().splitlines())
        for rank in ranks
    ]
