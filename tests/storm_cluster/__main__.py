"""`python -m tests.storm_cluster --kills 100`: kill, stop, drain and cut off what a cluster consists of; check it all.

Three nodes and three NATS servers are processes of this machine. As root on Linux each has a network namespace of its
own, so that its links can be cut.
"""

import argparse
import asyncio
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.storm.__main__ import say
from tests.storm.disk import enter_namespace
from tests.storm_cluster.checker import check
from tests.storm_cluster.controller import Storm
from tests.storm_cluster.network import Loopback, Namespaces, why_no_namespaces
from tests.storm_cluster.other import python_of
from tests.storm_cluster.plan import Plan
from tests.storm_cluster.summary import episodes_line, summary

_BAR = 30


class Progress:
    """One line that is written over, or a line after each episode where that cannot be."""

    def __init__(self, episodes: int) -> None:
        self._began = time.monotonic()
        self._episodes = episodes
        self._done = 0

    def show(self, storm: Storm) -> None:
        """How far it is."""
        self._done += 1
        bar = "#" * round(self._done / self._episodes * _BAR)
        line = (
            f"[{bar:.<{_BAR}}] {self._done}/{self._episodes}, {storm.counts['kills']} kills,"
            f" {storm.counts['moves']} moves, {time.monotonic() - self._began:.0f} s, last: {storm.episode}"
        )
        sys.stdout.write(f"\r{line:<110}" if sys.stdout.isatty() else f"{line}\n")
        sys.stdout.flush()


def main(words: Sequence[str]) -> int:
    """Run a storm and check it; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm_cluster", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="about how many nodes are killed; 0: the short form")
    parser.add_argument("--seed", type=int, help="do the same things in the same order again (their instants differ)")
    parser.add_argument("--folder", type=Path, help="where to write the histories; they are kept")
    parser.add_argument("--clients", type=int, default=18, help="how many clients (18); a sixth of them wander")
    parser.add_argument("--hurry", type=float, default=0.3, help="clients wait this part of their back-off (0.3)")
    parser.add_argument("--loopback", action="store_true", help="cut no links: everything is on 127.0.0.1")
    parser.add_argument("--episodes", help="do these instead, with commas between: kill node,drain,stop node 5 …")
    parser.add_argument(
        "--other", metavar="REVISION", help="lives of nodes 1 and 2 are of this Git revision, or of this"
    )
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if not arguments.loopback and not arguments.inside:
        if (why := why_no_namespaces()) is None:
            enter_namespace("tests.storm_cluster", [*words, "--inside"], more=["--net"])
        say(f"no links are cut: {why or 'network namespaces are not permitted here'}")
    network = Namespaces() if arguments.inside else Loopback()
    seed = arguments.seed if arguments.seed is not None else secrets.randbelow(10**6)
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="holdfast-storm-"))
    folder.mkdir(parents=True, exist_ok=True)
    say(f"seed {seed}, histories in {folder}")
    plan = Plan(
        seed=seed,
        kills=arguments.kills,
        clients=arguments.clients,
        hurry=arguments.hurry,
        can_cut=network.can_cut,
        given=tuple(arguments.episodes.split(",")) if arguments.episodes else (),
    )
    other = python_of(arguments.other) if arguments.other else None
    storm = Storm(plan, folder, network, Progress(plan.count).show, other)
    asyncio.run(storm.run())
    checked = check(folder)
    say(f"\nepisodes: {episodes_line(storm.counts)}\n{summary(checked)}")
    if checked.findings.violations:
        say(f"check again: {sys.executable} -m tests.storm_cluster.checker {folder}")
        say(f"repeat (instants will differ): make storm-cluster KILLS={arguments.kills} SEED={seed}{_shown(arguments)}")
    elif arguments.folder is None:
        shutil.rmtree(folder)
    return 1 if checked.findings.violations else 0


def _shown(arguments: argparse.Namespace) -> str:
    return f" OTHER={arguments.other}" if arguments.other else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
