"""One schema per thing: what is shown, saved, exported and searched of it are allow-lists of that schema's fields."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from msgspec import Raw, Struct
from msgspec.structs import asdict

import holdfast
from holdfast.client import saved
from holdfast.core.room_listing import RoomListing
from holdfast.http import bodies
from holdfast.http.bodies import NewAccount
from holdfast.identity import accounts
from holdfast.identity.accounts import Account
from holdfast.schemas import account, ban, frames, node, placement, player, requests, role, room, session
from holdfast.schemas.account import AccountInfo
from holdfast.schemas.ban import BanInfo, BanRecord
from holdfast.schemas.events import Banned, PlacementChanged
from holdfast.schemas.placement import PlacementInfo
from holdfast.schemas.player import PlayerFile, PlayerSchema, PlayerState, SeatInfo, SeatRecord
from holdfast.schemas.projection import project
from holdfast.schemas.requests import Create, CreateOptions, JoinOrCreate, RoomChanges, RoomOptions, StartPlacement
from holdfast.schemas.role import RoleInfo, RoleRecord
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
from holdfast.schemas.session import SessionInfo, SessionRecord, SessionSchema
from holdfast.search.language import TERMS

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
    host_name="Ada",
)

# For each schema its projections, and what each of them has beside the schema's fields.
PROJECTIONS: dict[type[Struct], dict[type[Struct], set[str]]] = {
    RoomSchema: {
        RoomInfo: set(),
        ListingRecord: {"reservations"},
        ListingFile: {"reservations"},
        # In memory alone.
        RoomListing: {"proven"},
        RoomRecord: {
            *("node", "epoch", "index", "previous", "parts", "is_final", "saved_at", "clock"),
            *("was_joined", "random", "state", "has_state_beside", "seats", "objects", "timers", "listing", "groups"),
        },
        RoomFile: {
            *("format", "epoch", "index", "hash", "parts", "saved_at"),
            *("was_joined", "random", "state", "objects", "timers", "listing"),
        },
    },
    SessionSchema: {SessionInfo: set(), SessionRecord: {"closing", "inbox"}},
    PlayerSchema: {
        SeatInfo: set(),
        PlayerState: set(),
        # What was sent and acknowledged, from the seat's channel.
        SeatRecord: {"channel"},
        PlayerFile: {"stream"},
    },
    PlacementInfo: {PlacementChanged: {"at", "placement"}},
    BanInfo: {BanRecord: set(), Banned: {"at"}},
    RoleInfo: {RoleRecord: set()},
    Account: {AccountInfo: set(), NewAccount: {"password"}},
    room.ReservationRecord: {room.ReservationFile: set()},
    room.TimerRecord: {room.TimerFile: set()},
}
PAIRS = [(schema, each) for schema, projections in PROJECTIONS.items() for each in projections]
# The same word for two things: a file has a version of its own, and shows lists whole.
HOMONYMS = {
    *((RoomFile, "version"), (RoomFile, "players"), (room.TimerFile, "arguments")),
    (RoomRecord, "spectators"),
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
    if get_origin(kind) is list:
        return (list, plain(get_args(kind)[0]))
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


def strangers(schema: type[Struct], projection: type[Struct]) -> tuple[set[str], set[str]]:
    """The fields of a projection that its schema lacks, and those that have another type there."""
    known = types_of(schema)
    shared = known.keys() & projection.__struct_fields__
    other = {name for name in shared if not same(types_of(projection)[name], known[name])}
    return set(projection.__struct_fields__) - shared, other - {name for each, name in HOMONYMS if each is projection}


@pytest.mark.parametrize(("schema", "projection"), PAIRS, ids=lambda each: each.__name__)
def test_every_field_of_a_projection_comes_from_its_schema_with_its_type(
    schema: type[Struct], projection: type[Struct]
) -> None:
    assert strangers(schema, projection) == (PROJECTIONS[schema][projection], set())


@pytest.mark.parametrize("schema", PROJECTIONS, ids=lambda each: each.__name__)
def test_a_field_that_the_schema_lacks_or_has_with_another_type_is_found(schema: type[Struct]) -> None:
    name = schema.__struct_fields__[0]
    odd = msgspec.defstruct("Odd", [(name, list[set[int]]), ("swordfish", str)])

    assert strangers(schema, odd) == ({"swordfish"}, {name})


@pytest.mark.parametrize(
    "module", [account, ban, node, placement, player, role, room, session], ids=lambda each: each.__name__
)
def test_every_record_and_file_is_the_projection_of_a_schema(module: ModuleType) -> None:
    """Others are made in one place alone."""
    known = {*PROJECTIONS, *(each for _, each in PAIRS)}
    # Each is saved under its own name, and shown nowhere.
    saved_only = {
        room.ObjectsRecord,
        room.GroupRecord,
        room.EffectRecord,
        session.ChannelRecord,
        session.SendRecord,
        session.StandingRecord,
        player.StreamFile,
    }

    found = {each for each in structs_in(module) if each.__name__.endswith(("Record", "File", "Schema"))}

    assert found - saved_only <= known


@pytest.mark.parametrize("schema", [RoomSchema, SessionSchema, PlayerSchema], ids=lambda each: each.__name__)
def test_a_schema_is_filled_in_one_place_with_all_of_its_fields(schema: type[Struct]) -> None:
    calls = [
        {each.arg for each in node.keywords}
        for file in Path(inspect.getfile(holdfast)).parent.rglob("*.py")
        if schema.__name__ in (text := file.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == schema.__name__
    ]

    # Which node it is on is added by whoever answers.
    assert calls == [set(schema.__struct_fields__) - {"node"}]


def test_searches_see_what_is_listed_of_what_is_shown() -> None:
    assert set(TERMS) - {"age_s"} <= set(RoomInfo.__struct_fields__) - {"code"}


@pytest.mark.parametrize("schema", PROJECTIONS, ids=lambda each: each.__name__)
def test_a_new_field_of_a_schema_is_shown_saved_and_exported_by_nobody_until_it_is_listed(
    schema: type[Struct],
) -> None:
    fields = {name: getattr(ROOM, name, None) for name in schema.__struct_fields__}
    thing = schema(**fields)
    grown = msgspec.defstruct("Grown", [("secret", str)], bases=(schema,), kw_only=True)(**fields, secret="swordfish")

    for projection, own in PROJECTIONS[schema].items():
        given = dict.fromkeys(own)
        told = msgspec.defstruct("Told", [("secret", str)], bases=(projection,), kw_only=True)

        assert asdict(project(grown, projection, **given)) == asdict(project(thing, projection, **given))
        assert project(grown, told, **given).secret == "swordfish"  # type: ignore[attr-defined]  # made above


def test_what_is_private_is_in_no_answer() -> None:
    assert {"password", "creation_key", "successor"}.isdisjoint(RoomInfo.__struct_fields__)
    assert {"password", "creation_key"}.isdisjoint(ListingFile.__struct_fields__)
    assert {"token", "next_token", "retired_tokens", "replies", "lineage", "forks"}.isdisjoint(
        SessionInfo.__struct_fields__
    )


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
            assert types_of(Create)[name] == kind or name in {"properties", "config"}


def test_every_request_is_a_struct_that_refuses_unknown_fields() -> None:
    assert all(each.__struct_config__.forbid_unknown_fields for each in structs_in(requests))


@pytest.mark.parametrize("module", [account, bodies, frames, requests, saved, accounts], ids=lambda each: each.__name__)
def test_a_struct_with_a_secret_does_not_show_it(module: ModuleType) -> None:
    secrets = {"credential", "hash", "password", "ticket", "token"}

    for struct in structs_in(module):
        if any(types_of(struct)[name] is str for name in secrets & set(struct.__struct_fields__)):
            assert issubclass(struct, frames.HidesSecrets), struct
            assert secrets.isdisjoint(struct.shown)
