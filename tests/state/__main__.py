"""`make fuzz-state SYNCS=10000000`: random changes of a state; after each patch the mirrors are compared with it."""

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import click

from tests.state.follow import follow
from tests.state.test_memento import roll_back

SYNCS_PER_SEED = 50


def try_seed(seed: int) -> str:
    """Follow one world; the problem, if there is one."""
    try:
        follow(seed, SYNCS_PER_SEED)
        roll_back(seed)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong is to be shown with its seed
        return f"{type(error).__name__}: {error}"[:2000]
    return ""


def problems(first: int, seeds: int) -> Iterator[tuple[int, str]]:
    """The seeds that fail, as they are found; the progress is shown."""
    with ProcessPoolExecutor(os.cpu_count()) as pool, click.progressbar(length=seeds, label="seeds") as bar:
        # In batches: what is submitted is kept in memory.
        for start in range(first, first + seeds, 1000):
            batch = range(start, min(start + 1000, first + seeds))
            for seed, problem in zip(batch, pool.map(try_seed, batch, chunksize=10), strict=True):
                bar.update(1)
                if problem:
                    yield seed, problem


@click.command()
@click.option("--syncs", type=click.IntRange(min=1), default=1_000_000, show_default=True)
@click.option("--seed", type=int, help="Only this one.")
def main(syncs: int, seed: int | None) -> None:
    """Look for a client with another state than the server."""
    if seed is not None:
        follow(seed, SYNCS_PER_SEED)
        roll_back(seed)
        return
    seeds = -(-syncs // SYNCS_PER_SEED)
    failed = list(problems(0, seeds))
    for number, problem in failed[:10]:
        click.echo(f"make fuzz-state SEED={number}: {problem}", err=True)
    click.echo(f"{seeds * SYNCS_PER_SEED:,} syncs, {len(failed)} seeds with a wrong mirror")
    if failed:
        raise click.exceptions.Exit(1)


if __name__ == "__main__":
    main()
