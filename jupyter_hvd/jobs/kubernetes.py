"""Manifests for Kubeflow: an MPIJob (v2beta1) and a TrainJob (v1alpha1), and the recipe of the container for the ranks."""

from __future__ import annotations

import math
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..files import UnusableInputError
from ..install.build import (
    HOROVOD,
    PATCHES,
    PYTHON_PACKAGES,
    SOURCE_HASH,
    TOOLS,
    Build,
)
from ..package_versions import TENSORFLOW

#: What a container's image may be called.
IMAGE = re.compile(r"[a-z0-9][a-zA-Z0-9._/:@-]*")
#: Where the program lies in the container, and its Python.
PLACE, PYTHON = "/job", "/usr/local/bin/python"
#: The user that ranks run as, and the port of their sshd, which needs no rights of root.
USER, PORT = 1000, 2222
#: What the workers run, and where both operators mount the job's pair of keys.
SSHD, SSHD_WORDS = "/usr/sbin/sshd", ("-De", "-f", "/home/mpiuser/.sshd_config")
KEYS = "/home/mpiuser/.ssh"
#: The API of Kubeflow's Trainer 2.
TRAINER, TRAINER_VERSION = "trainer.kubeflow.org", "v1alpha1"

RECIPE = """\
# Written by jupyter hvd:  docker build --file {name}.Dockerfile --tag {image} .
FROM python:{python}-slim-bookworm

RUN apt-get update \\
    && apt-get install --yes --no-install-recommends {tools} \\
        libopenmpi-dev openmpi-bin openssh-client openssh-server \\
    && rm -rf /var/lib/apt/lists/*

RUN pip install --no-cache-dir {packages}

COPY ["{name}.horovod.patch", "/tmp/horovod.patch"]
RUN export {flags} MAKEFLAGS="-j$(nproc)" \\
    && cd /tmp \\
    && echo 'horovod=={horovod} --hash=sha256:{hash}' > horovod.txt \\
    && pip download --no-deps --no-binary horovod --no-build-isolation --require-hashes --requirement horovod.txt \\
    && tar --extract --file horovod-{horovod}.tar.gz \\
    && patch --strip=1 --directory horovod-{horovod} --input /tmp/horovod.patch \\
    && pip install --no-cache-dir --no-deps --no-build-isolation ./horovod-{horovod} \\
    && rm -rf /tmp/horovod*

# The ranks' sshd, which needs no root. The operator gives every container of the job one pair of keys; a host is
# known by it, and by nothing else.
RUN useradd --create-home --uid {user} mpiuser \\
    && printf '%s\\n' 'Port {port}' 'PidFile /home/mpiuser/sshd.pid' 'HostKey /home/mpiuser/.ssh/id_rsa' \\
        'StrictModes no' 'PasswordAuthentication no' > /home/mpiuser/.sshd_config \\
    && printf '%s\\n' '#!/bin/sh' 'printf "* "' 'exec cat /home/mpiuser/.ssh/id_rsa.pub' > /usr/local/bin/hosts-of-the-job \\
    && chmod 755 /usr/local/bin/hosts-of-the-job \\
    && printf '%s\\n' 'Port {port}' 'StrictHostKeyChecking yes' 'UserKnownHostsFile none' \\
        'KnownHostsCommand /usr/local/bin/hosts-of-the-job' > /etc/ssh/ssh_config.d/job.conf

# What the program reads must be put here too, or be mounted.
WORKDIR {place}
COPY ["{name}.py", "{place}/"]
{modules}"""


@dataclass(frozen=True)
class Cluster:
    """How many workers there are, each with so many ranks, and what they run in."""

    size: int
    image: str
    slots: int = 1

    def __post_init__(self) -> None:
        """
        Raises:
            UnusableInputError: they do not fit together.
        """
        if not IMAGE.fullmatch(self.image):
            raise UnusableInputError(f"--image {self.image}: is not an image name")
        if self.slots < 1 or self.size % self.slots:
            raise UnusableInputError(
                f"--slots {self.slots}: {self.size} ranks do not divide into workers evenly"
            )


def kubernetes_files(
    name: str,
    arguments: Sequence[str],
    cluster: Cluster,
    tensorflow: str,
    packages: Mapping[str, str],
    modules: Sequence[str],
    folders: Sequence[str],
) -> dict[str, str]:
    """Return the files to write beside the program, by name: manifest, container recipe, patch.

    Args:
        name: the program's, without `.py`.
        arguments: of the program.
        packages: versions of further packages to install.
        modules, folders: what the program imports from its own folder.

    Raises:
        UnusableInputError: see `require_text`.
    """
    require_text([name, *arguments])
    head = "# Written by jupyter hvd:  kubectl apply --filename {}"
    mpi, train = f"{name}.mpijob.yaml", f"{name}.trainjob.yaml"
    runtime, job = map(to_yaml, train_job(name, arguments, cluster))
    patch = "".join(file.read_text() for file in PATCHES)
    return {
        mpi: f"{head.format(mpi)}\n{to_yaml(mpi_job(name, arguments, cluster))}",
        train: f"{head.format(train)}\n{runtime}---\n{job}",
        f"{name}.Dockerfile": container_recipe(
            name, cluster, tensorflow, packages, modules, folders
        ),
        f"{name}.horovod.patch": patch,
    }


def mpirun_words(name: str, arguments: Sequence[str], cluster: Cluster) -> list[str]:
    """What follows `mpirun`."""
    return [
        *("-n", str(cluster.size), "-bind-to", "none", "-map-by", "slot"),
        *("-x", "PYTHONUNBUFFERED=1", "-x", "PYTHONHASHSEED=0"),
        *("-mca", "pml", "ob1", "-mca", "btl", "^openib"),
        *(PYTHON, f"{PLACE}/{name}.py", *arguments),
    ]


def mpi_job(name: str, arguments: Sequence[str], cluster: Cluster) -> dict[str, Any]:
    """The manifest of an MPIJob, as data."""
    words = mpirun_words(name, arguments, cluster)
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": kubernetes_name(name)},
        "spec": {
            "slotsPerWorker": cluster.slots,
            "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": 0},
            "sshAuthMountPath": KEYS,
            "mpiImplementation": "OpenMPI",
            "mpiReplicaSpecs": {
                "Launcher": replica_spec(1, "launcher", cluster.image, ["mpirun"], words),
                "Worker": replica_spec(
                    cluster.size // cluster.slots,
                    "worker",
                    cluster.image,
                    [SSHD],
                    SSHD_WORDS,
                ),
            },
        },
    }


def replica_spec(
    count: int, name: str, image: str, command: Sequence[str], words: Sequence[str]
) -> dict[str, Any]:
    """Return the specification of the launcher or of the workers of an MPIJob: one pod, `count` times."""
    container = {
        **base_container(name, image),
        "command": escape_words(command),
        "args": escape_words(words),
    }
    pod = {"restartPolicy": "Never", "containers": [container]}
    return {"replicas": count, "restartPolicy": "Never", "template": {"spec": pod}}


def train_job(
    name: str, arguments: Sequence[str], cluster: Cluster
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The manifests of a runtime for MPI and of the TrainJob that refers to it, as data.

    The runtime says how Trainer starts workers with an sshd, and a launcher once they listen. Trainer knows both by their names.
    """
    job = kubernetes_name(name)
    job = job if job[0].isalpha() else f"job-{job}"
    runtime = f"{job}-mpi"
    api = f"{TRAINER}/{TRAINER_VERSION}"
    listens = {"tcpSocket": {"port": PORT}, "periodSeconds": 2}
    worker = {
        **base_container("node", cluster.image),
        "command": [SSHD],
        "args": [*SSHD_WORDS],
        "readinessProbe": listens,
    }
    nodes, slots = cluster.size // cluster.slots, cluster.slots
    policy = {
        "numProcPerNode": slots,
        "mpiImplementation": "OpenMPI",
        "sshAuthMountPath": KEYS,
        "runLauncherAsNode": False,
    }
    jobs = [
        replicated_job("node", worker),
        {
            **replicated_job("launcher", base_container("node", cluster.image), is_trainer=True),
            "dependsOn": [{"name": "node", "status": "Ready"}],
        },
    ]
    spec = {
        # Workers are found by name before they are ready.
        "network": {"publishNotReadyAddresses": True},
        "successPolicy": {"operator": "All", "targetReplicatedJobs": ["launcher"]},
        "failurePolicy": {"maxRestarts": 0},
        "replicatedJobs": jobs,
    }
    trainer = {
        "numNodes": nodes,
        "numProcPerNode": slots,
        "command": ["mpirun"],
        "args": escape_words(mpirun_words(name, arguments, cluster)),
    }
    reference = {"apiGroup": TRAINER, "kind": "TrainingRuntime", "name": runtime}
    return (
        {
            "apiVersion": api,
            "kind": "TrainingRuntime",
            "metadata": {"name": runtime, "labels": {f"{TRAINER}/framework": "horovod"}},
            "spec": {"mlPolicy": {"numNodes": nodes, "mpi": policy}, "template": {"spec": spec}},
        },
        {
            "apiVersion": api,
            "kind": "TrainJob",
            "metadata": {"name": job},
            "spec": {"runtimeRef": reference, "trainer": trainer},
        },
    )


def replicated_job(
    name: str, container: Mapping[str, Any], is_trainer: bool = False
) -> dict[str, Any]:
    """Pods with one container each, as a part of a runtime.

    Args:
        is_trainer: whether it takes the command of the TrainJob.
    """
    pod = {
        "restartPolicy": "Never",
        # The keys belong to root, and to this group.
        "securityContext": {"fsGroup": USER},
        "containers": [container],
    }
    labels = {"metadata": {"labels": {f"{TRAINER}/trainjob-ancestor-step": "trainer"}}}
    spec = {"spec": {"backoffLimit": 0, "template": {"spec": pod}}}
    return {"name": name, "template": {**(labels if is_trainer else {}), **spec}}


def base_container(name: str, image: str) -> dict[str, Any]:
    rights = {"runAsUser": USER, "allowPrivilegeEscalation": False}
    return {"name": name, "image": image, "securityContext": rights}


def escape_words(words: Sequence[str]) -> list[str]:
    """Words as Kubernetes takes them: it replaces `$(NAME)`, and takes two dollars for one."""
    return [word.replace("$", "$$") for word in words]


def kubernetes_name(name: str) -> str:
    """Convert a name to one that Kubernetes allows: small letters, digits and hyphens, at most 40."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-") or "job"


def container_recipe(
    name: str,
    cluster: Cluster,
    tensorflow: str,
    packages: Mapping[str, str],
    modules: Sequence[str],
    folders: Sequence[str],
) -> str:
    """Return the Dockerfile: TensorFlow, Horovod built for MPI, and an sshd that needs no root."""
    flags = {k: v for k, v in Build(tensorflow, mpi=True).build_flags.items() if k != "MAKEFLAGS"}
    there = {*TENSORFLOW, *PYTHON_PACKAGES, "horovod"}
    others = [f"{name}=={version}" for name, version in packages.items() if name not in there]
    copied = [f'COPY ["{module}", "{PLACE}/"]\n' for module in modules]
    copied += [f'COPY ["{folder}", "{PLACE}/{folder}"]\n' for folder in folders]
    return RECIPE.format(
        name=name,
        image=cluster.image,
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        tools=" ".join(sorted({*TOOLS.values(), "patch"})),
        packages=" ".join([f"tensorflow=={tensorflow}", *PYTHON_PACKAGES, *others]),
        flags=" ".join(f"{key}={shlex.quote(value)}" for key, value in flags.items()),
        horovod=HOROVOD,
        hash=SOURCE_HASH,
        user=USER,
        port=PORT,
        place=PLACE,
        modules="".join(copied),
    )


def to_yaml(value: Any) -> str:
    """Convert data to YAML; every text is quoted, so that none is read as another type."""
    import yaml

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]
        pass

    Dumper.add_representer(
        str, lambda to, text: to.represent_scalar("tag:yaml.org,2002:str", text, style='"')
    )
    return str(yaml.dump(value, Dumper=Dumper, sort_keys=False, width=math.inf))


def require_text(words: Sequence[str]) -> None:
    """Check that all words can be written as text into a manifest.

    Raises:
        UnusableInputError: one cannot be encoded as UTF-8.
    """
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UnusableInputError(
                f"{word!r}: is not text, so it cannot be written into a manifest"
            ) from None
