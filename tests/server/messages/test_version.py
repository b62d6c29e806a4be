"""When a client that was made for one version of messages is understood by a server with another."""

from collections import namedtuple
from dataclasses import replace
from typing import Annotated, Any, Literal

import pytest
from msgspec import UNSET, Meta, Struct, UnsetType, defstruct

from holdfast import Message
from holdfast.schemas.requests import MESSAGE_VERSION_CHARS_MAX
from holdfast.server.messages import FACTS_MAX, HandlerAnswer, RoomMessages, is_compatible, name_of, version_of
from tests.cases import every_case


def message(name: str, *fields: Any, **options: Any) -> type[Message]:
    made: type[Message] = defstruct(name, fields, bases=(Message,), **options)  # type: ignore[assignment]
    return made


def point(*fields: Any, module: str = "maps") -> type[Struct]:
    return defstruct("Point", fields, module=module)


def two_points(item: list[Any], place: list[Any]) -> tuple[Any, Any]:
    """Two fields of two classes that have one name, in different modules."""
    return ("item", point(*item, module="items")), ("place", point(*place))


def up(*fields: Any, **options: Any) -> RoomMessages:
    """A room that takes one message, `move`, with these fields."""
    return RoomMessages((message("Move", *fields, **options),), ())


def down(*fields: Any, **options: Any) -> RoomMessages:
    """A room that sends one message, `moved`, with these fields."""
    return RoomMessages((), (message("Moved", *fields, **options),))


def options(*fields: Any) -> RoomMessages:
    """A room that takes a message, and asks its players for a struct with these fields."""
    return replace(up(X), options=defstruct("Loadout", fields))


X = ("x", float)
Y = ("y", float)
OPTIONAL_Y = ("y", float, 0.0)
UNSET_Y = ("y", float | UnsetType, UNSET)
UNTYPED = namedtuple("UNTYPED", "x y")
NOTHING = RoomMessages((), ())


def answered(*fields: Any, name: str = "Moved", may_be_nothing: bool = False) -> RoomMessages:
    """A room that takes `move`, and answers it with a message that has these fields."""
    answer = HandlerAnswer((message(name, *fields),), may_be_nothing)
    return RoomMessages(up(X).to_server, (), {"move": answer})


UNDERSTOOD = {
    "the same": (up(X, Y), up(X, Y)),
    "fields without types": (down(("at", UNTYPED)), down(("at", UNTYPED))),
    "fields in another order": (up(X, Y), up(Y, X)),
    "a new message to the server": (NOTHING, up(X)),
    "a new message to the client": (NOTHING, down(X)),
    "a new optional field to the server": (up(X), up(X, OPTIONAL_Y)),
    "a new field to the client": (down(X), down(X, Y)),
    "a new optional field at the end of an array": (up(X, array_like=True), up(X, OPTIONAL_Y, array_like=True)),
    "a new optional field within": (up(("to", point(X))), up(("to", point(X, OPTIONAL_Y)))),
    "a default where there was one": (up(X, ("y", float, 0.0)), up(X, ("y", float, 1.0))),
    "a field to the client that is always there now": (down(X, UNSET_Y), down(X, Y)),
    "defaults that are sent now": (down(X, OPTIONAL_Y, omit_defaults=True), down(X, OPTIONAL_Y)),
    "a description": (up(X), up(("x", Annotated[float, Meta(description="to the right")]))),
    "a title within": (down(("x", list[str])), down(("x", list[Annotated[str, Meta(title="Name")]]))),
    "an example of a key": (up(("x", dict[str, int])), up(("x", dict[Annotated[str, Meta(examples=["a"])], int]))),
    "a description of a class": (up(("to", point(X))), up(("to", Annotated[point(X), Meta(description="there")]))),
    "an answer": (up(X), answered(X)),
    "a new field of an answer": (answered(X), answered(X, Y)),
    "two classes of one name": (up(*two_points([X], [X, Y])), up(*two_points([X], [X, Y]))),
    "options to join with": (up(X), options(X)),
    "an optional field of the options": (options(X), options(X, OPTIONAL_Y)),
    "an optional field in one of two": (up(*two_points([X], [X, Y])), up(*two_points([X, OPTIONAL_Y], [X, Y]))),
}
NOT_UNDERSTOOD = {
    "a message that is gone": (up(X), NOTHING),
    "a message that goes the other way": (up(X), RoomMessages((), up(X).to_server)),
    "no answer any more": (answered(X), up(X)),
    "another answer": (answered(X), answered(X, name="Walked")),
    "an answer that may be missing now": (answered(X), answered(X, may_be_nothing=True)),
    "a field of an answer that is gone": (answered(X, Y), answered(X)),
    "another type": (up(X), up(("x", int))),
    "another type of an optional field": (up(X, OPTIONAL_Y), up(X, ("y", str, ""))),
    "another name": (up(X), up(Y)),
    "a new field that is needed": (up(X), up(X, Y)),
    "an optional field that is gone": (up(X, OPTIONAL_Y), up(X)),
    "an optional field that is needed now": (up(X, OPTIONAL_Y), up(X, Y)),
    "a field of the server's that is gone": (down(X, Y), down(X)),
    "a field that may be null now": (down(X), down(("x", float | None))),
    "a needed field within": (up(("to", point(X))), up(("to", point(X, Y)))),
    "an array instead of an object": (up(X), up(X, array_like=True)),
    "another order in an array": (up(X, ("y", int), array_like=True), up(("y", int), X, array_like=True)),
    "another tag": (up(X, tag="a"), up(X, tag="b")),
    "another name on the wire": (up(X), up(X, rename="upper")),
    "options that are gone": (options(X), up(X)),
    "a new field of the options that is needed": (options(X), options(X, Y)),
    "a field to the client that may be missing now": (down(X, Y), down(X, UNSET_Y)),
    "a field within that may be missing now": (down(("to", point(X, Y))), down(("to", point(X, UNSET_Y)))),
    "a field to the client that can be unset by hand": (down(X, Y), down(X, ("y", float | UnsetType))),
    "a default that can be unset by hand": (down(X, OPTIONAL_Y), down(X, ("y", float | UnsetType, 0.0))),
    "defaults that are not sent any more": (down(X, OPTIONAL_Y), down(X, OPTIONAL_Y, omit_defaults=True)),
    "the first of two classes of one name": (up(*two_points([X], [X, Y])), up(*two_points([Y], [X, Y]))),
    "the second of two classes of one name": (up(*two_points([X], [X, Y])), up(*two_points([X], [Y]))),
    "a field that the other class still has": (down(*two_points([X], [X, Y])), down(*two_points([X], [Y]))),
    "two classes of one name, the other way round": (down(*two_points([X], [Y])), down(*two_points([Y], [X]))),
}
# Old clients would get along with these; docs/guide/types.md says that they are refused all the same.
REFUSED_ALL_THE_SAME = {
    "a default for a needed field": (up(X, Y), up(X, OPTIONAL_Y)),
    "int to float": (up(("x", int)), up(X)),
    "null is taken too": (up(X), up(("x", float | None))),
    "one more value is taken": (up(("x", Literal["a"])), up(("x", Literal["a", "b"]))),
    "null is not sent any more": (down(("x", float | None)), down(X)),
}


@every_case(("client", "server"), UNDERSTOOD.values(), ids=UNDERSTOOD)
def test_a_client_is_compatible_while_all_it_knows_is_still_so(client: RoomMessages, server: RoomMessages) -> None:
    assert is_compatible(version_of(client), version_of(server))


@every_case(("client", "server"), NOT_UNDERSTOOD.values(), ids=NOT_UNDERSTOOD)
def test_a_client_is_incompatible_when_something_it_knows_has_changed(
    client: RoomMessages, server: RoomMessages
) -> None:
    assert not is_compatible(version_of(client), version_of(server))


@pytest.mark.parametrize(("client", "server"), REFUSED_ALL_THE_SAME.values(), ids=REFUSED_ALL_THE_SAME)
def test_what_is_of_another_type_is_refused_even_if_it_would_do(client: RoomMessages, server: RoomMessages) -> None:
    assert not is_compatible(version_of(client), version_of(server))


@every_case("garbage", ["x", "1.2.3", "deadbeef.AAAA", "deadbeef.AA", "\x00", "." + "A" * 4000])
def test_text_that_is_no_version_is_not_understood(garbage: str) -> None:
    assert not is_compatible(garbage, version_of(up(X)))


def test_every_kind_of_type_has_words_of_its_own() -> None:
    kinds = [bool, int, float, str, bytes, None, list[int], list[str], dict[str, int], set[int], tuple[int, str], Any]

    versions = {version_of(up(("x", kind))) for kind in kinds}

    assert len(versions) == len(kinds)


def test_a_type_that_contains_itself_has_a_version() -> None:
    class Tree(Struct):
        children: list["Tree"]

    # Names in a function cannot be looked up later.
    Tree.__annotations__["children"] = list[Tree]

    assert version_of(up(("tree", Tree)))


def test_a_version_has_a_short_name_and_is_never_too_long_to_be_given() -> None:
    few = version_of(up(X))
    many = version_of(down(*((f"field_{n}", int) for n in range(FACTS_MAX + 1))))

    assert len(name_of(few)) == 8
    assert len(few) < 32
    assert len(many) <= MESSAGE_VERSION_CHARS_MAX
    assert is_compatible(many, many)
    assert not is_compatible(many, few)


def test_limits_are_no_part_of_a_version() -> None:
    assert version_of(up(X)) == version_of(up(("x", Annotated[float, Meta(ge=0)])))
