"""`holdfast store`: copy a whole store to another place, such as a SQLite file into a cluster."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import click

from holdfast.cli.rooms import opened_store
from holdfast.cli.showing import counted
from holdfast.cluster.child_nats import ChildNats, ChildNatsFailed
from holdfast.core.limits import MIB
from holdfast.stores.opening import shown_store
from holdfast.stores.port import ABSENT, Entry, Store, Write

_DATA = "data:"
_COMMIT_BYTES = 4 * MIB
_COMMIT_WRITES = 500


@click.group()
def store() -> None:
    """Copy a store: rooms, sessions, accounts, bans and keys."""


@store.command()
@click.argument("source")
@click.argument("target")
def copy(source: str, target: str) -> None:
    """Copy everything from one store to another that is empty.

    Both are a file (sqlite:game.db), a store on NATS or a cluster (nats://127.0.0.1:4222/arena), or a folder of
    --workers (data:game.holdfast). No server may use them meanwhile. Afterwards start the servers on TARGET: players
    resume where they were. SOURCE stays as it is; two servers must not go on from both.
    """
    copied = asyncio.run(_copy(source, target))
    click.echo(f"Copied {counted(copied, 'record')} from {shown(source)} to {shown(target)}.")


def shown(place: str) -> str:
    """The place without its secrets."""
    return place if place.startswith(_DATA) else shown_store(place)


async def _copy(source: str, target: str) -> int:
    if source == target:
        raise click.UsageError("SOURCE and TARGET are the same store.")
    async with _opened(source, must_exist=True) as old, _opened(target, must_exist=False) as new:
        if await new.list(""):
            raise click.ClickException(f"{shown(target)} is not empty: name a new store.")
        entries = await old.list("")
        done = 0
        for some in _portions(entries):
            # Each record alone: they are copied whole anyway, or the copy is not used.
            for outcome in await new.commit([[Write(entry.key, entry.value, ABSENT)] for entry in some]):
                if not isinstance(outcome, list):
                    raise click.ClickException(
                        f"Somebody else writes to {shown(target)} ({outcome}). The copy has {done} of {len(entries)}"
                        " records: do not use it. Copy again, to a new store."
                    )
                done += 1
    return done


def _portions(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    some: list[Entry] = []
    size = 0
    for entry in entries:
        if some and (len(some) == _COMMIT_WRITES or size + len(entry.value) > _COMMIT_BYTES):
            yield some
            some, size = [], 0
        some.append(entry)
        size += len(entry.value)
    if some:
        yield some


@asynccontextmanager
async def _opened(place: str, *, must_exist: bool) -> AsyncIterator[Store]:
    """The store, which nobody else uses meanwhile."""
    folder = place.removeprefix(_DATA)
    if folder == place:
        async with opened_store(place, "sole", must_exist=must_exist) as store:
            yield store
        return
    if must_exist and not Path(folder).is_dir():  # noqa: ASYNC240 - once, before anything
        raise click.ClickException(f"There is no folder {folder}.")
    nats = ChildNats(Path(folder))
    try:
        await nats.start()
    except ChildNatsFailed as error:
        raise click.ClickException(f"{error}.") from None
    try:
        async with opened_store(nats.url(), "sole", must_exist=must_exist) as store:
            yield store
    finally:
        await nats.stop()
