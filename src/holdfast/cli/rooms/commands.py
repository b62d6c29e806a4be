"""`holdfast rooms`: the rooms of a running node, and the rooms in a store."""

import asyncio
import re
from pathlib import Path
from typing import Any

import click

from holdfast.cli.operate.node import Node, limit_option, of_node
from holdfast.cli.operate.rooms import create_room, end_room, list_running, show_room, show_seats
from holdfast.cli.operate.showing import Column, ago, show_list
from holdfast.cli.rooms import stored
from holdfast.cli.rooms.stored import StoredRoom, opened
from holdfast.cli.startup import counted
from holdfast.core.records import Unreadable
from holdfast.core.room_file import NotARoom, from_text, to_text
from holdfast.core.tagged import seconds_of, seconds_text
from holdfast.schemas.room import RoomFile
from holdfast.stores.port import Store

_KIB = 1024
_ID = re.compile(r"\w[\w-]{0,63}", re.ASCII)


_STORED: list[Column] = [
    "id",
    ("kind", lambda fact: fact.get("kind", "cannot be read")),
    "phase",
    ("seats", lambda fact: f"{fact['seats']} of {fact['max_players']}" if "seats" in fact else ""),
    "index",
    ("saved", lambda fact: ago(seconds_of(fact["saved_at"])) if "saved_at" in fact else ""),
    ("size", lambda fact: _size(fact["bytes"])),
]


@click.group()
def rooms() -> None:
    """Operate the rooms of a running node; list, export, import and delete the rooms in a store.

    Commands for a running node use its HTTP API: see --url. STORE is what `holdfast serve --store` was given, as in
    sqlite:game.db. `list` and `export` work while a server uses the store; stop it before `import` and `delete`.
    """


for command in (show_room, show_seats, create_room, end_room):
    rooms.add_command(command)


# list


@rooms.command("list")
@click.argument("store", required=False)
@click.option("--kind", default="", help="Only rooms of this kind.")
@click.option("--where", default="", metavar="EXPRESSION", help='A condition, as in "open_seats > 0 AND players >= 2".')
@click.option("--order-by", multiple=True, metavar="TERM", help='An order, as in "players desc"; repeatable.')
@limit_option
@of_node
def list_rooms(
    *,
    node: Node,
    store: str | None,
    kind: str,
    where: str,
    order_by: tuple[str, ...],
    limit: int,
    as_json: bool,
) -> None:
    """List the rooms of a running node, or those in STORE."""
    if store is None:
        request = {"kind": kind, "where": where, "order_by": order_by}
        list_running(node, request, limit, as_json=as_json)
        return
    if kind or where or order_by:
        raise click.UsageError("--kind, --where and --order-by search a running node; they do not work with a STORE.")
    facts = [_facts(room) for room in asyncio.run(_all(store))]
    show_list(facts, _STORED, as_json=as_json, empty=f"There are no rooms in {store}.")
    if not as_json:
        for fact in facts:
            if "problem" in fact:
                click.echo(f"Room {fact['id']} cannot be read: {fact['problem']}.", err=True)


async def _all(store: str) -> list[StoredRoom]:
    async with opened(store) as opened_store:
        return await stored.all_rooms(opened_store)


def _facts(room: StoredRoom) -> dict[str, Any]:
    """A summary of a room."""
    try:
        record, seats = room.record, room.seats
    except Unreadable as error:
        return {"id": room.id, "problem": str(error), "bytes": room.size}
    return {
        "id": room.id,
        "kind": record.kind,
        "phase": record.phase,
        "seats": len(seats),
        "max_players": record.max_players,
        "epoch": record.epoch,
        "index": record.index,
        "saved_at": seconds_text(record.saved_at),
        "bytes": room.size,
    }


def _size(size: float) -> str:
    if size < _KIB:
        return f"{size} B"
    return f"{size / _KIB:.1f} KiB" if size < _KIB * _KIB else f"{size / _KIB / _KIB:.1f} MiB"


# export


@rooms.command("export", short_help="Write a room to a JSON file.")
@click.argument("store")
@click.argument("room_id", required=False)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write; with --all, the folder.")
@click.option("--all", "is_all", is_flag=True, help="Export every room to ROOM_ID.json in the folder given by -o.")
def export_room(store: str, room_id: str | None, output: Path | None, *, is_all: bool) -> None:
    """Write a room to a readable JSON file; without -o, print it.

    The file contains the whole room: properties, state, players with their data and objects, timers, and the state of
    its random numbers. It does not contain sessions or pending effects. It contains no secrets but the game's own; only
    its owner can read it.
    """
    if is_all == (room_id is not None):
        raise click.UsageError("Give either a ROOM_ID or --all.")
    if is_all and output is None:
        raise click.UsageError("--all needs a folder to write to: -o FOLDER.")
    if is_all and output is not None:
        _make_folder(output)
    asyncio.run(_export(store, room_id, output))


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.ClickException(f"The folder {folder} cannot be created: {error.strerror}.") from None


async def _export(store: str, room_id: str | None, output: Path | None) -> None:
    async with opened(store) as opened_store:
        if room_id is None:
            assert output is not None
            await _export_all(opened_store, output)
            return
        room = _found(await stored.find_room(opened_store, room_id), room_id, store)
        try:
            file = room.file()
        except Unreadable as error:
            raise click.ClickException(f"Room {room_id} cannot be exported: {error}.") from None
        await _note_effects(opened_store, room_id)
        if output is None:
            click.echo(to_text(file), nl=False)
        else:
            _write(output, file)


async def _export_all(store: Store, folder: Path) -> None:
    failed = 0
    found = await stored.all_rooms(store)
    for room in found:
        try:
            _write(folder / f"{room.id}.json", room.file())
        except Unreadable as error:
            failed += 1
            click.echo(f"Room {room.id} cannot be exported: {error}.", err=True)
            continue
        await _note_effects(store, room.id)
    click.echo(f"Exported {len(found) - failed} of {counted(len(found), 'room')} to {folder}.", err=True)
    if failed:
        raise SystemExit(1)


def _found(room: StoredRoom | None, room_id: str, store: str) -> StoredRoom:
    if room is None:
        raise click.ClickException(f"There is no room {room_id} in {store}; see `holdfast rooms list {store}`.")
    return room


def _write(output: Path, file: RoomFile) -> None:
    """Write the file atomically: an incomplete copy must not replace a good one."""
    unfinished = output.with_name(f".{output.name}.unfinished")
    try:
        # It holds players' data, so only its owner may read it.
        unfinished.touch(0o600)
        unfinished.write_text(to_text(file), "utf-8")
        unfinished.replace(output)
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {error.strerror}.") from None


async def _note_effects(store: Store, room_id: str) -> None:
    pending = await stored.effects_of(store, room_id)
    if pending:
        effects = counted(pending, "pending effect")
        click.echo(f"Note: the file does not contain {effects} of room {room_id}.", err=True)


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
    asyncio.run(_import(store, file, read, new_id, replace=replace))
    click.echo(
        f"Imported room {new_id} ({read.kind}, {counted(len(read.players), 'seat')} held) into {store}:"
        " start a server with this store to go on."
    )


async def _import(store: str, path: Path, file: RoomFile, room_id: str, *, replace: bool) -> None:
    async with opened(store, "sole", must_exist=False) as opened_store:
        former = await stored.find_room(opened_store, room_id)
        if former is not None and not replace:
            raise click.ClickException(
                f"{store} has a room {room_id} already: replace it with --replace, or choose another id with --id."
            )
        try:
            await stored.put_room(opened_store, file, room_id, former)
        except NotARoom as error:
            raise click.ClickException(f"{path} cannot be imported: {error}.") from None


# delete


@rooms.command("delete", short_help="Delete a room and its sessions.")
@click.argument("store")
@click.argument("room_id")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def delete_room(store: str, room_id: str, *, yes: bool) -> None:
    """Delete a room and the sessions that have a seat in it."""
    asyncio.run(_delete(store, room_id, is_sure=yes))
    click.echo(f"Deleted room {room_id}.")


async def _delete(store: str, room_id: str, *, is_sure: bool) -> None:
    async with opened(store, "sole") as opened_store:
        room = _found(await stored.find_room(opened_store, room_id), room_id, store)
        if not is_sure:
            click.confirm(f"Delete room {room_id} for good?", abort=True)
        await stored.delete_room(opened_store, room)
