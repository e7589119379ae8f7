"""What is to be built: Horovod's flags, what they need of the system, and where the wheel is kept."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..files import cache_folder
from ..package_versions import TENSORFLOW, version_of

HOROVOD = "0.28.1"
#: The SHA-256 of that release's source archive: nothing of another one is run.
SOURCE_HASH = "92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0"
PATCHES = tuple(sorted((Path(__file__).parent / "patches").glob("*.patch")))
#: Headers that Horovod uses without including them: newer compilers' libraries (GCC 14's) no longer bring them in by others.
HEADERS = (
    "algorithm atomic condition_variable cstdint cstring functional map memory mutex set stdexcept string thread "
    "unordered_map vector"
)
#: The oldest TensorFlow that Horovod's last release can be built for.
OLDEST = (2, 6)
#: What Horovod's own setup imports, and what it needs when it runs; nothing is fetched for a build apart.
PYTHON_PACKAGES = ("setuptools", "wheel", "packaging", "cloudpickle", "psutil", "pyyaml")
#: Programs that a build calls, each with the Debian package that has it.
TOOLS = {"cmake": "cmake", "g++": "g++", "make": "make"}


class CannotBuildError(Exception):
    """Horovod cannot be built here; the message says what to do."""


@dataclass(frozen=True)
class Build:
    """One way to build Horovod.

    Attributes:
        tensorflow: the version that it is for.
        gpu: sums are made by NCCL. mpi: ranks may be started by `mpirun`, beside Gloo.
    """

    tensorflow: str
    gpu: bool = False
    mpi: bool = False

    @property
    def build_flags(self) -> dict[str, str]:
        """Horovod's variables of the environment. Gloo is always there: `jupyter hvd run` needs no MPI."""
        flags = {
            "HOROVOD_WITH_TENSORFLOW": "1",
            "HOROVOD_WITHOUT_PYTORCH": "1",
            "HOROVOD_WITHOUT_MXNET": "1",
            "HOROVOD_WITH_GLOO": "1",
            "HOROVOD_WITH_MPI" if self.mpi else "HOROVOD_WITHOUT_MPI": "1",
            "HOROVOD_CPU_OPERATIONS": "MPI" if self.mpi else "GLOO",
            # Horovod brings an old Gloo along, which newer CMakes refuse without this.
            "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
            "CXXFLAGS": " ".join(f"-include {header}" for header in HEADERS.split()),
            "MAKEFLAGS": f"-j{os.cpu_count() or 1}",
        }
        return flags | ({"HOROVOD_GPU_OPERATIONS": "NCCL"} if self.gpu else {})

    def find_missing(self, environment: Mapping[str, str] = os.environ) -> list[str]:
        """Return a text for each system program or header that the build lacks, with advice on how to install it."""
        lacking = [name for name in TOOLS if shutil.which(name) is None]
        said = []
        if lacking:
            packages = " ".join(TOOLS[name] for name in lacking)
            said.append(f"{', '.join(lacking)}: apt-get install {packages}")
        if self.mpi and shutil.which("mpicxx") is None:
            said.append("mpicxx: apt-get install libopenmpi-dev openmpi-bin")
        if self.gpu and not _is_there("nvcc", environment, "HOROVOD_CUDA_HOME", "CUDA_HOME"):
            said.append("nvcc: install the CUDA toolkit, or name its folder in HOROVOD_CUDA_HOME")
        if self.gpu and not _has_nccl_header(environment):
            said.append(
                "nccl.h: install libnccl2 and libnccl-dev, or name NCCL's folder in HOROVOD_NCCL_HOME"
            )
        return said

    @property
    def folder_name(self) -> str:
        """The name of the wheel's folder: the wheel's own name is the same for every TensorFlow and compiler."""
        python = f"py{sys.version_info.major}{sys.version_info.minor}"
        parts = [HOROVOD, f"tf{self.tensorflow}", python, f"gcc{compiler_version()}"]
        parts += ["gpu"] * self.gpu + ["mpi"] * self.mpi
        return f"horovod-{'-'.join(parts)}"

    @property
    def wheel_folders(self) -> tuple[Path, Path]:
        """The folders for wheels: the user's cache, or this environment where the cache cannot be written."""
        return cache_folder(), Path(sys.prefix) / "share" / "jupyter-hvd"


def installed_tensorflow() -> str:
    """Return the version of TensorFlow in this environment.

    Raises:
        CannotBuildError: there is none, or Horovod cannot be built for it.
    """
    found = version_of(*TENSORFLOW)
    if found is None:
        raise CannotBuildError("there is no TensorFlow here: pip install tensorflow")
    numbers = tuple(int(n) for n in re.findall(r"\d+", found)[:2])
    if numbers < OLDEST:
        raise CannotBuildError(
            f"Horovod {HOROVOD} cannot be built for TensorFlow {found}: pip install --upgrade tensorflow"
        )
    return found


def compiler_version() -> str:
    """Return the version of g++; `none` if it is not installed, `unknown` if it reports none."""
    if shutil.which("g++") is None:
        return "none"
    asked = ["g++", "-dumpfullversion"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603
    return done.stdout.strip() or "unknown"


def _is_there(tool: str, environment: Mapping[str, str], *home_variables: str) -> bool:
    """Whether a tool is on the PATH, or in `bin` of a folder that one of these environment variables names."""
    folders = [environment[home] for home in home_variables if environment.get(home)]
    return shutil.which(tool) is not None or any(
        (Path(folder) / "bin" / tool).exists() for folder in [*folders, "/usr/local/cuda"]
    )


def _has_nccl_header(environment: Mapping[str, str]) -> bool:
    """Whether the build finds `nccl.h`: in HOROVOD_NCCL_INCLUDE, HOROVOD_NCCL_HOME or the system's include folders."""
    named = environment.get("HOROVOD_NCCL_INCLUDE")
    home = environment.get("HOROVOD_NCCL_HOME")
    folders = [named] if named else [f"{home}/include"] if home else []
    folders += ["/usr/include", "/usr/local/include", "/usr/local/cuda/include"]
    return any((Path(folder) / "nccl.h").exists() for folder in folders)
