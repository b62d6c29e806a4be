"""`python -m tests.storm --kills 1000`: kill a server again and again; nothing may be lost, duplicated or moved."""

import argparse
import asyncio
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.storm.checker import check
from tests.storm.controller import Plan, Storm
from tests.storm.disk import Disk, NatsDisk, enter_namespace
from tests.storm.summary import summary

_BAR = 30


class Progress:
    """One line that is written over, or a line now and then where that cannot be."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._shown = 0

    def show(self, storm: Storm) -> None:
        """How far it is."""
        counts, plan = storm.counts, storm.plan
        done = min(1.0, counts["kills"] / plan.kills)
        line = (
            f"[{'#' * round(done * _BAR):.<{_BAR}}] {counts['kills']}/{plan.kills} kills, {counts['stops']} stops,"
            f" {counts['zombies']} zombies ({counts['fenced']} fenced), {counts['full']} full disks or NATS kills,"
            f" {storm.back}/{len(plan.names)} back, {time.monotonic() - self._began:.0f} s"
        )
        if sys.stdout.isatty():
            sys.stdout.write(f"\r{line} ")
        elif done >= 1 or counts["kills"] >= self._shown + max(5, plan.kills // 20):
            self._shown = counts["kills"]
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def say(text: str) -> None:
    """To whoever started it."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(words: Sequence[str]) -> int:
    """Run a storm and check it; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="how many times the server is killed, or a few more")
    parser.add_argument("--seed", type=int, help="do the same things in the same order again (their instants differ)")
    parser.add_argument("--folder", type=Path, help="where to write the histories; they are kept")
    parser.add_argument("--store", choices=["sqlite", "nats"], default="sqlite", help="where rooms are saved (sqlite)")
    parser.add_argument("--quota", action="store_true", help="do not mount a disk to fill: use a quota")
    parser.add_argument("--clients", type=int, default=12, help="how many clients (12); a sixth of them wander")
    parser.add_argument("--hurry", type=float, default=1.0, help="clients wait this part of their back-off (1.0)")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    is_file = arguments.store == "sqlite"
    if is_file and not arguments.inside and not arguments.quota:
        enter_namespace("tests.storm", [*words, "--inside"])
    seed = arguments.seed if arguments.seed is not None else secrets.randbelow(10**6)
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="holdfast-storm-"))
    disk_folder = folder / "disk"
    disk_folder.mkdir(parents=True)
    say(f"seed {seed}, histories in {folder}")
    disk = Disk(disk_folder, is_own=arguments.inside) if is_file else NatsDisk(disk_folder)
    plan = Plan(seed=seed, kills=arguments.kills, clients=arguments.clients, hurry=arguments.hurry)
    try:
        asyncio.run(Storm(plan, folder, disk, Progress().show).run())
    finally:
        disk.close()
    findings = check(folder)
    say("\n" + summary(findings))
    if findings.violations:
        say(f"check again: {sys.executable} -m tests.storm.checker {folder}")
        say(f"repeat (instants will differ): make storm STORE={arguments.store} KILLS={arguments.kills} SEED={seed}")
    elif arguments.folder is None:
        shutil.rmtree(folder)
    return 1 if findings.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
