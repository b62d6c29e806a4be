"""What a room shares, as its client has it: read, heard of, in the order of messages, and got back when it is lost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from holdfast import ClientRoom, ClientSession, Invalid, Message, PlayerData, Resynced
from holdfast.schemas.frames import Ack, ChannelInfo, Data, Outcome, SeatFrame, Welcome
from holdfast.testing import MemoryStorage
from tests.client.desk import Desk, room, until_back, visit
from tests.client.fake_server import Step, in_virtual_time, raw, welcome
from tests.client.script import TERMS
from tests.log_lines import line_of

WHOLE, PATCH, MORE = 2, 0, 1
SEAT = SeatFrame("joined", 1, 1, "room-1", "arena")


class Board(msgspec.Struct):
    turn: int = 0
    pile: list[str] = []
    deck: list[str] = []


class Hand(PlayerData):
    score: int = 0
    cards: list[str] = msgspec.field(default_factory=list)


class Played(Message):
    turn: int


def data(seq: int, name: str, body: Any, channel: int = 1) -> Data:
    return Data(channel, seq, 0, name, raw(body))


def view(seq: int, turn: int = 0, channel: int = 1, **roots: Any) -> Data:
    """A whole view."""
    shared = {"state": {"turn": turn, "pile": []}, "players": {"ada": {"score": 1}, "bot": {"score": 2}}, **roots}
    sets = [part for pair in shared.items() for part in pair]
    return data(seq, "holdfast.state", [WHOLE, [sets]], channel)


def turned(seq: int, turn: int, channel: int = 1) -> Data:
    """A change of the turn."""
    return data(seq, "holdfast.state", [PATCH, [[], ["state", [["turn", turn]]]]], channel)


def played(seq: int, turn: int) -> Data:
    return data(seq, "played", {"turn": turn})


class Table(Desk):
    """A desk that has heard how far the client got; it may say more than a welcome."""

    def __init__(self, *scripts: list[Step]) -> None:
        super().__init__()
        self._scripts = list(scripts) or self._scripts

    @property
    def acked(self) -> int:
        heard = [frame for link in self.links for frame in link.heard]
        return max((frame.ack for frame in heard if isinstance(frame, Ack)), default=0)


@asynccontextmanager
async def seated(table: Table, **options: Any) -> AsyncIterator[tuple[ClientSession, ClientRoom]]:
    async with visit(table, messages=[Played]) as session:
        joining = asyncio.create_task(session.join("room-1", **options))
        asked = await table.asked("join", room="room-1")
        asked.link.say(SEAT, asked.reply(room(1)))
        yield session, await joining


def back(outcome: str = "resumed", generation: int = 1) -> Welcome:
    """The seat is still there."""
    channels = [ChannelInfo(1, generation, 0, "room-1", "arena")]
    return Welcome("s1", "ada", "t2", Outcome(outcome), TERMS, channels=channels)


async def settle() -> None:
    """Longer than an acknowledgement takes."""
    await asyncio.sleep(1.0)


@in_virtual_time
async def test_the_server_hears_that_this_client_follows_the_state() -> None:
    table = Table()
    async with visit(table):
        assert "state" in table.link.hello.features


@in_virtual_time
async def test_what_a_room_shares_is_plain_data() -> None:
    table = Table()
    async with seated(table) as (_, seat):
        before = (seat.state, seat.players, seat.mine)
        table.link.say(view(1, 7))

        assert before == (None, {}, None)
        assert seat.state == {"turn": 7, "pile": []}
        assert seat.players == {"ada": {"score": 1}, "bot": {"score": 2}}
        assert seat.mine == {"score": 1}


@in_virtual_time
async def test_it_is_of_the_types_that_were_given() -> None:
    table = Table()
    async with seated(table, state=Board, data=Hand) as (_, seat):
        table.link.say(view(1, 7, mine={"score": 1, "cards": ["ace"]}))
        first = seat.state
        table.link.say(turned(2, 8))

        assert first == Board(7)
        assert seat.state == Board(8)
        assert seat.state is seat.state
        assert seat.players == {"ada": Hand(1), "bot": Hand(2)}
        assert seat.mine == Hand(1, ["ace"])


@in_virtual_time
async def test_a_state_of_another_type_is_named() -> None:
    table = Table()
    async with seated(table, state=Hand) as (_, seat):
        table.link.say(view(1, state={"score": "many"}))

        with pytest.raises(Invalid, match="'state' is no Hand: Expected `int`"):
            _ = seat.state


@in_virtual_time
async def test_a_game_that_reads_no_messages_is_up_to_date_and_acknowledges() -> None:
    table = Table()
    async with seated(table) as (_, seat):
        table.link.say(view(1), data(2, "holdfast.host", {"player": "ada"}))
        for turn in range(1, 40):
            table.link.say(turned(turn + 2, turn))
        await settle()

        assert (seat.state["turn"], table.acked) == (39, 41)


@in_virtual_time
async def test_every_reader_sees_the_state_of_its_turn_however_many_messages_wait() -> None:
    table = Table()
    async with seated(table, state=Board) as (_, seat):
        table.link.say(view(1))
        for turn in range(1, 10):
            table.link.say(turned(2 * turn, turn), played(2 * turn + 1, turn))
        table.link.say(turned(20, 10))
        await settle()
        before = (seat.state.turn, table.acked)

        seen = [((await seat.receive(Played)).turn, seat.state.turn) for _ in range(9)]
        seat.acknowledge()
        await settle()

        assert before == (1, 2)
        assert seen == [(turn, turn) for turn in range(1, 10)]
        assert (seat.state.turn, table.acked) == (10, 20)


@in_virtual_time
async def test_the_state_stands_still_while_a_message_is_dealt_with() -> None:
    table = Table()
    async with seated(table, state=Board) as (_, seat):
        table.link.say(view(1, 1), played(2, 1))
        assert await seat.receive() == Played(1)
        table.link.say(turned(3, 2), played(4, 2))
        await settle()

        assert (seat.state.turn, await seat.receive(), seat.state.turn) == (1, Played(2), 2)


@in_virtual_time
async def test_a_state_that_waits_for_a_message_that_nobody_reads_is_complained_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = Table()
    async with seated(table, state=Board) as (_, seat):
        table.link.say(view(1), played(2, 1))
        await seat.receive()
        for turn in range(1, 60):
            table.link.say(turned(turn + 2, turn))
        before = seat.state.turn
        seat.acknowledge()

        assert [line_of(record)[0] for record in caplog.records] == ["the state of a room waits for messages before it"]
        assert (before, seat.state.turn) == (0, 59)


@in_virtual_time
async def test_an_answer_does_not_move_the_state_before_the_messages_that_wait() -> None:
    table = Table()
    async with seated(table, state=Board) as (_, seat):
        table.link.say(view(1, 1), played(2, 1))
        asking = asyncio.create_task(seat.ask(Played(1)))
        await settle()
        table.link.say(turned(3, 2), data(4, "holdfast.answer", {"seq": 1, "type": "", "body": None}))
        await asking

        assert (await seat.receive(), seat.state.turn) == (Played(1), 1)
        seat.acknowledge()
        assert seat.state.turn == 2


@in_virtual_time
async def test_listeners_hear_of_changes_in_the_order_of_messages() -> None:
    table = Table()
    heard: list[Any] = []
    async with seated(table, state=Board, data=Hand) as (_, seat):
        seat.on_change("state.turn", lambda turn: heard.append(("turn", turn)))
        seat.on_change("players.*", lambda hand, player: heard.append((player, hand)))
        undo = seat.on_change("state", heard.append)
        table.link.say(view(1, 1), played(2, 1))
        table.link.say(data(3, "holdfast.state", [PATCH, [[], ["players", [[], [], ["bot"]]]]]))
        first, heard[:] = heard[:], []
        undo()
        await seat.receive()
        waiting = list(heard)
        seat.acknowledge()

        assert first == [("turn", 1), ("ada", Hand(1)), ("bot", Hand(2)), Board(1)]
        assert (waiting, heard) == ([], [("bot", None)])


@in_virtual_time
async def test_a_listener_without_a_path_hears_of_each_change_once() -> None:
    table = Table()
    heard: list[Any] = []
    async with seated(table) as (_, seat):
        table.link.say(view(1))
        seat.on_change(heard.append)
        change = [[], ["state", [["turn", 3]], "players", [[], ["bot", [["score", 4]]]]]]
        table.link.say(data(2, "holdfast.state", [PATCH, change]))

        assert heard == [[["state", "turn"], ["players", "bot", "score"]]]


@in_virtual_time
async def test_a_listener_to_ones_own_data_hears_of_it_wherever_it_is() -> None:
    table = Table()
    heard: list[Any] = []
    async with seated(table, data=Hand) as (_, seat):
        seat.on_change("mine", heard.append)
        undo = seat.on_change("mine.score", heard.append)
        table.link.say(view(1))
        table.link.say(data(2, "holdfast.state", [PATCH, [[], ["players", [[], ["bot", [["score", 4]]]]]]]))
        table.link.say(data(3, "holdfast.state", [PATCH, [[], ["players", [[], ["ada", [["score", 5]]]]]]]))
        public, heard[:] = heard[:], []
        undo()
        table.link.say(view(4, mine={"score": 6, "cards": ["ace"]}))

        assert public == [Hand(1), 1, Hand(5), 5]
        assert heard == [Hand(6, ["ace"])]


@in_virtual_time
async def test_a_listener_that_raises_is_logged_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    table = Table()
    heard: list[Any] = []
    async with seated(table) as (_, seat):
        seat.on_change("state", lambda _: 1 / 0)
        seat.on_change("state", heard.append)
        table.link.say(view(1, 1))

        assert heard == [seat.state]
        assert [line_of(record)[0] for record in caplog.records] == ["a listener failed"]


@in_virtual_time
async def test_a_listener_is_a_function() -> None:
    async with seated(Table()) as (_, seat):
        with pytest.raises(TypeError, match="a listener is a function; got None"):
            seat.on_change("state")  # type: ignore[call-overload]


@in_virtual_time
async def test_a_view_in_parts_is_read_when_it_is_whole() -> None:
    table = Table()
    heard: list[Any] = []
    async with seated(table) as (_, seat):
        seat.on_change(heard.append)
        table.link.say(data(1, "holdfast.state", [WHOLE | MORE, [["state", {"turn": 1}]]]))
        half = (seat.state, len(heard))
        table.link.say(data(2, "holdfast.state", [PATCH, [["players", {}]]]))

        assert (half, seat.state, len(heard)) == ((None, 0), {"turn": 1}, 1)


BROKEN = {
    "a change of what is not there": [PATCH, [[], ["nothing", [["turn", 1]]]]],
    "what is no change": [PATCH, "nonsense"],
    "what is no message": "nonsense",
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN.keys())
@in_virtual_time
async def test_a_state_that_is_out_of_sync_is_not_shown_and_asked_for_once(body: Any) -> None:
    table = Table()
    async with seated(table) as (_, seat):
        table.link.say(view(1, 1))
        table.link.say(data(2, "holdfast.state", body), turned(3, 2), turned(4, 3))
        lost = (seat.state, seat.players, seat.mine)
        asked = await table.asked("view", purpose="seat")
        once = await table.is_asked_nothing()
        asked.link.say(turned(5, 4), asked.reply(None), view(6, 5), turned(7, 6))
        await settle()

        assert (lost, once) == ((None, {}, None), True)
        assert (seat.state["turn"], table.acked) == (6, 7)

        table.link.say(data(8, "holdfast.state", body))
        await table.asked("view", purpose="seat")


@in_virtual_time
async def test_a_view_that_makes_no_sense_is_not_asked_for_again() -> None:
    table = Table()
    async with seated(table) as (_, seat):
        table.link.say(data(1, "holdfast.state", [WHOLE, "nonsense"]))
        (await table.asked("view", purpose="seat")).answer(None)
        table.link.say(data(2, "holdfast.state", [WHOLE, "nonsense"]))

        assert await table.is_asked_nothing()
        assert seat.state is None


@in_virtual_time
async def test_messages_go_on_while_the_state_is_lost_and_a_refusal_harms_nobody() -> None:
    table = Table()
    async with seated(table) as (_, seat):
        table.link.say(turned(1, 1), played(2, 1))
        (await table.asked("view", purpose="seat")).refuse("not_seated")

        assert (await seat.receive(), seat.state) == (Played(1), None)


@in_virtual_time
async def test_spectators_see_what_is_public() -> None:
    table = Table()
    async with visit(table) as session:
        watching = asyncio.create_task(session.spectate("room-1", state=Board, data=Hand))
        asked = await table.asked("spectate", room="room-1")
        asked.link.say(SeatFrame("joined", 1, 1, "room-1", "arena", "spectator"), asked.reply(room(1)))
        watched = await watching
        table.link.say(view(1, 3, players={"bot": {"score": 2}}))
        seen = (watched.state, watched.players, watched.mine)
        table.link.say(data(2, "holdfast.state", [PATCH, [[], ["nothing", []]]]))
        await table.asked("view", purpose="spectator")

        # The seat that they are given reads the same.
        table.link.say(SeatFrame("joined", 2, 1, "room-1", "arena"), view(1, 4, channel=2))
        assert seen == (Board(3), {"bot": Hand(2)}, None)
        assert session.room is not None
        assert session.room.state == Board(4)


@in_virtual_time
async def test_a_resumed_stream_goes_on_with_the_state() -> None:
    table = Table([welcome()], [back(), turned(2, 2)])
    async with seated(table) as (session, seat):
        table.link.say(view(1, 1))
        await settle()
        await until_back(session, table)
        await settle()

        assert seat.state["turn"] == 2
        assert await table.is_asked_nothing()


@in_virtual_time
async def test_after_a_resync_the_view_comes_by_itself() -> None:
    table = Table([welcome()], [back("resynced", 2), view(1, 8), played(2, 8), turned(3, 9)])
    async with seated(table) as (session, seat):
        table.link.say(view(1, 1), played(2, 1), turned(3, 2))
        await until_back(session, table)
        await settle()

        assert (await seat.receive(), seat.state["turn"]) == (Resynced(), 8)
        assert (await seat.receive(), seat.state["turn"]) == (Played(8), 8)
        seat.acknowledge()
        assert seat.state["turn"] == 9
        assert await table.is_asked_nothing()


async def saved_at(table: Table, storage: MemoryStorage, *said: Data) -> None:
    """A session that heard this in its seat, and was suspended."""
    async with visit(table, saved=storage) as session:
        joining = asyncio.create_task(session.join("room-1"))
        asked = await table.asked("join", room="room-1")
        asked.link.say(SEAT, asked.reply(room(1)), *said)
        await joining
        await settle()
        await session.suspend()


@in_virtual_time
async def test_another_process_asks_for_the_view_of_a_room_that_shares_one() -> None:
    storage = MemoryStorage()
    await saved_at(Table(), storage, view(1, 1), turned(2, 2))

    table = Table([back()])
    async with visit(table, saved=storage, state=Board) as session:
        asked = await table.asked("view", purpose="seat")
        seat = session.room
        assert seat is not None
        asked.link.say(turned(3, 3))
        before = seat.state
        asked.link.say(asked.reply(None), view(4, 3), turned(5, 4))
        await settle()

        assert (before, seat.state, table.acked) == (None, Board(4), 5)
        assert await table.is_asked_nothing()


@in_virtual_time
async def test_another_process_asks_for_nothing_if_nothing_is_shared() -> None:
    storage = MemoryStorage()
    await saved_at(Table(), storage, data(1, "holdfast.host", {"player": "ada"}))

    table = Table([back()])
    async with visit(table, saved=storage):
        assert await table.is_asked_nothing()


@in_virtual_time
async def test_another_process_asks_for_nothing_if_the_view_comes_with_a_resync() -> None:
    storage = MemoryStorage()
    await saved_at(Table(), storage, view(1, 1))

    table = Table([back("resynced", 2)])
    async with visit(table, saved=storage) as session:
        table.link.say(view(1, 5))

        assert await table.is_asked_nothing()
        assert session.room is not None
        assert session.room.state["turn"] == 5


@in_virtual_time
async def test_a_gap_that_nobody_has_read_of_is_declared_by_the_next_process() -> None:
    storage = MemoryStorage()
    await saved_at(Table(), storage, view(1, 1), played(2, 1))
    table = Table([back("resynced", 2)])
    async with visit(table, saved=storage) as session:
        table.link.say(view(1, 8), data(2, "holdfast.host", {"player": "ada"}), turned(3, 9))
        await settle()
        assert table.acked == 3
        await session.suspend()

    table = Table([back(generation=2)])
    async with visit(table, saved=storage) as session:
        assert session.room is not None
        assert await session.room.receive() == Resynced()
        session.room.acknowledge()
        await session.suspend()

    table = Table([back(generation=2), played(4, 9)])
    async with visit(table, saved=storage, messages=[Played]) as session:
        assert session.room is not None
        assert await session.room.receive() == Played(9)


@in_virtual_time
async def test_a_gap_is_read_of_first_however_many_news_came_after_it() -> None:
    table = Table([welcome()], [back("resynced", 2), view(1, 8)])
    async with seated(table) as (session, seat):
        table.link.say(view(1, 1))
        await until_back(session, table)
        for seq in range(2, 200, 2):
            table.link.say(data(seq, "holdfast.host", {"player": f"player {seq}"}), turned(seq + 1, seq))
            await settle()

        assert table.acked == 199
        assert await seat.receive() == Resynced()


@in_virtual_time
async def test_a_new_session_after_a_reset_has_no_state_and_asks_for_none() -> None:
    storage = MemoryStorage()
    await saved_at(Table(), storage, view(1, 1))

    table = Table([welcome("s2", "reset")])
    async with visit(table, saved=storage) as session:
        assert await table.is_asked_nothing()
        assert session.room is None
