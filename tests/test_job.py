"""`jupyter hvd job`: what is written for a cluster, whatever a file and its arguments are called."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_notebook

from jupyter_hvd.cli.job import plain_name
from jupyter_hvd.install.build import SOURCE_HASH
from jupyter_hvd.jobs.kubernetes import kubernetes_name, to_yaml
from jupyter_hvd.jobs.shared_runtime import quote_text
from jupyter_hvd.jobs.slurm import starter_text

PROGRAMS = Path(__file__).parent / "programs"
FIT = (PROGRAMS / "fit_uneven.py").read_text()
#: Names and words with all that shells, Slurm, YAML and recipes read as something else.
HOSTILE = ("a b", "it's", '"q"', "$HOME", "$(touch here)", "`touch here`", "a;b&c|d", "#x", "*")
HOSTILE += ("{name}", "%j", "\\", "a\nb", "é…", "- yes", "null", "on: 1", "\x85", "\u2028", "𝄞", "")


def notebook(*cells: str) -> str:
    return nbformat.writes(new_notebook(cells=[new_code_cell(source) for source in cells]))


@pytest.mark.parametrize("name", [word for word in HOSTILE if word])
def test_names_are_plain(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_]+_hvd", plain_name(Path(f"{name}.py")))


def test_what_is_written(hvd, tmp_path: Path) -> None:
    """What a file is called is in no script: the files' own names need no quotation marks anywhere."""
    file = tmp_path / "it's $(touch here)\n.py"
    file.write_text(FIT)
    for kind in ("--slurm", "--kubernetes"):
        done = hvd("job", file, kind, "-n", 2, "-o", tmp_path / "out", "--force")
        assert done.returncode == 0, done.stderr
    ends = (".py", "_ranks.py", ".sbatch", ".mpijob.yaml", ".trainjob.yaml", ".Dockerfile")
    ends += (".horovod.patch",)
    written = {path.name for path in (tmp_path / "out").iterdir()}
    imported = {"jupyter_hvd_sharing.py"}
    assert written == {f"{plain_name(file)}{end}" for end in ends} | imported


def test_words_reach_the_program_as_they_are(hvd, tmp_path: Path) -> None:
    """The batch script is run by a real shell, in place of Slurm's; the manifest is read as Kubernetes reads it."""
    (tmp_path / "train.py").write_text(FIT)
    show = tmp_path / "a python's $place"
    show.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    show.chmod(0o755)
    slurm = ("job", "train.py", "--slurm", "-n", 2, "--python", show, "--", *HOSTILE)
    assert hvd(*slurm).returncode == 0
    ran = subprocess.run(
        ["bash", "train_hvd.sbatch"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    said = json.loads(ran.stdout)
    assert said == ["-P", "train_hvd_ranks.py", "train_hvd.py", *HOSTILE]
    assert not (tmp_path / "here").exists()
    done = hvd("job", "train.py", "--kubernetes", "-n", 2, "-o", "k", "--", *HOSTILE)
    assert done.returncode == 0, done.stderr
    job = yaml.safe_load((tmp_path / "k" / "train_hvd.mpijob.yaml").read_text())
    launcher = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    words = launcher["args"][-len(HOSTILE) :]
    assert tuple(expanded(word) for word in words) == HOSTILE
    _, train = yaml.safe_load_all((tmp_path / "k" / "train_hvd.trainjob.yaml").read_text())
    words = train["spec"]["trainer"]["args"][-len(HOSTILE) :]
    assert tuple(expanded(word) for word in words) == HOSTILE


def expanded(word: str) -> str:
    """What Kubernetes makes of a container's argument: `$(NAME)` is replaced, `$$` is one dollar."""
    return re.sub(r"\$\$|\$\((\w+)\)", lambda m: "$" if m[0] == "$$" else f"REPLACED {m[1]}", word)


@pytest.mark.parametrize("word", HOSTILE)
def test_scalars(word: str) -> None:
    assert yaml.safe_load(to_yaml([word])) == [word]


#: What the published schema of kubeflow.org/v2beta1 knows of these, and which of them must be there.
SCHEMA: dict[str, Any] = {
    "apiVersion": str,
    "kind": str,
    "metadata": {"name": str},
    "spec": {
        "slotsPerWorker": int,
        "runPolicy": {"cleanPodPolicy": str, "backoffLimit": int},
        "sshAuthMountPath": str,
        "mpiImplementation": ("OpenMPI", "Intel", "MPICH"),
        "mpiReplicaSpecs": {
            kind: {
                "replicas": int,
                "restartPolicy": ("Never", "OnFailure", "Always"),
                "template": {
                    "spec": {
                        "restartPolicy": ("Never",),
                        "containers": [
                            {
                                "name": str,
                                "image": str,
                                "securityContext": {
                                    "runAsUser": int,
                                    "allowPrivilegeEscalation": bool,
                                },
                                "command": [str],
                                "args": [str],
                            }
                        ],
                    }
                },
            }
            for kind in ("Launcher", "Worker")
        },
    },
}


def conforms(value: Any, schema: Any, where: str = "") -> None:
    match schema:
        case dict():
            assert value.keys() == schema.keys(), where
            for key in schema:
                conforms(value[key], schema[key], f"{where}.{key}")
        case list():
            assert value, where
            for each in value:
                conforms(each, schema[0], where)
        case tuple():
            assert value in schema, where
        case _:
            assert type(value) is schema, where


def test_the_manifest_has_the_published_form(hvd, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FIT)
    job = ("job", "train.py", "--kubernetes", "-n", 8, "--slots", 2, "--image", "reg.example/a:1")
    done = hvd(*job)
    assert done.returncode == 0, done.stderr
    manifest = yaml.safe_load((tmp_path / "train_hvd.mpijob.yaml").read_text())
    conforms(manifest, SCHEMA)
    assert (manifest["apiVersion"], manifest["kind"]) == ("kubeflow.org/v2beta1", "MPIJob")
    replicas = manifest["spec"]["mpiReplicaSpecs"]
    assert (replicas["Launcher"]["replicas"], replicas["Worker"]["replicas"]) == (1, 4)
    launcher = replicas["Launcher"]["template"]["spec"]["containers"][0]
    assert launcher["args"][:2] == ["-n", "8"]
    assert launcher["image"] == "reg.example/a:1"
    assert launcher["args"][-1] == "/job/train_hvd.py"


CONTAINER = {
    "name": str,
    "image": str,
    "securityContext": {"runAsUser": int, "allowPrivilegeEscalation": bool},
}


def replicated_job(name: str, container: dict[str, Any], **template: Any) -> dict[str, Any]:
    """What the published schema knows of a part of a runtime: a Job of the batch API below a name."""
    pod = {
        "restartPolicy": ("Never", "OnFailure"),
        "securityContext": {"fsGroup": int},
        "containers": [container],
    }
    spec = {"backoffLimit": int, "template": {"spec": pod}}
    return {"name": (name,), "template": {**template, "spec": spec}}


#: What the published schema of trainer.kubeflow.org/v1alpha1 knows of these, in the order in which they are written.
RUNTIME: dict[str, Any] = {
    "apiVersion": ("trainer.kubeflow.org/v1alpha1",),
    "kind": ("TrainingRuntime",),
    "metadata": {"name": str, "labels": {"trainer.kubeflow.org/framework": str}},
    "spec": {
        "mlPolicy": {
            "numNodes": int,
            "mpi": {
                "numProcPerNode": int,
                "mpiImplementation": ("OpenMPI",),
                "sshAuthMountPath": str,
                "runLauncherAsNode": bool,
            },
        },
        "template": {
            "spec": {
                "network": {"publishNotReadyAddresses": bool},
                "successPolicy": {"operator": ("All", "Any"), "targetReplicatedJobs": [str]},
                "failurePolicy": {"maxRestarts": int},
                "replicatedJobs": list,
            }
        },
    },
}
WORKERS = replicated_job(
    "node",
    {
        **CONTAINER,
        "command": [str],
        "args": [str],
        "readinessProbe": {"tcpSocket": {"port": int}, "periodSeconds": int},
    },
)
LAUNCHER = {
    **replicated_job(
        "launcher",
        CONTAINER,
        metadata={"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": ("trainer",)}},
    ),
    "dependsOn": [{"name": ("node",), "status": ("Ready", "Complete")}],
}
TRAIN_JOB: dict[str, Any] = {
    "apiVersion": ("trainer.kubeflow.org/v1alpha1",),
    "kind": ("TrainJob",),
    "metadata": {"name": str},
    "spec": {
        "runtimeRef": {
            "apiGroup": ("trainer.kubeflow.org",),
            "kind": ("TrainingRuntime", "ClusterTrainingRuntime"),
            "name": str,
        },
        "trainer": {"numNodes": int, "numProcPerNode": int, "command": [str], "args": [str]},
    },
}
#: The names that Trainer takes for a job.
RFC_1035 = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


@pytest.mark.parametrize("name", ["train.py", "3 layers.py"])
def test_the_train_job_has_the_published_form(hvd, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FIT)
    job = ("job", name, "--kubernetes", "-n", 8, "--slots", 2, "--image", "reg.example/a:1")
    done = hvd(*job)
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.glob("*.trainjob.yaml")
    assert f"kubectl apply --filename {file.name}" in " ".join(done.stderr.split())
    runtime, train = yaml.safe_load_all(file.read_text())
    conforms(runtime, RUNTIME)
    conforms(train, TRAIN_JOB)
    workers, launcher = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    conforms(workers, WORKERS)
    conforms(launcher, LAUNCHER)
    # The job finds its runtime, and Trainer the containers, by these names.
    assert train["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
    for part in (workers, launcher):
        (container,) = part["template"]["spec"]["template"]["spec"]["containers"]
        assert (container["name"], container["image"]) == ("node", "reg.example/a:1")
    assert all(RFC_1035.fullmatch(each["metadata"]["name"]) for each in (runtime, train))
    trainer = train["spec"]["trainer"]
    assert (trainer["numNodes"], trainer["numProcPerNode"]) == (4, 2)
    assert runtime["spec"]["mlPolicy"]["numNodes"] == 4
    assert (trainer["command"], trainer["args"][:2]) == (["mpirun"], ["-n", "8"])


def test_the_recipe(hvd, tmp_path: Path) -> None:
    """It installs what the program imports, and takes along what lies beside it."""
    (tmp_path / "train.py").write_text(f"import beside, pkg.part, yaml, json\n{FIT}")
    (tmp_path / "beside.py").write_text("import further\n")
    (tmp_path / "further.py").write_text("import train_nothing\n")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "part.py").write_text("x = 1\n")
    done = hvd("job", "train.py", "--kubernetes", "-n", 2)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "train_hvd.Dockerfile").read_text()
    copied = [json.loads(line[5:]) for line in text.splitlines() if line.startswith("COPY ")]
    assert ["beside.py", "/job/"] in copied
    assert ["further.py", "/job/"] in copied
    assert ["pkg", "/job/pkg"] in copied
    assert ["train_hvd.py", "/job/"] in copied
    (install,) = (line for line in text.splitlines() if line.startswith("RUN pip install"))
    packages = {word.partition("==")[0] for word in install.split()[4:]}
    assert {"tensorflow", "numpy", "pyyaml", "psutil"} <= packages
    assert not packages & {"horovod", "tensorflow-cpu", "tensorflow_cpu", "json", "beside"}
    assert "HOROVOD_WITH_MPI=1" in text
    assert f"horovod==0.28.1 --hash=sha256:{SOURCE_HASH}" in text
    assert "--require-hashes" in text
    assert "StrictHostKeyChecking yes" in text


def test_what_pip_left_of_a_package_is_not_installed(hvd, tmp_path: Path, monkeypatch) -> None:
    left = tmp_path / "site" / "~alf-1.0.dist-info"
    left.mkdir(parents=True)
    (left / "METADATA").write_text("Metadata-Version: 2.1\nName: half\nVersion: 1.0\n")
    (left / "top_level.txt").write_text("half\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    (tmp_path / "train.py").write_text(f"import half\n{FIT}")
    done = hvd("job", "train.py", "--kubernetes", "-n", 2)
    assert done.returncode == 0, done.stderr
    assert "half==" not in (tmp_path / "train_hvd.Dockerfile").read_text()


def test_nothing_is_overwritten(hvd, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FIT)
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / "train_hvd.sbatch").symlink_to("elsewhere")
    done = hvd("job", "train.py", "--slurm", "-n", 2)
    assert done.returncode == 2
    assert "train_hvd.sbatch: there already; --force" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "elsewhere",
        "train.py",
        "train_hvd.sbatch",
    ]
    (tmp_path / "train_hvd.sbatch").unlink()
    assert hvd("job", "train.py", "--slurm", "-n", 2).returncode == 0
    before = (tmp_path / "train_hvd.sbatch").read_text()
    assert hvd("job", "train.py", "--slurm", "-n", 4).returncode == 2
    assert (tmp_path / "train_hvd.sbatch").read_text() == before
    assert hvd("job", "train.py", "--slurm", "-n", 4, "--force").returncode == 0
    assert "#SBATCH --ntasks=4" in (tmp_path / "train_hvd.sbatch").read_text()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--slurm", "-n", "0"), "at least one rank"),
        (("--slurm", "-n", "2", "--time", "1:00\n#SBATCH --wrap=x"), "--time"),
        (("--slurm", "-n", "2", "--partition", "a b"), "--partition"),
        (("--slurm", "-n", "2", "--sbatch=--comment='a b'"), "write each as --name=value"),
        (("--slurm", "-n", "2", "--sbatch=--wrap=$(x)"), "write each as --name=value"),
        (("--slurm", "-n", "2", "--sbatch='open"), "--sbatch 'open"),
        (("--slurm", "-n", "2", "--image", "x"), "--image: this is for --kubernetes"),
        (("--kubernetes", "-n", "2", "--time", "1:00"), "--time: this is for --slurm"),
        (("--kubernetes", "-n", "3", "--slots", "2"), "do not divide into workers evenly"),
        (("--kubernetes", "-n", "2", "--image", "a b"), "is not an image name"),
        (("--kubernetes", "-n", "2", "--", "\udc80"), "is not text"),
    ],
)
def test_what_cannot_be_meant(hvd, tmp_path: Path, options: tuple[str, ...], told: str) -> None:
    (tmp_path / "train.py").write_text(FIT)
    done = hvd("job", "train.py", *options)
    assert done.returncode == 2
    assert told in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["train.py"]


def test_a_refused_program_is_not_written(hvd, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text((PROGRAMS / "refused_session.py").read_text())
    assert hvd("job", "train.py", "--slurm", "-n", 2).returncode == 1
    assert [p.name for p in tmp_path.iterdir()] == ["train.py"]


def test_a_notebook_becomes_a_script(hvd, tmp_path: Path) -> None:
    """What only shows something goes without a word, what can be done before is told."""
    (tmp_path / "train.ipynb").write_text(
        notebook(
            "%matplotlib inline\n!unzip data.zip\nimport numpy as np",
            "%%bash\nls\nls -l",
            "%time n = 60\ndisplay(n)",
            FIT,
        )
    )
    done = hvd("job", "train.ipynb", "--slurm", "-n", 2)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stderr.split())
    assert "cell 0, line 2: `!unzip data.zip` is not run by the job" in said
    assert said.count("is not run by the job") == 2
    assert "%matplotlib" not in said
    script = (tmp_path / "train_hvd.py").read_text()
    assert "n = 60" in script
    assert script.startswith("display = print")
    compile(script, "train_hvd.py", "exec")


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ("files = !ls", "cell 0, line 1: `files = !ls` cannot run in a script"),
        ("x = 1\n%cd data", "cell 0, line 2: `%cd data` cannot"),
        ("%run other.py", "`%run other.py` cannot"),
        ("%env A=1", "`%env A=1` cannot"),
        ("await f()", "not a Python script"),
        ("get_ipython().system('ls')", "`get_ipython` exists in notebooks only"),
    ],
)
def test_what_only_ipython_can_do(hvd, tmp_path: Path, cell: str, told: str) -> None:
    (tmp_path / "train.ipynb").write_text(notebook(cell, FIT))
    done = hvd("job", "train.ipynb", "--slurm", "-n", 2)
    assert done.returncode == 2, done.stderr
    assert told in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["train.ipynb"]


def test_a_script_keeps_its_encoding(hvd, tmp_path: Path) -> None:
    text = f"# coding: latin-1\nname = 'é'\n{FIT}"
    (tmp_path / "train.py").write_bytes(text.encode("latin-1"))
    assert hvd("job", "train.py", "--slurm", "-n", 2).returncode == 0
    assert "'é'" in (tmp_path / "train_hvd.py").read_bytes().decode("latin-1")


def test_the_starter_is_one_whole_file(tmp_path: Path) -> None:
    """No name in it stands for two things, and outside a job of Slurm it says so."""
    text = starter_text()
    names = re.findall(r"^(?:def|class) (\w+)|^([A-Z_]+)(?:: [^=]+)? =", text, re.MULTILINE)
    bound = [one or other for one, other in names]
    assert len(bound) == len(set(bound))
    assert "jupyter_hvd" not in re.sub(r'""".*?"""', "", text, flags=re.DOTALL)
    (tmp_path / "ranks.py").write_text(text)
    outside = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "PYTHONPATH"))}
    done = subprocess.run(
        [sys.executable, "-P", tmp_path / "ranks.py", "x.py"],
        env=outside,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1
    assert done.stderr.strip().endswith("this is not a Slurm job: submit the script with sbatch")


@pytest.mark.parametrize("text", ["---", "A_hvd", "x" * 100, "_"])
def test_labels(text: str) -> None:
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?", kubernetes_name(text))


def test_the_folder_that_is_printed_can_be_typed(hvd, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FIT)
    done = hvd("job", "train.py", "--slurm", "-n", 2, "-o", "a $b's")
    folder = shlex.quote("a $b's")
    assert f"cd {folder} && sbatch train_hvd.sbatch" in done.stderr


@pytest.mark.parametrize("text", ["a'", "'a", "a\n", "\\", "'''", '"""', "a\\'", ""])
def test_texts_are_quoted_as_literals(text: str) -> None:
    assert ast.literal_eval(quote_text(text)) == text
