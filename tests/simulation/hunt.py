"""Which seeds find which planted bug; `python -m tests.simulation.hunt` looks for them and writes known_seeds.json.

The seeds that are known to find a bug are tried before all others, which takes a tenth of the time. A change of the
library changes what a seed does, so each bug has several; without them it is found too, but later.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.simulation.checker import Violation
from tests.simulation.cluster_world import ClusterWorld, clustered
from tests.simulation.mutants import (
    CLUSTER_MUTANTS,
    DURABLE_MUTANTS,
    MUTANTS,
    ROBBERY_MUTANTS,
    ROLLBACK_MUTANTS,
    Mutant,
)
from tests.simulation.options import Options
from tests.simulation.world import World, simulate

# Far more than any of them needs today; a mutant that needs more shows that the simulation has grown blind.
SEEDS_MAX = 40
KNOWN = Path(__file__).with_name("known_seeds.json")
# How many are kept of each, and how many are tried for them once one is found.
_KEPT = 2
_TRIED = 3
_KNOWN: dict[str, list[int]] = msgspec.json.decode(KNOWN.read_bytes(), type=dict[str, list[int]])


def rolling_back(seed: int) -> Options:
    """The world of this seed, whose store goes back in time again and again."""
    options = Options.drawn(seed)
    assert options.store is not None
    return replace(options, store=replace(options.store, has_rollbacks=True, outage_s=1.5))


def robbed(seed: int) -> Options:
    """The world of this seed, in which all is saved and used tokens are stolen."""
    options = Options.drawn(seed)
    assert options.store is not None
    store = replace(options.store, has_rollbacks=False, has_robberies=True)
    return replace(options, durability=("commit",) * 4, store=store)


def in_trouble(seed: int) -> Options:
    """The world of this seed, on nodes to which something happens all the time."""
    options = clustered(seed)
    assert options.store is not None
    return replace(options, store=replace(options.store, outage_s=1.0))


class Hunt(NamedTuple):
    """Planted bugs, and the worlds in which they show."""

    mutants: Mapping[str, Mutant]
    # Worlds of odd seeds have a store.
    first_seed: int
    world: Callable[[int], Options] = Options.drawn
    world_type: type[World] = World


PLAIN = Hunt(MUTANTS, 0)
DURABLE = Hunt(DURABLE_MUTANTS, 1)
ROLLBACKS = Hunt(ROLLBACK_MUTANTS, 1, rolling_back)
ROBBERIES = Hunt(ROBBERY_MUTANTS, 1, robbed)
CLUSTER = Hunt(CLUSTER_MUTANTS, 0, in_trouble, ClusterWorld)


def findings(hunt: Hunt, name: str) -> Iterator[tuple[int, Violation | None]]:
    """The seeds that are tried for this bug, in order, and what each has found."""
    for seed in dict.fromkeys((*_KNOWN.get(name, ()), *range(hunt.first_seed, 2 * SEEDS_MAX, 2))):
        violations: list[Violation] = []
        # With an assertion the library has found it by itself, which is not what an application sees.
        with hunt.mutants[name](), suppress(AssertionError):
            violations = simulate(hunt.world(seed), ignored=frozenset({"BUG"}), world_type=hunt.world_type).violations
        yield seed, next(iter(violations), None)


def first_found(hunt: Hunt, name: str) -> str | None:
    """What an application sees of this bug; the library's own log does not count."""
    return next((f"{seed}: {violation}" for seed, violation in findings(hunt, name) if violation), None)


def quickest_seeds(hunt: Hunt, name: str) -> list[int]:
    """Some seeds that find it, the one that takes least first."""
    found: list[tuple[float, int]] = []
    began = time.process_time()
    for tried, (seed, violation) in enumerate(findings(hunt, name), start=1):
        if violation:
            found.append((time.process_time() - began, seed))
        if len(found) == _KEPT or (found and tried >= _TRIED):
            break
        began = time.process_time()
    return [seed for _, seed in sorted(found)]


def main() -> None:
    """Write the seeds that find each bug now, but for those that the first seed finds quickest."""
    known = {}
    for hunt in (PLAIN, DURABLE, ROLLBACKS, ROBBERIES, CLUSTER):
        for name in hunt.mutants:
            began = time.process_time()
            seeds = quickest_seeds(hunt, name)
            if seeds[:1] != [hunt.first_seed]:
                known[name] = seeds
            sys.stdout.write(f"{time.process_time() - began:6.1f} s  {name}: {seeds}\n")
            sys.stdout.flush()
    lines = ",\n".join(f'  "{name}": {seeds}' for name, seeds in sorted(known.items()))
    KNOWN.write_text(f"{{\n{lines}\n}}\n", "utf-8")


if __name__ == "__main__":
    main()
