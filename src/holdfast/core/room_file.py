"""A room as a file: JSON that shows everything the store has of it, and from which it can be put back.

What is the game's own (properties, state, data, arguments of timers) can be any MessagePack value. It is written as
JSON that a person can read and edit, and read back without loss: text, numbers, true, false, null, arrays and objects
are themselves, and the rest is an object with one key.

    {"$bytes": "aGVsbG8="}                        binary data, in base64
    {"$int": "9223372036854775807"}               an integer beyond 2^53, which many tools would round
    {"$float": "nan"}                             nan, inf or -inf
    {"$time": "2026-11-15T12:00:00.500000Z"}      a point in time
    {"$ext": [5, "aGVsbG8="]}                     any other extension, by its number
    {"$map": [[1, "one"], ["$bytes", "text"]]}    an object with a key that is not text, or begins with "$"

Left out are:
- sessions: half of each is in a client, and went on since. The seats of a room that is put back are held for their
  players by id, who sign in, join, and are told the current state (`on_resync`). `stream`, the room's part of a
  session, is there to be read only.
- effects that wait to be carried out: they stay in the store.
- the password: a file is passed on, and its hash could be guessed. A room that is put back has none until one is set.
- the idempotency key of the room's creation: a request with that key makes a room of its own.
"""

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from math import inf, isfinite
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.msgpack import Ext

from holdfast.core.codec import DECODE_ERRORS
from holdfast.core.records import (
    PARTS_NONE,
    SERVER,
    Unreadable,
    decode_room,
    digest,
    encode,
    encode_listed,
    groups_of,
    owners_of,
    parts_sum,
    seats_of,
    timers_of,
)
from holdfast.core.room_context import EVERY_S_MIN
from holdfast.core.room_listing import CODE_LENGTH, spelled
from holdfast.core.tokens import printable
from holdfast.schemas.player import PlayerFile, SeatRecord, StreamFile
from holdfast.schemas.projection import project
from holdfast.schemas.room import (
    FILE_FORMAT,
    FILE_VERSION,
    GroupRecord,
    HexText,
    ListingFile,
    ListingRecord,
    ObjectsRecord,
    ReservationFile,
    ReservationRecord,
    RoomFile,
    RoomRecord,
    TimerFile,
    TimerRecord,
    TimeText,
)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode
_decode_part = msgspec.msgpack.Decoder(tuple[str, Raw]).decode
# A line of the file is about this long.
_LINE_CHARACTERS = 100
# How the body of a message begins if it is JSON; MessagePack begins an object or an array with other bytes.
_JSON_STARTS = b"{["
_HASH_DIGITS = 2 * len(PARTS_NONE)
_HEX_DIGITS = frozenset("0123456789abcdef")
_RANDOM_MAX = 2**64 - 1
# Up to here, floats represent every integer.
_INT_EXACT = 2**53
# The epoch, used with MessagePack's timestamp extension: a `datetime` without importing a clock.
_EPOCH = msgspec.msgpack.decode(b"\xd6\xff\x00\x00\x00\x00")


class NotARoom(ValueError):
    """A file that no room can be made of, and why."""


# From the store


def room_file(room_id: str, stored: bytes, beside: Mapping[str, bytes], key: str) -> RoomFile:
    """The file of a room, from its record and what lies beside it (by whole keys); `Unreadable` if it is damaged."""
    record = decode_room(stored)
    if parts_sum(beside) != record.parts:
        raise Unreadable("what lies beside its record does not belong to it: parts are missing or damaged")
    seats, owners = seats_of(record, key, beside), owners_of(record, key, beside)
    timers, groups = timers_of(record, key, beside), _groups_by_seat(groups_of(record, key, beside))
    try:
        reservations = [
            project(
                each,
                ReservationFile,
                until=seconds_text(each.until),
                options=to_json(_decode(each.options)) if each.options is not None else None,
            )
            for each in record.listing.reservations
        ]
        state = beside[f"{key}/state"] if record.has_state_beside else record.state
        return project(
            record,
            RoomFile,
            id=room_id,
            phase="playing" if record.phase == "playing" else "lobby",
            listing=project(record.listing, ListingFile, reservations=reservations),
            properties=to_json(_decode(record.properties)),
            state=to_json(_decode(state)),
            parts=_parts(beside, key),
            players=[_player(seat, _owned(owners, seat.number), groups.get(seat.number, [])) for seat in seats],
            objects=_owned(owners, SERVER),
            # By the wall clock, for people to read.
            timers=[_timer(timer, record.saved_at + timer.due_at - record.clock) for timer in timers],
            random=HexText(hex(record.random)),
            created_at=seconds_text(record.created_at),
            saved_at=seconds_text(record.saved_at),
            hash=digest(stored).hex(),
        )
    except (*DECODE_ERRORS, OverflowError, LookupError) as error:
        raise Unreadable(str(error)) from None


def _parts(beside: Mapping[str, bytes], key: str) -> dict[str, dict[str, Any]]:
    parts: dict[str, dict[str, Any]] = {}
    for each, stored in beside.items():
        field = each.removeprefix(f"{key}/").partition("/")[0]
        # The state, and what begins with @ (seats, objects, timers), are no fields of the game's.
        if each != f"{key}/state" and not field.startswith("@"):
            name, value = _decode_part(stored)
            parts.setdefault(field, {})[name] = to_json(_decode(value))
    return parts


def _owned(owners: Mapping[str, int], number: int) -> list[str]:
    return sorted(object_id for object_id, owner in owners.items() if owner == number)


def _groups_by_seat(groups: list[GroupRecord]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for group in groups:
        for number in group.seats:
            found.setdefault(number, []).append(group.name)
    return found


def _player(seat: SeatRecord, owned: list[str], groups: list[str]) -> PlayerFile:
    stream = None
    if (channel := seat.channel) is not None:
        kept = [{"type": name, "body": _body(body)} for name, body in channel.kept]
        stream = StreamFile(channel.applied, channel.last_seq, kept)
    options = to_json(_decode(seat.options))
    return project(
        seat,
        PlayerFile,
        data=to_json(_decode(seat.data)),
        options=options,
        owned=owned,
        stream=stream,
        groups=groups,
    )


def _body(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body) if body[:1] in _JSON_STARTS else to_json(_decode(body))
    except DECODE_ERRORS:
        return to_json(body)


def _timer(timer: TimerRecord, due_at: float) -> TimerFile:
    arguments = [{tag: value if tag == "player" else to_json(value)} for tag, value in timer.arguments]
    return TimerFile(seconds_text(due_at), timer.method, arguments, timer.name, timer.every_s)


# As text


def to_text(file: RoomFile) -> str:
    """The file as it is written."""
    return _layout(msgspec.to_builtins(file), "") + "\n"


def _layout(value: Any, indent: str) -> str:
    """JSON with what is short on one line."""
    line = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if len(indent) + len(line) <= _LINE_CHARACTERS and indent:
        return line
    inner = indent + "  "
    if isinstance(value, dict) and value:
        fields = [
            f"{inner}{json.dumps(key, ensure_ascii=False)}: {_layout(each, inner)}" for key, each in value.items()
        ]
        return "{\n" + ",\n".join(fields) + f"\n{indent}}}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(inner + _layout(each, inner) for each in value) + f"\n{indent}]"
    return line


def from_text(text: str) -> RoomFile:
    """A file that was read, or `NotARoom` with what is wrong with it and where."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotARoom(f"it is not JSON: {error}") from None
    if not isinstance(found, dict) or found.get("format") != FILE_FORMAT:
        raise NotARoom(f'it is not an exported room: its "format" is not "{FILE_FORMAT}"')
    if isinstance(found.get("version"), int) and found["version"] > FILE_VERSION:
        raise NotARoom(
            f"it is of version {found['version']}, and this Holdfast reads up to {FILE_VERSION}: use a newer one"
        )
    try:
        return msgspec.convert(found, RoomFile)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        raise NotARoom(f"{where.strip('.`')}: {what}" if where else what) from None


# Back to the store


class Past(Struct, frozen=True):
    """Which record the room goes on from: the one in the file, or the one that the file takes the place of."""

    epoch: int
    index: int
    hash: bytes


def room_entries(file: RoomFile, key: str, past: Past | None = None) -> dict[str, bytes]:
    """What to store under this key and beside it, or `NotARoom`. To those who had the room, this is another owner."""
    _check(file)
    try:
        beside = {
            f"{key}/{field}/{printable(name.encode())}": _encode((name, from_json(value, f"parts.{field}.{name}")))
            for field, entries in file.parts.items()
            for name, value in entries.items()
        }
        record = _record(file, past or Past(file.epoch, file.index, bytes.fromhex(file.hash)), parts_sum(beside))
        return {key: encode(record), **beside}
    except (*DECODE_ERRORS, TypeError, OverflowError) as error:
        raise NotARoom(str(error)) from None


def _check(file: RoomFile) -> None:
    for name, least in (("max_players", 1), ("epoch", 0), ("index", 0)):
        if (number := getattr(file, name)) < least:
            raise NotARoom(f"{name}: it must be {least} or more, not {number}")
    if len(file.hash) != _HASH_DIGITS or not _HEX_DIGITS.issuperset(file.hash):
        raise NotARoom(f"hash: it must have {_HASH_DIGITS} hexadecimal digits")
    seen: set[str] = set()
    for object_id in [*file.objects, *(each for player in file.players for each in player.owned)]:
        if object_id in seen:
            raise NotARoom(f"object {object_id!r} is there twice, and can have one owner only")
        seen.add(object_id)
    names = [timer.name for timer in file.timers if timer.name]
    if len(set(names)) < len(names):
        raise NotARoom(f"timers: two have the same name, and a room has one of each; the names are {sorted(names)}")


def _record(file: RoomFile, past: Past, parts: bytes) -> RoomRecord:
    random = int(file.random, 16)
    if not 0 <= random <= _RANDOM_MAX:
        raise NotARoom(f"random: {file.random} has more than 64 bits")
    properties = from_json(file.properties, "properties")
    if not isinstance(properties, dict):
        raise NotARoom("properties: they must be an object")
    return project(
        file,
        RoomRecord,
        node="import",
        epoch=past.epoch + 1,
        index=past.index + 1,
        previous=past.hash,
        saved_at=seconds_of(file.saved_at),
        properties=Raw(_encode(properties)),
        random=random,
        # In the record, large or not: the server that takes the room over lays it where it wants it.
        state=Raw(_encode(from_json(file.state, "state"))),
        has_state_beside=False,
        seats=[_seat(number, player) for number, player in enumerate(file.players)],
        objects=[Raw(encode_listed(ObjectsRecord(0, _owners(file))))],
        timers=[Raw(encode_listed(_stored_timer(number, timer))) for number, timer in enumerate(file.timers)],
        parts=parts,
        created_at=seconds_of(file.created_at),
        is_final=True,
        listing=_stored_listing(file.listing),
        groups=[Raw(encode_listed(group)) for group in _groups(file)],
        # Timers of the file go by the wall clock, as it was then.
        clock=seconds_of(file.saved_at),
    )


def _stored_listing(file: ListingFile) -> ListingRecord:
    if file.code and (len(file.code) != CODE_LENGTH or spelled(file.code) != file.code):
        raise NotARoom(f"listing.code: {file.code!r} is no code; leave it empty, and the next server makes one up")
    reservations = [
        project(
            each,
            ReservationRecord,
            until=seconds_of(each.until),
            options=_options(each.options, f"listing.reservations[{number}].options"),
        )
        for number, each in enumerate(file.reservations)
    ]
    return project(file, ListingRecord, reservations=reservations)


def _seat(number: int, player: PlayerFile) -> Raw:
    data = Raw(_encode(from_json(player.data, f"players[{number}].data")))
    options = Raw(_encode(from_json(player.options, f"players[{number}].options")))
    record = SeatRecord(player.player, "", data, number + 1, name=player.name, agent=player.agent, options=options)
    return Raw(encode_listed(record))


def _options(options: Any, where: str) -> bytes | None:
    return _encode(from_json(options, where)) if options is not None else None


def _owners(file: RoomFile) -> dict[str, int]:
    owners = dict.fromkeys(file.objects, SERVER)
    for number, player in enumerate(file.players, start=1):
        owners.update(dict.fromkeys(player.owned, number))
    return owners


def _groups(file: RoomFile) -> list[GroupRecord]:
    seats: dict[str, list[int]] = {}
    for number, player in enumerate(file.players, start=1):
        if "" in player.groups:
            raise NotARoom(f"players[{number - 1}].groups: a group needs a name")
        for name in dict.fromkeys(player.groups):
            seats.setdefault(name, []).append(number)
    return [GroupRecord(number, name, members) for number, (name, members) in enumerate(seats.items(), start=1)]


def _stored_timer(number: int, timer: TimerFile) -> TimerRecord:
    where = f"timers[{number}]"
    arguments: list[tuple[str, Any]] = []
    for each in timer.arguments:
        match list(each.items()):
            case [(("player" | "spectator") as who, str(player_id))]:
                arguments.append((who, player_id))
            case [("value", value)]:
                arguments.append(("value", from_json(value, f"{where}.arguments")))
            case _:
                people = '{"player": "its id"} or {"spectator": "its id"}'
                raise NotARoom(f'{where}.arguments: an argument is {{"value": …}}, {people}')
    if timer.every_s and not EVERY_S_MIN <= timer.every_s < inf:
        raise NotARoom(f"{where}.every_s: it must be {EVERY_S_MIN} or more, or 0 for one call; got {timer.every_s}")
    return TimerRecord(number, seconds_of(timer.due_at), timer.method, arguments, timer.name, timer.every_s)


# Any value as JSON


class NotTagged(ValueError):
    """Invalid tagged JSON: where it is, and what is wrong with it."""


def to_json(value: Any) -> Any:
    """A value decoded from MessagePack, for JSON."""
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if abs(value) <= _INT_EXACT else {"$int": str(value)}
        case float():
            return value if isfinite(value) else {"$float": str(value)}
        case bytes():
            return {"$bytes": base64.b64encode(value).decode()}
        case list() | tuple():
            return [to_json(each) for each in value]
        case dict():
            if all(isinstance(key, str) and not key.startswith("$") for key in value):
                return {key: to_json(each) for key, each in value.items()}
            return {"$map": [[to_json(key), to_json(each)] for key, each in value.items()]}
        case Ext():
            return {"$ext": [value.code, base64.b64encode(value.data).decode()]}
        case _:
            return {"$time": msgspec.to_builtins(value)}


def from_json(value: Any, where: str) -> Any:
    """The value that `to_json` was given, or `NotTagged`; `where` is how to name this value in words."""
    match value:
        case list():
            return [from_json(each, f"{where}[{number}]") for number, each in enumerate(value)]
        case dict():
            tag = next((key for key in value if key.startswith("$")), None)
            if tag is None:
                return {key: from_json(each, f"{where}.{key}") for key, each in value.items()}
            if len(value) > 1:
                raise NotTagged(f'{where}: {tag!r} must be the only key; an object with such a key is a "$map"')
            if tag not in _TAGS:
                raise NotTagged(f"{where}: unknown tag {tag!r}; use one of {', '.join(_TAGS)}")
            try:
                return _TAGS[tag](value[tag], where)
            except NotTagged:
                raise
            except (ValueError, TypeError, msgspec.MsgspecError) as error:
                raise NotTagged(f"{where}: invalid {tag!r}: {error}") from None
        case _:
            return value


def _map(pairs: Any, where: str) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for number, (key, value) in enumerate(pairs):
        found[_hashable(from_json(key, f"{where}[{number}]"))] = from_json(value, f"{where}[{number}]")
    return found


def _hashable(key: Any) -> Any:
    return tuple(_hashable(each) for each in key) if isinstance(key, list) else key


def _ext(code: int, data: str) -> Ext:
    return Ext(code, _from_base64(data))


def _from_base64(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"it is not base64 ({error})") from None


_TAGS: dict[str, Callable[[Any, str], Any]] = {
    "$bytes": lambda text, _: _from_base64(text),
    "$int": lambda text, _: int(text),
    "$float": lambda text, _: float(text),
    "$time": lambda text, _: _time(text),
    "$ext": lambda content, _: _ext(*content),
    "$map": _map,
}


# Times by the wall clock: seconds since 1970 in a record, text in a file.


def seconds_text(seconds: float) -> TimeText:
    """A time, to the microsecond."""
    return TimeText(msgspec.to_builtins(type(_EPOCH).fromtimestamp(seconds, _EPOCH.tzinfo)))


def seconds_of(text: str) -> float:
    """The time that a text names; `ValueError` if it is invalid."""
    seconds: float = _time(text).timestamp()
    return seconds


def _time(text: Any) -> Any:
    time = msgspec.convert(text, type(_EPOCH))
    if time.tzinfo is None:
        raise ValueError("a time needs a time zone, as in 2026-11-15T12:00:00Z")
    return time
