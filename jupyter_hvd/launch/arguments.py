"""Where the ranks of a job go: the same options on the command line and in a cell."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING

from .base import LAUNCHERS

if TYPE_CHECKING:
    from .rank_placement import PlacementOptions


def add_place_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose hosts and launcher to a parser."""
    parser.add_argument(
        "-H", "--hosts", metavar="HOSTS", help="host:slots,…; this machine if not given"
    )
    parser.add_argument(
        "--launcher",
        choices=LAUNCHERS,
        help="where ranks come from; found out inside an allocation of Slurm, PBS, LSF or Grid Engine",
    )
    parser.add_argument("--time", metavar="LIMIT", help="Slurm: the time limit, 2:00:00")
    parser.add_argument("--partition", metavar="NAME", help="Slurm: which partition")
    parser.add_argument(
        "--salloc", metavar="OPTIONS", help="Slurm: more options, --salloc='--gpus-per-task=1'"
    )


def where_of(arguments: argparse.Namespace) -> PlacementOptions:
    """Return the hosts and the launcher that these options request."""
    from .rank_placement import PlacementOptions
    from .slurm import Resources

    more = tuple(shlex.split(arguments.salloc or ""))
    resources = Resources(arguments.time, arguments.partition, more)
    return PlacementOptions(arguments.hosts, arguments.launcher, resources)
