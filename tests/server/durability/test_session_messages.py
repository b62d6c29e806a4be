"""Messages to durable sessions: saved before they leave, with the turn that sent them, and not lost in a crash."""

import asyncio
from typing import Any, ClassVar

import pytest

from holdfast import ClientSession, Limits, Message, Player, Resynced, Session, SessionEnded, Throttled
from holdfast.core.records import decode_session
from tests.server.durability.bench import Bench, Sitting, a_moment, in_virtual_time, until
from tests.server.durability.faults import Fault, Moment
from tests.server.durability.rooms import Do, Hero, Said, Say, Table, table


class Speaking(Table):
    """Speaks to sessions, its own players' and others'."""

    kind = "table"
    max_spectators = 5
    bench: ClassVar[Bench]

    def speak(self, player: Player[Hero], text: str) -> None:
        self.state.said.append(text)
        player.session.send(Said(text))

    def speak_to(self, player: Player[Hero], session_id: str, text: str) -> None:
        self.state.said.append(text)
        self.find(session_id).send(Said(text))

    async def speak_slowly(self, player: Player[Hero], text: str) -> None:
        player.session.send(Said(f"{text}, a bit"))
        await asyncio.gather(self.speak_beside(player, text))
        await self.door.wait()
        player.session.send(Said(f"{text}, the rest"))

    async def speak_beside(self, player: Player[Hero], text: str) -> None:
        player.session.send(Said(f"{text}, in a task"))

    def speak_later(self, player: Player[Hero], text: str) -> None:
        self.spawn(self._later(player, text))

    async def _later(self, player: Player[Hero], text: str) -> None:
        await self.door.wait()
        player.session.send(Said(text))

    def speak_much(self, player: Player[Hero], times: int) -> None:
        for number in range(times):
            player.session.send(Said(f"much {number}"))

    def tell_all(self, player: Player[Hero], text: str) -> None:
        self.bench.server.broadcast(Said(text))

    def find(self, session_id: str) -> Session:
        found = self.bench.server.sessions.get(session_id)
        assert found is not None
        return found


class Reader:
    """Reads the messages of a session all the time."""

    def __init__(self, session: ClientSession) -> None:
        self.heard: list[Message] = []
        session.on_message(self.heard.append)

    @property
    def texts(self) -> list[str]:
        return [message.text if isinstance(message, Said) else type(message).__name__ for message in self.heard]

    async def has_heard(self, text: str) -> None:
        await until(lambda: text in self.texts)


def a_bench(**options: Any) -> Bench:
    """With rooms of every durability, which know where the sessions are."""
    rooms = [
        table(Speaking),
        table(Speaking, name="Other", kind="other"),
        table(Speaking, name="Loose", kind="loose", durability="memory"),
        table(Speaking, name="Now", kind="now_and_then", durability="checkpoint", checkpoint_s=5.0),
    ]
    bench = Bench(*rooms, **options)
    for kind in rooms:
        kind.bench = bench
    return bench


def own(bench: Bench, client: ClientSession | Sitting) -> Session:
    session = bench.server.sessions.get((client.session if isinstance(client, Sitting) else client).id)
    assert session is not None
    return session


@in_virtual_time
async def test_a_message_of_a_turn_leaves_once_the_turn_and_the_session_are_saved() -> None:
    async with a_bench() as bench:
        ada = await bench.sit("ada")
        reader = Reader(ada.session)
        await a_moment()
        bench.store.hold()

        await ada.send(Do("speak", ["hello"]))
        await a_moment(1.0)
        before = (list(reader.texts), own(bench, ada).own_channel)
        bench.store.release()
        await reader.has_heard("hello")

        assert before == ([], None)
        saved = decode_session(bench.data.entries[f"session/{ada.session.id}"].value)
        assert saved.inbox is not None
        assert [name for name, _ in saved.inbox.kept] == ["said"]
        assert bench.store.keys_of("send/") == []


@in_virtual_time
async def test_a_message_from_outside_of_turns_leaves_once_the_session_is_saved() -> None:
    async with a_bench() as bench:
        ada = await bench.sit("ada", "now_and_then")
        reader = Reader(ada.session)
        await a_moment()
        bench.store.hold()

        own(bench, ada).send(Said("one"))
        own(bench, ada).send(Said("two"))
        await a_moment(1.0)
        before = list(reader.texts)
        bench.store.release()
        await reader.has_heard("two")

        assert before == []
        assert reader.texts == ["one", "two"]


@in_virtual_time
async def test_a_message_to_a_session_that_is_not_saved_waits_for_the_turn_alone() -> None:
    async with a_bench() as bench:
        ada, bo = await bench.sit("ada"), await bench.connect("bo")
        reader = Reader(bo)
        await a_moment()
        bench.store.hold()

        await ada.send(Do("speak_to", [bo.id, "hello"]))
        await a_moment(1.0)
        before = list(reader.texts)
        own(bench, bo).send(Said("meanwhile"))
        await reader.has_heard("meanwhile")
        bench.store.release()
        await reader.has_heard("hello")

        assert before == []
        assert not any(write.key.startswith("send/") for commit in bench.store.written for b in commit for write in b)


@in_virtual_time
async def test_a_message_to_a_session_that_another_server_takes_before_the_turn_is_saved_arrives_there() -> None:
    async with a_bench() as bench:
        ada, bo = await bench.sit("ada"), await bench.sit("bo", "other")
        reader = Reader(bo.session)
        await a_moment()
        bench.store.hold()
        # It keeps the store busy with the session while the next turn waits.
        own(bench, bo).send(Said("early"))
        await until(lambda: bench.store.is_waiting)

        await ada.send(Do("speak_to", [bo.session.id, "hello"]))
        await a_moment()
        bench.store.intrude(f"session/{bo.session.id}")
        bench.store.intrude(f"room/{bo.room.id}")
        bench.store.release()
        await until(lambda: bench.store.keys_of(f"send/{bo.session.id}/"))
        await bench.restart()
        await reader.has_heard("hello")

        assert reader.texts == ["hello"]


@in_virtual_time
async def test_a_turn_with_a_pause_is_one_turn_and_a_task_that_outlives_it_is_none() -> None:
    async with a_bench() as bench:
        ada = await bench.sit("ada")
        bo = await bench.sit("bo", "loose")
        readers = Reader(ada.session), Reader(bo.session)
        await a_moment()
        door = bench.rooms[0].door  # type: ignore[index]
        door.clear()

        await ada.send(Do("speak_slowly", ["wait"]))
        await bo.send(Do("speak", ["quick"]))
        await readers[1].has_heard("quick")
        await a_moment(1.0)
        before = list(readers[0].texts)
        door.set()
        await readers[0].has_heard("wait, the rest")
        door.clear()
        await ada.send(Do("speak_later", ["later"]))
        await ada.room.flush()
        door.set()
        await readers[0].has_heard("later")

        assert before == []
        assert readers[0].texts == ["wait, a bit", "wait, in a task", "wait, the rest", "later"]


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("commit", [1, 2])
@pytest.mark.parametrize("kind", ["table", "other", "now_and_then"])
@in_virtual_time
async def test_a_crash_at_any_moment_loses_and_repeats_nothing(kind: str, commit: int, moment: Moment) -> None:
    async with a_bench() as bench:
        ada = await bench.sit("ada")
        bo = await bench.sit("bo", kind)
        reader = Reader(bo.session)
        await ada.send(Do("speak_to", [bo.session.id, "first"]))
        await reader.has_heard("first")
        await a_moment()
        bench.crash_at(bench.store.commits + commit, moment)

        await ada.send(Do("speak_to", [bo.session.id, "second"]))
        await ada.back()
        # If the turn was lost, it is taken again, by the new server.
        await ada.send(Do("speak_to", [bo.session.id, "third"]))
        await bo.back()
        await reader.has_heard("third")

        assert reader.texts == ["first", "second", "third"]
        assert bo.kinds == ["resumed"] if kind != "now_and_then" else ["resynced"]
        await until(lambda: not bench.store.keys_of("send/"))


class Strict(Speaking):
    """Sends everybody but ada away after a crash."""

    max_spectators = 1

    def on_recover(self) -> None:
        for member in (*self.players, *self.spectators):
            if member.id != "ada":
                member.kick("not after a crash")


@pytest.mark.parametrize("is_spectator", [False, True])
@in_virtual_time
async def test_a_session_that_on_recover_sends_away_loses_no_message_in_the_crash(is_spectator: bool) -> None:
    bench = Bench(kind := table(Strict))
    kind.bench = bench
    async with bench:
        ada = await bench.sit("ada")
        client = await bench.connect("bo")
        room = await client.spectate(ada.room.id) if is_spectator else await client.join(ada.room.id)
        bo, reader = bench.reading(client, room), Reader(client)
        await a_moment()
        bench.crash_at(bench.store.commits + 1, Moment.WRITTEN)

        await ada.send(Do("speak_to", [client.id, "hello"]))
        await bo.back()
        await reader.has_heard("hello")

        await until(lambda: room.left is not None)
        await until(lambda: not bench.store.keys_of("send/"))
        assert reader.texts == ["hello"]


@pytest.mark.parametrize("recovery", ["eager", "lazy"])
@in_virtual_time
async def test_unread_messages_are_there_after_a_crash(recovery: Any) -> None:
    async with a_bench(recovery=recovery) as bench:
        ada = await bench.sit("ada")
        own(bench, ada).send(Said("one"))
        own(bench, ada).send(Said("two"))
        await until(lambda: (channel := own(bench, ada).own_channel) is not None and channel.sent == 2)

        await bench.restart()
        await ada.back()
        own(bench, ada).send(Said("three"))
        reader = Reader(ada.session)
        await reader.has_heard("three")

        assert reader.texts == ["one", "two", "three"]
        assert ada.kinds == ["resumed"]


@in_virtual_time
async def test_a_session_that_returns_from_the_store_hears_before_its_player_does() -> None:
    async with a_bench() as bench:
        ada = await bench.sit("ada")
        reader = Reader(ada.session)
        bench.dialer(ada).is_down = True
        await bench.restart()

        sent = own(bench, ada).send(Said("welcome back"))
        bench.dialer(ada).is_down = False
        await reader.has_heard("welcome back")

        assert sent
        assert reader.texts == ["welcome back"]


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.UNKNOWN_WRITTEN, Fault.UNKNOWN_LOST])
@in_virtual_time
async def test_a_commit_that_fails_delays_messages_and_repeats_none(fault: Fault) -> None:
    async with a_bench() as bench:
        ada = await bench.sit("ada")
        reader = Reader(ada.session)
        await a_moment()
        first = bench.store.commits + 1
        bench.store.fault = lambda number: fault if number in {first, first + 2} else None

        await ada.send(Do("speak", ["hello"]), Do("speak", ["again"]))
        await reader.has_heard("again")

        assert reader.texts == ["hello", "again"]


@in_virtual_time
async def test_messages_go_on_when_a_session_becomes_durable_and_when_it_is_no_longer() -> None:
    async with a_bench() as bench:
        client = await bench.connect("ada")
        reader = Reader(client)
        session = own(bench, client)
        session.send(Said("nowhere"))
        room = await client.join_or_create("table")
        session.send(Said("at the table"))
        await room.leave()
        session.send(Said("left"))
        room = await client.join_or_create("loose")
        session.send(Said("in memory"))
        await room.leave()
        room = await client.join_or_create("other")
        session.send(Said("at another table"))
        await reader.has_heard("at another table")

        await bench.restart()
        await until(lambda: client.outcome is not None and client.outcome.kind == "resumed")
        own(bench, client).send(Said("after all"))
        await reader.has_heard("after all")

        assert reader.texts == ["nowhere", "at the table", "left", "in memory", "at another table", "after all"]


@in_virtual_time
async def test_messages_that_come_while_the_record_of_a_session_is_deleted_are_not_lost() -> None:
    async with a_bench() as bench:
        client = await bench.connect("ada")
        reader = Reader(client)
        session = own(bench, client)
        await (await client.join_or_create("table")).leave()
        await a_moment()
        bench.store.latency_s = 0.2

        # With a seat in memory, nothing of the session is in the store.
        joining = asyncio.create_task(client.join_or_create("loose"))
        for number in range(8):
            await asyncio.sleep(0.09)
            session.send(Said(f"message {number}"))
        await joining
        await reader.has_heard("message 7")

        assert reader.texts == [f"message {number}" for number in range(8)]
        assert f"session/{client.id}" not in bench.data.entries


@in_virtual_time
async def test_a_message_whose_session_is_deleted_before_it_is_saved_leaves_nothing_in_the_store() -> None:
    async with a_bench() as bench:
        ada, client = await bench.sit("ada"), await bench.connect("bo")
        reader = Reader(client)
        await (await client.join_or_create("other")).leave()
        await a_moment()
        bench.store.hold()
        await ada.send(Do("speak_to", [client.id, "hello"]))
        await until(lambda: bench.store.is_waiting)

        joining = asyncio.create_task(client.join_or_create("loose"))
        await a_moment()
        bench.store.release()
        await joining
        await reader.has_heard("hello")
        await a_moment()

        assert reader.texts == ["hello"]
        assert bench.store.keys_of("send/") == bench.store.keys_of(f"session/{client.id}") == []


@in_virtual_time
async def test_messages_outlast_the_loss_of_a_room_that_their_session_only_watches() -> None:
    async with a_bench() as bench:
        ada, bo, cleo = await bench.sit("ada"), await bench.sit("bo", "other"), await bench.sit("cleo", "now_and_then")
        reader = Reader(ada.session)
        await ada.session.spectate(bo.room.id)
        await a_moment()
        bench.store.hold()
        own(bench, cleo).send(Said("the store is busy"))
        await until(lambda: bench.store.is_waiting)

        # The next commit has both: the room that another server has written, and the session.
        own(bench, ada).send(Said("one"))
        await bo.send(Do("speak_to", [ada.session.id, "never saved"]))
        await a_moment()
        bench.store.intrude(f"room/{bo.room.id}")
        bench.store.release()
        await until(lambda: bench.server.counters.rooms_fenced)
        own(bench, ada).send(Said("two"))
        await reader.has_heard("two")

        assert reader.texts == ["one", "two"]
        assert ada.kinds == []


@in_virtual_time
async def test_messages_of_a_turn_are_not_repeated_though_their_session_was_refused_with_a_room_that_it_watches() -> (
    None
):
    async with a_bench() as bench:
        ada, bo, cleo = await bench.sit("ada"), await bench.sit("bo", "other"), await bench.sit("cleo")
        reader = Reader(ada.session)
        await ada.session.spectate(bo.room.id)
        await ada.room.leave()
        room = await ada.session.join_or_create("now_and_then")
        await a_moment()
        bench.store.hold()
        await cleo.send(Do("speak_to", [ada.session.id, "one"]))
        await until(lambda: bench.store.is_waiting)

        # The turn is saved, and its message is to be in the record of the session, with the next commit.
        await bo.send(Do("speak", ["never saved"]))
        await a_moment()
        bench.store.intrude(f"room/{bo.room.id}")
        bench.store.release()
        await until(lambda: bench.server.counters.rooms_fenced)
        await reader.has_heard("one")
        await a_moment()
        left = bench.store.keys_of("send/")
        await bench.restart()
        await until(lambda: ada.session.connected)
        own(bench, ada).send(Said("two"))
        await reader.has_heard("two")

        assert reader.texts == ["one", "two"]
        assert left == []
        assert ada.session.room is room


@in_virtual_time
async def test_a_session_that_ends_leaves_no_messages_in_the_store() -> None:
    async with a_bench() as bench:
        ada, bo = await bench.sit("ada"), await bench.sit("bo", "other")
        await a_moment()
        bench.store.hold()
        await ada.send(Do("speak_to", [bo.session.id, "too late"]))
        await until(lambda: bench.store.is_waiting)

        own(bench, bo).end("enough")
        bench.store.release()
        await a_moment(2.0)

        assert bench.store.keys_of("send/") == []
        assert f"session/{bo.session.id}" not in bench.data.entries


@in_virtual_time
async def test_a_session_that_ends_before_its_first_message_is_saved_is_told_why() -> None:
    async with a_bench() as bench:
        client = await bench.connect("ada")
        await a_moment()
        bench.store.latency_s = 0.2
        joining = asyncio.create_task(client.join_or_create("table"))
        session = own(bench, client)
        await until(lambda: session.seat is not None)
        await a_moment(0.1)
        # In the commit after that of the seat.
        session.send(Said("hello"))
        await joining
        session.end("enough")

        with pytest.raises(SessionEnded) as ended:
            await client.receive()

        assert ended.value.reason == "kicked"


@in_virtual_time
async def test_messages_to_sessions_that_are_gone_are_struck_off_after_a_crash() -> None:
    async with a_bench() as bench:
        ada, bo = await bench.sit("ada"), await bench.sit("bo", "other")
        await a_moment()
        bench.crash_at(bench.store.commits + 1, Moment.WRITTEN)
        await ada.send(Do("speak_to", [bo.session.id, "hello"]))
        await until(lambda: bench.store.keys_of("send/"))
        for key in [f"session/{bo.session.id}", f"room/{bo.room.id}"]:
            bench.data.entries.pop(key)

        await ada.back()

        await until(lambda: not bench.store.keys_of("send/"))


@in_virtual_time
async def test_too_much_for_one_client_is_a_declared_gap_after_a_crash_too() -> None:
    async with a_bench(limits=Limits(kept_messages_max=16, window_messages_max=8)) as bench:
        ada = await bench.sit("ada")
        await ada.send(Do("speak", ["first"]))
        await until(lambda: own(bench, ada).own_channel is not None)

        await ada.send(Do("speak_much", [30]))
        await ada.back()
        await bench.restart()
        await ada.back(2)
        await ada.send(Do("speak", ["last"]))
        reader = Reader(ada.session)
        await reader.has_heard("last")

        assert ada.kinds == ["resynced", "resumed"]
        assert reader.heard == [Resynced(), Said("last")]


@in_virtual_time
async def test_a_turn_can_send_only_so_much() -> None:
    async with a_bench(limits=Limits(sends_waiting_bytes_max=1000)) as bench:
        ada = await bench.sit("ada")
        reader = Reader(ada.session)

        await ada.send(Do("speak_much", [100]))
        await until(lambda: ada.heard)
        await ada.send(Do("speak", ["enough"]))
        await reader.has_heard("enough")

        assert [getattr(message, "code", "") for message in ada.heard] == [Throttled.code]
        assert reader.texts[:3] == ["much 0", "much 1", "much 2"]


@in_virtual_time
async def test_a_broadcast_of_a_turn_waits_until_the_turn_is_saved() -> None:
    async with a_bench() as bench:
        ada, bo = await bench.sit("ada"), await bench.connect("bo")
        readers = [Reader(ada.session), Reader(bo)]
        await a_moment()
        bench.store.hold()

        await ada.send(Do("tell_all", ["news"]))
        await a_moment(1.0)
        before = [list(reader.texts) for reader in readers]
        bench.store.release()
        for reader in readers:
            await reader.has_heard("news")

        assert before == [[], []]


@in_virtual_time
async def test_an_orderly_restart_keeps_messages() -> None:
    async with a_bench() as bench:
        ada = await bench.sit("ada")
        await ada.send(Do("speak", ["one"]), Say("done"))
        await ada.has_heard("ada:done")

        await bench.stop()
        await bench.start()
        await ada.back()
        await ada.send(Do("speak", ["two"]))
        reader = Reader(ada.session)
        await reader.has_heard("two")

        assert reader.texts == ["one", "two"]


@in_virtual_time
async def test_an_older_store_is_told_as_a_gap() -> None:
    async with a_bench() as bench:
        ada = await bench.sit("ada")
        reader = Reader(ada.session)
        await ada.send(Do("speak", ["one"]))
        await reader.has_heard("one")
        await a_moment()
        backup = bench.backup()
        await ada.send(Do("speak", ["two"]))
        await reader.has_heard("two")

        await bench.restore(backup)
        await ada.back()
        await ada.send(Do("speak", ["three"]))
        await reader.has_heard("three")

        assert ada.kinds == ["resynced"]
        assert reader.texts == ["one", "two", "Resynced", "three"]
