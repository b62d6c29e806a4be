"""One schema per thing: what is shown, saved, exported and searched of it are allow-lists of that schema's fields."""

import inspect
from collections.abc import Iterator
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from msgspec import Raw, Struct

from holdfast.core.room_listing import RoomListing
from holdfast.schemas import account, ban, node, placement, player, requests, room, session
from holdfast.schemas.ban import BanInfo, BanRecord
from holdfast.schemas.player import PlayerFile, PlayerState, SeatInfo, SeatRecord
from holdfast.schemas.projection import project
from holdfast.schemas.requests import Create, CreateOptions, JoinOrCreate, RoomChanges, RoomOptions, StartPlacement
from holdfast.schemas.room import (
    HexText,
    ListingFile,
    ListingRecord,
    RoomFile,
    RoomInfo,
    RoomRecord,
    RoomSchema,
    TimeText,
)
from holdfast.schemas.session import SessionInfo, SessionRecord
from holdfast.search.ast import AGES, TERMS

ROOM = RoomSchema(
    id="r1",
    kind="arena",
    players=1,
    max_players=4,
    phase="lobby",
    properties={"map": "dust"},
    name="the desert",
    status="active",
    reason="",
    open_seats=3,
    visibility="public",
    join_policy="accept_all",
    is_locked=False,
    password=None,
    has_password=False,
    code="BCDFGH",
    creator="ada",
    creation_key=None,
    host="ada",
    successor="bob",
    created_at=1.0,
    version=7,
)

# What each reader has beside the schema's fields.
PROJECTIONS: dict[type[Struct], set[str]] = {
    RoomInfo: set(),
    ListingRecord: {"reservations"},
    ListingFile: {"reservations"},
    # In memory alone.
    RoomListing: {"proven"},
}
# Structs of one thing that are written in different places; a field that two of them have is the same in both.
THINGS: dict[str, list[type[Struct]]] = {
    "room": [RoomSchema, RoomListing, RoomInfo, ListingRecord, ListingFile, RoomRecord, RoomFile],
    "reservation": [room.ReservationRecord, room.ReservationFile],
    "timer": [room.TimerRecord, room.TimerFile],
    "session": [SessionInfo, SessionRecord],
    "player": [PlayerState, PlayerFile],
    "seat": [SeatInfo, SeatRecord],
    "ban": [BanInfo, BanRecord],
}
# The same word for two things: a file has a version and parts of its own, and shows lists whole.
HOMONYMS = {(RoomFile, name) for name in ("version", "parts", "players", "objects", "timers", "listing")} | {
    (ListingFile, "reservations"),
    (room.TimerFile, "arguments"),
}


def plain(kind: Any) -> Any:
    """A type without its limits, its alternatives to nothing, and the form it is written in."""
    if get_origin(kind) is Annotated:
        return plain(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return type(get_args(kind)[0])
    if isinstance(kind, type) and issubclass(kind, str):
        return str
    if get_origin(kind) in (Union, UnionType):
        found = {plain(each) for each in get_args(kind)} - {NoneType}
        return found.pop() if len(found) == 1 else frozenset(found)
    if get_origin(kind) is dict:
        return dict
    # Times and large numbers are text where people read them.
    return {TimeText: float, HexText: int}.get(kind, kind)


def types_of(struct: Any) -> dict[str, Any]:
    return {name: plain(kind) for name, kind in get_type_hints(struct, include_extras=True).items()}


def same(one: Any, other: Any) -> bool:
    """Whether two types say the same; what is encoded already, and what is read from a file, may be anything."""
    return one == other or Raw in (one, other) or Any in (one, other)


def structs_in(module: ModuleType) -> Iterator[type[Struct]]:
    for _, each in inspect.getmembers(module, inspect.isclass):
        if issubclass(each, Struct) and each.__module__ == module.__name__:
            yield each


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_every_field_of_a_projection_comes_from_the_schema_with_its_type(projection: type[Struct]) -> None:
    schema = types_of(RoomSchema)

    own = set(projection.__struct_fields__) - schema.keys()
    other = {name for name, kind in types_of(projection).items() if name in schema and kind != schema[name]}

    assert (own, other) == (PROJECTIONS[projection], set())


@pytest.mark.parametrize("thing", THINGS)
def test_a_field_is_the_same_wherever_its_thing_is_written(thing: str) -> None:
    seen: dict[str, Any] = {}
    for struct in THINGS[thing]:
        for name, kind in types_of(struct).items():
            if (struct, name) not in HOMONYMS:
                assert same(seen.setdefault(name, kind), kind), f"{struct.__name__}.{name}"


@pytest.mark.parametrize(
    "module", [account, ban, node, placement, player, room, session], ids=lambda each: each.__name__
)
def test_every_record_and_file_is_checked_against_its_thing(module: ModuleType) -> None:
    """Others are made in one place alone."""
    known = {struct for structs in THINGS.values() for struct in structs}
    # Each is saved under its own name, and shown nowhere.
    saved_only = {
        room.ObjectsRecord,
        room.EffectRecord,
        session.ChannelRecord,
        session.StandingRecord,
        player.StreamFile,
    }

    found = {each for each in structs_in(module) if each.__name__.endswith(("Record", "File"))}

    assert found - saved_only <= known


def test_searches_see_what_is_listed_of_what_is_shown() -> None:
    shown = types_of(RoomInfo)

    assert all(shown[name] is kind for name, kind in TERMS.items() if name not in AGES)
    assert not {"code", "password", "successor"} & TERMS.keys()


def test_a_new_field_of_the_schema_is_shown_saved_and_exported_by_nobody_until_it_is_listed() -> None:
    class Grown(RoomSchema, frozen=True, kw_only=True):
        secret: str = "swordfish"

    class Told(RoomInfo, frozen=True, kw_only=True):
        secret: str

    grown = Grown(**{name: getattr(ROOM, name) for name in ROOM.__struct_fields__})

    for projection in PROJECTIONS:
        assert msgspec.msgpack.encode(project(grown, projection)) == msgspec.msgpack.encode(project(ROOM, projection))
    assert project(grown, Told).secret == "swordfish"


def test_what_is_private_is_in_no_answer() -> None:
    assert {"password", "creation_key", "successor"}.isdisjoint(RoomInfo.__struct_fields__)
    assert {"password", "creation_key"}.isdisjoint(ListingFile.__struct_fields__)
    assert {"token", "next_token", "retired_tokens", "replies", "address"}.isdisjoint(SessionInfo.__struct_fields__)


def test_what_is_given_takes_the_place_of_the_source_and_what_neither_has_keeps_its_default() -> None:
    assert project(ROOM, RoomInfo, code="") == msgspec.structs.replace(project(ROOM, RoomInfo), code="")
    assert project(project(ROOM, ListingFile), ListingRecord).password is None


@pytest.mark.parametrize("request_type", [Create, JoinOrCreate, RoomChanges, StartPlacement])
def test_requests_say_of_a_room_what_its_schema_says(request_type: type[Struct]) -> None:
    schema = types_of(RoomSchema) | {"password": str}
    # The players of a placement are those who get a seat.
    shared = (types_of(request_type).keys() & schema.keys()) - (
        {"id", "players"} if request_type is StartPlacement else set()
    )

    assert {name: types_of(request_type)[name] for name in shared} == {name: schema[name] for name in shared}


def test_options_by_keyword_are_the_fields_of_the_requests_they_become() -> None:
    assert CreateOptions.__annotations__.keys() == set(Create.__struct_fields__) - {"kind"}
    assert RoomOptions.__annotations__.keys() == set(Create.__struct_fields__) & set(
        StartPlacement.__struct_fields__
    ) - {"kind"}
    for options in (CreateOptions, RoomOptions):
        for name, kind in types_of(options).items():
            assert types_of(Create)[name] == kind or name == "properties"


def test_every_request_is_a_struct_that_refuses_unknown_fields() -> None:
    assert all(each.__struct_config__.forbid_unknown_fields for each in structs_in(requests))
