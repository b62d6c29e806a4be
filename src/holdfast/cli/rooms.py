"""`holdfast rooms`: beside the commands for a running node, those that read and change the rooms in a store."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import click

from holdfast.cli.node import Node, asks_node, limit_option
from holdfast.cli.operate import ROOMS, rooms
from holdfast.cli.options import store_failed
from holdfast.cli.recordings import COMMANDS
from holdfast.cli.showing import Column, ago, counted, show, table_of
from holdfast.core.records import Unreadable, decode_room, decode_session, digest, room_key, seats_of
from holdfast.core.room_file import (
    NotARoom,
    Past,
    from_text,
    room_entries,
    room_file,
    seconds_of,
    seconds_text,
    to_text,
)
from holdfast.schemas.room import RoomFile
from holdfast.stores import NatsStore, open_store
from holdfast.stores.opening import is_on_nats, shown_store
from holdfast.stores.port import (
    ABSENT,
    Claim,
    Entry,
    Held,
    RevisionConflict,
    Store,
    StoreError,
    Unknown,
    Write,
    commit_one,
)

__all__ = ["rooms"]

for command in COMMANDS:
    rooms.add_command(command)

_KIB = 1024
_ID = re.compile(r"\w[\w-]{0,63}", re.ASCII)
_HOW_TO_CHANGE = (
    "stop it first, or use `holdfast rooms end ROOM_ID` to end a room through it. `holdfast rooms list` and `export`"
    " work while it runs."
)

# The store


@dataclass(frozen=True)
class StoredRoom:
    """A snapshot of a room's entries in a store."""

    id: str
    entries: list[Entry]

    @property
    def key(self) -> str:
        return room_key(self.id)

    @cached_property
    def stored(self) -> bytes:
        """Its record as it is stored, or `Unreadable`."""
        if self.entries[0].key != self.key:
            raise Unreadable("its record is missing")
        return self.entries[0].value

    @cached_property
    def beside(self) -> dict[str, bytes]:
        """Its other entries."""
        return {entry.key: entry.value for entry in self.entries if entry.key != self.key}

    def file(self) -> RoomFile:
        """The whole room, or `Unreadable`."""
        return room_file(self.id, self.stored, self.beside, self.key)

    def facts(self) -> dict[str, Any]:
        size = sum(len(entry.value) for entry in self.entries)
        try:
            record = decode_room(self.stored)
            seats = seats_of(record, self.key, self.beside)
        except Unreadable as error:
            return {"id": self.id, "problem": str(error), "bytes": size}
        return {
            "id": self.id,
            "kind": record.kind,
            "phase": record.phase,
            "seats": len(seats),
            "max_players": record.max_players,
            "epoch": record.epoch,
            "index": record.index,
            "saved_at": seconds_text(record.saved_at),
            "bytes": size,
        }

    def past(self) -> Past | None:
        """The revision that a replacing record continues from; None if this one cannot be read."""
        try:
            record = decode_room(self.stored)
            return Past(record.epoch, record.index, digest(self.stored))
        except Unreadable:
            return None


@asynccontextmanager
async def opened_store(url: str, claim: Claim = "shared", *, must_exist: bool = True) -> AsyncIterator[Store]:
    """Open the store at a URL; its errors become `ClickException`s."""
    scheme, _, path = url.partition(":")
    if scheme == "memory":
        raise click.ClickException("memory: is inside a running server and cannot be read from here.")
    if must_exist and scheme == "sqlite" and path and not Path(path).exists():  # noqa: ASYNC240 - once, before anything
        raise click.ClickException(f"There is no store {path}.")
    try:
        store = NatsStore(url, must_exist=must_exist) if is_on_nats(url) else open_store(url)
    except ValueError as error:
        raise click.ClickException(f"{error}.") from None
    place = shown_store(url)
    try:
        await store.open(claim)
    except ValueError as error:
        raise click.ClickException(f"{error}.") from None
    except Held as error:
        raise click.ClickException(
            f"{error.holder} runs a server with {place.removeprefix('sqlite:')}: {_HOW_TO_CHANGE}"
        ) from None
    except StoreError as error:
        raise store_failed(place, error) from None
    try:
        yield store
    except RevisionConflict:
        raise click.ClickException(
            "The room was changed at the same time, so nothing was written. If a server is using this store, stop it"
            " first."
        ) from None
    except Unknown as error:
        raise click.ClickException(
            f"{error}. The change may or may not be saved: check with `holdfast rooms list`."
        ) from None
    except StoreError as error:
        raise store_failed(place, error) from None
    finally:
        await store.close()


async def _all_rooms(store: Store) -> list[StoredRoom]:
    """Every room, ordered by id."""
    found: dict[str, list[Entry]] = {}
    for entry in await store.list("room"):
        found.setdefault(entry.key.split("/")[1], []).append(entry)
    return [StoredRoom(room_id, entries) for room_id, entries in found.items()]


async def _find_room(store: Store, room_id: str) -> StoredRoom | None:
    entries = await store.list(room_key(room_id)) if _ID.fullmatch(room_id) else []
    return StoredRoom(room_id, entries) if entries else None


async def _get_room(store: Store, room_id: str, url: str) -> StoredRoom:
    room = await _find_room(store, room_id)
    if room is None:
        raise click.ClickException(
            f"There is no room {room_id} in {shown_store(url)}; see `holdfast rooms list {shown_store(url)}`."
        )
    return room


async def _revisions(store: Store, room: StoredRoom) -> dict[str, int]:
    """The keys and revisions of a room and of the sessions with a seat in it, which cannot outlive it."""
    known = {entry.key: entry.revision for entry in room.entries}
    for entry in await store.list("session"):
        try:
            if decode_session(entry.value).room == room.id:
                known[entry.key] = entry.revision
        except Unreadable:
            continue
    return known


# list


def _size(size: float) -> str:
    if size < _KIB:
        return f"{size} B"
    return f"{size / _KIB:.1f} KiB" if size < _KIB * _KIB else f"{size / _KIB / _KIB:.1f} MiB"


_STORED: list[Column] = [
    "id",
    ("kind", lambda fact: fact.get("kind", "cannot be read")),
    "phase",
    ("seats", lambda fact: f"{fact['seats']} of {fact['max_players']}" if "seats" in fact else ""),
    "index",
    ("saved", lambda fact: ago(seconds_of(fact["saved_at"])) if "saved_at" in fact else ""),
    ("size", lambda fact: _size(fact["bytes"])),
]


@rooms.command("list")
@click.argument("store", required=False)
@click.option("--kind", default="", help="Only rooms of this kind.")
@click.option("--where", default="", metavar="EXPRESSION", help='A condition, as in "open_seats > 0 AND players >= 2".')
@click.option("--order-by", multiple=True, metavar="TERM", help='An order, as in "players desc"; repeatable.')
@limit_option
@asks_node()
def list_rooms(*, node: Node, store: str | None, limit: int, as_json: bool, **request: Any) -> None:
    """List the rooms of a running node, or those in STORE."""
    is_search = any(request.values())
    if store is None:
        empty = "No rooms match." if is_search else "There are no rooms."
        show(node.items("rooms", query=request, limit=limit), table_of(ROOMS, empty=empty), as_json=as_json)
        return
    if is_search:
        raise click.UsageError("--kind, --where and --order-by search a running node; they do not work with a STORE.")
    facts = asyncio.run(_facts(store))
    show(facts, table_of(_STORED, empty=f"There are no rooms in {store}."), as_json=as_json)
    if not as_json:
        for fact in facts:
            if "problem" in fact:
                click.echo(f"Room {fact['id']} cannot be read: {fact['problem']}.", err=True)


async def _facts(url: str) -> list[dict[str, Any]]:
    async with opened_store(url) as store:
        return [room.facts() for room in await _all_rooms(store)]


# export


@rooms.command("export", short_help="Write a room to a JSON file.")
@click.argument("store")
@click.argument("room_id", required=False)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write; with --all, the folder.")
@click.option("--all", "is_all", is_flag=True, help="Export every room to ROOM_ID.json in the folder given by -o.")
def export_room(store: str, room_id: str | None, output: Path | None, *, is_all: bool) -> None:
    """Write a room to a readable JSON file; without -o, print it.

    The file contains the whole room: properties, state, players with their data, objects and groups, timers, and the
    state of its random numbers. It does not contain sessions or pending effects. It contains no secrets but the game's
    own; only its owner can read it.
    """
    if is_all == (room_id is not None):
        raise click.UsageError("Give either a ROOM_ID or --all.")
    if room_id is not None:
        asyncio.run(_export(store, room_id, output))
        return
    if output is None:
        raise click.UsageError("--all needs a folder to write to: -o FOLDER.")
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.ClickException(f"The folder {output} cannot be created: {error.strerror}.") from None
    asyncio.run(_export_all(store, output))


async def _export(url: str, room_id: str, output: Path | None) -> None:
    async with opened_store(url) as store:
        room = await _get_room(store, room_id, url)
        try:
            await _write(store, room, output)
        except Unreadable as error:
            raise click.ClickException(f"Room {room_id} cannot be exported: {error}.") from None


async def _export_all(url: str, folder: Path) -> None:
    failed = 0
    async with opened_store(url) as store:
        found = await _all_rooms(store)
        for room in found:
            try:
                await _write(store, room, folder / f"{room.id}.json")
            except Unreadable as error:
                failed += 1
                click.echo(f"Room {room.id} cannot be exported: {error}.", err=True)
    click.echo(f"Exported {len(found) - failed} of {counted(len(found), 'room')} to {folder}.", err=True)
    if failed:
        raise SystemExit(1)


async def _write(store: Store, room: StoredRoom, output: Path | None) -> None:
    """Write a room to a file, or print it; raises `Unreadable`."""
    text = to_text(room.file())
    pending = len(await store.list(f"effect/{room.id}"))
    if pending:
        effects = counted(pending, "pending effect")
        click.echo(f"Note: the file does not contain {effects} of room {room.id}.", err=True)
    if output is None:
        click.echo(text, nl=False)
        return
    # Atomically: an incomplete copy must not replace a good one.
    unfinished = output.with_name(f".{output.name}.unfinished")
    try:
        # It holds players' data, so only its owner may read it.
        unfinished.touch(0o600)
        unfinished.write_text(text, "utf-8")
        unfinished.replace(output)
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {error.strerror}.") from None


# import


@rooms.command("import", short_help="Put an exported room into a store.")
@click.argument("store")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--id", "room_id", metavar="NEW_ID", help="Give the room this id instead of the one in the file.")
@click.option("--replace", is_flag=True, help="Replace the room that has this id.")
def import_room(store: str, file: Path, room_id: str | None, *, replace: bool) -> None:
    """Put an exported room into a store, which is created if it does not exist.

    The next server that starts with the store goes on with the room. Each seat is held for its player, who signs in and
    joins again. Guests are recognized only by a server with the same key: if this is another store, give both servers
    the same --secret-file. Players of a room that is replaced sign in again too. The file contains no password: a room
    that had one is imported without it.
    """
    try:
        read = from_text(file.read_text("utf-8"))
    except OSError as error:
        raise click.ClickException(f"{file} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise click.ClickException(f"{file} cannot be imported: {error}.") from None
    new_id = room_id or read.id
    if not _ID.fullmatch(new_id):
        raise click.ClickException(
            f"invalid room id {new_id!r}: use 1 to 64 letters, digits, _ and -; the first must not be -."
        )
    try:
        asyncio.run(_import(store, read, new_id, replace=replace))
    except NotARoom as error:
        raise click.ClickException(f"{file} cannot be imported: {error}.") from None
    click.echo(
        f"Imported room {new_id} ({read.kind}, {counted(len(read.players), 'seat')} held) into {store}:"
        " start a server with this store to go on."
    )


async def _import(url: str, file: RoomFile, room_id: str, *, replace: bool) -> None:
    async with opened_store(url, "sole", must_exist=False) as store:
        former = await _find_room(store, room_id)
        if former is not None and not replace:
            raise click.ClickException(
                f"{shown_store(url)} has a room {room_id} already: replace it with --replace, or choose another id with"
                " --id."
            )
        entries = room_entries(file, room_key(room_id), former.past() if former is not None else None)
        known = await _revisions(store, former) if former is not None else {}
        gone = [Write(key, None, revision) for key, revision in known.items() if key not in entries]
        written = [Write(key, value, known.get(key, ABSENT)) for key, value in entries.items()]
        await commit_one(store, [*written, *gone])


# delete


@rooms.command("delete", short_help="Delete a room and its sessions.")
@click.argument("store")
@click.argument("room_id")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def delete_room(store: str, room_id: str, *, yes: bool) -> None:
    """Delete a room and the sessions that have a seat in it."""
    asyncio.run(_delete(store, room_id, is_sure=yes))
    click.echo(f"Deleted room {room_id}.")


async def _delete(url: str, room_id: str, *, is_sure: bool) -> None:
    async with opened_store(url, "sole") as store:
        room = await _get_room(store, room_id, url)
        if not is_sure:
            click.confirm(f"Delete room {room_id} for good?", abort=True)
        known = await _revisions(store, room)
        await commit_one(store, [Write(key, None, revision) for key, revision in known.items()])
