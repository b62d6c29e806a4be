"""What clients say to a room that is in the middle of something, and messages that a game cannot read."""

import asyncio
from typing import Any

from msgspec import Raw

from holdfast import Message, MessageRefused, Player, PlayerData, Reason, Room, on
from holdfast.core.codec import MSGPACK
from holdfast.core.rates import PAYLOAD_OVERHEAD_BYTES
from holdfast.schemas.frames import Ack, Data, Latest
from tests.server.durability.bench import in_virtual_time, until
from tests.server.limits.street import Guest, Town, later, patient


class Think(Message):
    pass


class Note(Message):
    n: int
    text: str = ""


class Odd(Message):
    """A game's own check of it may raise anything."""

    n: int

    def __post_init__(self) -> None:
        if self.n < 0:
            raise LookupError("nobody expects that")


class Study(Room[PlayerData]):
    """Thinks until it is told to go on."""

    kind = "study"
    max_players = 100
    keep_before_start = True

    def on_create(self, config: dict[str, Any]) -> None:
        self.go_on = asyncio.Event()
        self.noted: list[int] = []

    @on(Think)
    async def think(self, player: Player[PlayerData], message: Think) -> None:
        await self.go_on.wait()

    @on(Note)
    def note(self, player: Player[PlayerData], message: Note) -> None:
        self.noted.append(message.n)

    @on(Odd)
    def odd(self, player: Player[PlayerData], message: Odd) -> None:
        self.noted.append(message.n)


class Library(Town):
    """A town with a study."""

    def __init__(self, **limits: Any) -> None:
        super().__init__(patient(**limits), rooms=[Study], allow_errors=LookupError)

    async def reader(self, name: str = "ada") -> Guest:
        guest = await self.guest(name)
        await guest.client.join("study")
        return guest

    @property
    def study(self) -> Study:
        (room,) = self.rooms
        assert isinstance(room, Study)
        return room


def latest(guest: Guest, message: Message) -> None:
    guest.client.say(Latest(1, message.wire_name, Raw(MSGPACK.encode(message))))


def refusals(guest: Guest) -> list[tuple[int, str]]:
    decode = MSGPACK.body_decoder(MessageRefused).decode
    frames = [frame for frame in guest.client.all_heard(Data) if frame.type == MessageRefused.wire_name]
    return [(refused.seq, refused.code) for refused in (decode(frame.body) for frame in frames)]


def acknowledged(guest: Guest) -> int:
    return max((frame.ack for frame in guest.client.heard if isinstance(frame, Ack | Data)), default=0)


# Rooms that are busy


@in_virtual_time
async def test_unreliable_messages_that_wait_take_nothing_of_the_window_of_reliable_ones() -> None:
    server = Library(window_bytes_max=8_192)
    async with server:
        ada = await server.reader()
        ada.client.send(1, Think())
        for n in range(20):
            latest(ada, Note(n, "x" * 1_000))

        ada.client.send(2, Note(100))
        await later(1.0)
        server.study.go_on.set()
        await until(lambda: acknowledged(ada) == 2)

        # What was beyond was dropped, as unreliable messages are.
        noted = server.study.noted
        assert noted == [*range(len(noted) - 1), 100]
        assert 1 < len(noted) < 20


@in_virtual_time
async def test_however_small_they_are_only_so_many_unreliable_messages_of_one_client_wait() -> None:
    server = Library(window_bytes_max=8_192, latest_burst=5_000, bytes_burst=5_000 * PAYLOAD_OVERHEAD_BYTES)
    async with server:
        ada = await server.reader()
        ada.client.send(1, Think())

        for n in range(1_000):
            latest(ada, Note(n))
        await later(20.0)
        server.study.go_on.set()
        await until(lambda: acknowledged(ada) == 1)

        assert 0 < len(server.study.noted) <= 8_192 // 64


@in_virtual_time
async def test_reliable_messages_to_a_busy_room_wait_for_their_turn_and_are_bounded_by_the_window() -> None:
    server = Library(window_bytes_max=8_192)
    async with server:
        ada = await server.reader()
        ada.client.send(1, Think())

        for seq in range(2, 20):
            ada.client.send(seq, Note(seq, "x" * 1_000))

        assert (await ada.client.closed()).reason == Reason.SEQUENCE
        server.study.go_on.set()
        await until(lambda: len(server.study.noted) > 0)
        assert server.study.noted == list(range(2, 2 + len(server.study.noted)))
        assert len(server.study.noted) <= 9


# Messages that a game cannot read


@in_virtual_time
async def test_a_message_whose_own_check_raises_is_answered_and_the_stream_goes_on() -> None:
    server = Library()
    async with server:
        ada = await server.reader()

        ada.client.send(1, Note(1))
        ada.client.say(Data(1, 2, 0, "odd", Raw(MSGPACK.encode({"n": -1}))))
        ada.client.send(3, Note(3))
        await until(lambda: acknowledged(ada) == 3)

        assert server.study.noted == [1, 3]
        assert refusals(ada) == [(2, "failed")]
        assert server.counters.turns_failed == 1
        assert server.counters.internal_errors == 0


@in_virtual_time
async def test_an_unreliable_message_whose_own_check_raises_harms_nothing() -> None:
    server = Library()
    async with server:
        ada = await server.reader()

        ada.client.say(Latest(1, "odd", Raw(MSGPACK.encode({"n": -1}))))
        ada.client.send(1, Note(1))
        await until(lambda: acknowledged(ada) == 1)

        assert server.study.noted == [1]
        assert server.counters.turns_failed == 1
        assert server.counters.internal_errors == 0
