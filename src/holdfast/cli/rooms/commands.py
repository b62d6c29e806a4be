"""`holdfast rooms`: those of a running node, and those that a store keeps."""

import asyncio
import json
import re
import time
from collections.abc import Iterable
from pathlib import Path

import click
from rich.console import Console

from holdfast.cli.operate.node import Node, of_node
from holdfast.cli.operate.rooms import create_room, end_room, list_running, show_room, show_seats
from holdfast.cli.operate.showing import PIPE_COLUMNS
from holdfast.cli.rooms import stored
from holdfast.cli.rooms.listing import facts_of, table_of
from holdfast.cli.rooms.stored import StoredRoom, opened
from holdfast.core.records import Unreadable
from holdfast.core.room_file import NotARoom, from_text, to_text
from holdfast.schemas.room import RoomFile
from holdfast.stores.port import Store

_ID = re.compile(r"\w[\w-]{0,63}", re.ASCII)


@click.group()
def rooms() -> None:
    """Operate the rooms of a running node, or look at those that a store keeps and carry them in and out as files.

    A node is spoken to through its HTTP API: see --url. STORE is what `holdfast serve --store` was given, as in
    sqlite:game.db. To list and to export from it, the server may be running on it. To import and to delete, stop it
    first.
    """


for command in (show_room, show_seats, create_room, end_room):
    rooms.add_command(command)


# list


@rooms.command("list")
@click.argument("store", required=False)
@click.option("--kind", default="", help="Only rooms of this kind.")
@click.option("--where", default="", metavar="EXPRESSION", help='As in "open_seats > 0 AND players >= 2".')
@click.option("--order-by", multiple=True, metavar="TERM", help='As in "players desc"; repeatable.')
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="How many at most.")
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
    """List the rooms of a running node; with STORE, those that it keeps."""
    if store is None:
        request = {"kind": kind, "where": where, "order_by": order_by}
        list_running(node, request, limit, as_json=as_json)
        return
    if kind or where or order_by:
        raise click.UsageError("A store cannot be searched: --kind, --where and --order-by are for a running node.")
    found = asyncio.run(_all(store))
    facts = [facts_of(room) for room in found]
    if as_json:
        click.echo(json.dumps(facts, indent=2, ensure_ascii=False))
    elif not found:
        click.echo(f"There are no rooms in {store}.")
    else:
        console = Console(highlight=False)
        if not console.is_terminal:
            console.width = PIPE_COLUMNS
        console.print(table_of(found, now=time.time()))
        for fact in facts:
            if "problem" in fact:
                click.echo(f"Room {fact['id']} cannot be read: {fact['problem']}.", err=True)


async def _all(store: str) -> list[StoredRoom]:
    async with opened(store) as opened_store:
        return await stored.all_rooms(opened_store)


# export


@rooms.command("export", short_help="Write a room as a file that a person can read.")
@click.argument("store")
@click.argument("room_id", required=False)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write, or with --all the folder.")
@click.option("--all", "is_all", is_flag=True, help="Export every room, each to ROOM_ID.json in the folder -o.")
def export_room(store: str, room_id: str | None, output: Path | None, *, is_all: bool) -> None:
    """Write a room as a JSON file that a person can read; without -o, print it.

    The file has everything of the room: properties, state, players with their data and objects, timers, chance.
    Sessions are not part of it, nor effects that wait to be carried out. The file holds no secrets but the game's own;
    only its owner can read it.
    """
    if is_all == (room_id is not None):
        raise click.UsageError("Name a room, or say --all.")
    if is_all and output is None:
        raise click.UsageError("With --all, say where to: -o FOLDER.")
    if is_all and output is not None:
        _make_folder(output)
    asyncio.run(_export(store, room_id, output))


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.ClickException(f"The folder {folder} cannot be made: {error.strerror}.") from None


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
    click.echo(
        f"Exported {len(found) - failed} of {len(found)} room{'' if len(found) == 1 else 's'} to {folder}.", err=True
    )
    if failed:
        raise SystemExit(1)


def _found(room: StoredRoom | None, room_id: str, store: str) -> StoredRoom:
    if room is None:
        raise click.ClickException(f"There is no room {room_id} in {store}; see `holdfast rooms list {store}`.")
    return room


def _write(output: Path, file: RoomFile) -> None:
    """Whole or not at all: a copy that was cut short must not lie where a good one did."""
    unfinished = output.with_name(f".{output.name}.unfinished")
    try:
        # Players' data: nobody else's to read, unless the owner says so.
        unfinished.touch(0o600)
        unfinished.write_text(to_text(file), "utf-8")
        unfinished.replace(output)
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {error.strerror}.") from None


async def _note_effects(store: Store, room_id: str) -> None:
    waiting = await stored.effects_of(store, room_id)
    if waiting:
        what = "effect waits" if waiting == 1 else "effects wait"
        click.echo(f"Note: {waiting} {what} to be carried out for room {room_id}, and not in the file.", err=True)


# import


@rooms.command("import", short_help="Put a room that was exported into a store.")
@click.argument("store")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--id", "room_id", metavar="NEW_ID", help="Give the room this id instead of the one in the file.")
@click.option("--replace", is_flag=True, help="Put it in the place of the room that has the id now.")
def import_room(store: str, file: Path, room_id: str | None, *, replace: bool) -> None:
    """Put a room that was exported into a store, which is made if it does not exist.

    The next server that starts on the store goes on with the room. Every seat is held for its player, who signs in
    and joins as if for the first time; guests can do that only where the server has the key it had, so if this is
    another store, give both servers the same --secret-file. Who was in the room that is replaced signs in again too.
    A file holds no password: a room that had one comes back without.
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
            f"{new_id!r} cannot be a room's id: use 1 to 64 letters, digits, _ and -, not - first."
        )
    asyncio.run(_import(store, file, read, new_id, replace=replace))
    click.echo(f"Room {new_id} ({read.kind}, {_seats(read.players)}) is in {store}: start a server on it to go on.")


async def _import(store: str, path: Path, file: RoomFile, room_id: str, *, replace: bool) -> None:
    async with opened(store, "sole", must_exist=False) as opened_store:
        former = await stored.find_room(opened_store, room_id)
        if former is not None and not replace:
            raise click.ClickException(
                f"There is a room {room_id} in {store} already: say --replace to put the file in its place, or --id for"
                " another id."
            )
        try:
            await stored.put_room(opened_store, file, room_id, former)
        except NotARoom as error:
            raise click.ClickException(f"{path} cannot be imported: {error}.") from None


def _seats(players: Iterable[object]) -> str:
    number = len(list(players))
    return f"{number} seat{'' if number == 1 else 's'} held"


# delete


@rooms.command("delete", short_help="Delete a room and the sessions in it.")
@click.argument("store")
@click.argument("room_id")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete_room(store: str, room_id: str, *, yes: bool) -> None:
    """Delete a room, and the sessions of those who have a seat in it."""
    asyncio.run(_delete(store, room_id, is_sure=yes))
    click.echo(f"Room {room_id} is deleted.")


async def _delete(store: str, room_id: str, *, is_sure: bool) -> None:
    async with opened(store, "sole") as opened_store:
        room = _found(await stored.find_room(opened_store, room_id), room_id, store)
        if not is_sure:
            click.confirm(f"Delete room {room_id} for good?", abort=True)
        await stored.delete_room(opened_store, room)
