"""A client that was built for other messages is refused when it creates or joins a room, and told what to do."""

import logging
from enum import Enum

import pytest

import holdfast
from holdfast import Message, OtherVersion, PlayerData, Room, on
from holdfast.server.messages import RoomMessages, messages_of, name_of, version_of
from holdfast.testing import MemoryServer, run


class Move(Message):
    x: float


class Moved(Message):
    who: str


class Arena(Room[PlayerData]):
    sends = (Moved,)

    @on(Move)
    def moved(self, player: holdfast.Player[PlayerData], move: Move) -> None: ...


class Lenient(Arena):
    other_version = "warn"


class Older(Message):
    wire_name = "moved"

    name: str


OURS = version_of(messages_of(Arena))
OLD = version_of(RoomMessages((Move,), (Older,)))
LESS = version_of(RoomMessages((Move,), ()))


@pytest.mark.parametrize("version", ["", OURS, LESS])
def test_a_client_that_is_compatible_or_does_not_say_is_let_in(version: str) -> None:
    async def play() -> None:
        async with MemoryServer([Arena]) as server:
            ada, bob = await server.connect("ada"), await server.connect("bob")
            info = await ada.create("arena", message_version=version)
            await ada.join(info.id, message_version=version)
            room = await bob.join_or_create("arena", message_version=version)

            assert room.id == info.id

    run(play())


@pytest.mark.parametrize("how", ["create", "join", "join_or_create"])
def test_a_client_that_would_be_misunderstood_is_refused_with_what_to_do(how: str) -> None:
    async def play() -> None:
        async with MemoryServer([Arena]) as server:
            ada, bob = await server.connect("ada"), await server.connect("bob")
            info = await ada.create("arena")

            with pytest.raises(OtherVersion) as refusal:
                await getattr(bob, how)(info.id if how == "join" else "arena", message_version=OLD)

            assert str(refusal.value) == (
                f"this client was built for version {name_of(OLD)} of arena's messages, the server has {name_of(OURS)}:"
                " run `holdfast types` and build the client again"
            )
            assert refusal.value.code == "other_version"
            assert len(server.rooms) == 1
            assert bob.room is None
            # Nothing has changed for it: it may join as one that does not say.
            await bob.join(info.id)

    run(play())


def test_a_room_that_only_warns_lets_it_in_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        async with MemoryServer([Lenient]) as server:
            for name in ("ada", "bob"):
                session = await server.connect(name)
                await session.join_or_create("lenient", message_version=OLD)

    with caplog.at_level(logging.WARNING, "holdfast.server"):
        run(play())

    (line,) = [record.getMessage() for record in caplog.records]
    assert "another version of the messages" in line
    assert f"kind=lenient theirs={name_of(OLD)}" in line


def test_the_same_key_gives_the_same_room_also_to_a_client_that_was_built_again() -> None:
    async def play() -> None:
        async with MemoryServer([Arena]) as server:
            ada = await server.connect("ada")

            first = await ada.create("arena", idempotency_key="k", message_version=LESS)
            second = await ada.create("arena", idempotency_key="k", message_version=OURS)

            assert first.id == second.id

    run(play())


def test_a_room_must_send_messages() -> None:
    class Broken(Room[PlayerData]):
        sends = (int,)  # type: ignore[assignment]

    with pytest.raises(ValueError, match=r"Broken\.sends must be a list of Message classes"):
        holdfast.Server([Broken])


class Mixed(Enum):
    ONE = 1
    TWO = "two"


class Odd(Message):
    mixed: Mixed


class Unwritten(Room[PlayerData]):
    sends = (Odd,)


def test_a_room_whose_types_cannot_be_written_has_no_version() -> None:
    async def play() -> None:
        async with MemoryServer([Unwritten]) as server:
            ada = await server.connect("ada")
            with pytest.raises(OtherVersion, match="the server has none"):
                await ada.join_or_create("unwritten", message_version=OURS)
            await ada.join_or_create("unwritten")

    run(play())


def test_a_version_that_is_too_long_is_refused() -> None:
    async def play() -> None:
        async with MemoryServer([Arena]) as server:
            ada = await server.connect("ada")
            with pytest.raises(holdfast.Invalid):
                await ada.join_or_create("arena", message_version="x" * 4097)

    run(play())
