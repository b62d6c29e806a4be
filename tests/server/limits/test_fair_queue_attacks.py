"""The fair queue under attack: what waits is bounded, waiting clients are not taken for silent, and all come out."""

from collections import Counter, defaultdict
from random import Random
from typing import Any

import pytest
from msgspec import Raw

from holdfast import MessageRefused, Player, PlayerData, Reason, on
from holdfast.core.codec import MSGPACK
from holdfast.core.rates import PAYLOAD_OVERHEAD_BYTES
from holdfast.core.session import Session
from holdfast.schemas.frames import Data, Position, Welcome
from holdfast.server.connection.connection import LiveConnection
from tests.server.durability.bench import in_virtual_time, until
from tests.server.limits.street import Guest, Hall, Say, Town, later, patient, town

PORTIONS: dict[str, Any] = {"fair_queue_frames_max": 8, "fair_queue_portion_max": 2}


def connection_of(server: Town, guest: Guest) -> LiveConnection:
    """The server's end of a guest's link."""
    session = server.sessions.get(guest.welcome.session)
    assert session is not None
    assert isinstance(session.connection, LiveConnection)
    return session.connection


# What waits is bounded


@pytest.mark.parametrize(("payloads", "size"), [(4_000, 60_000), (50_000, 0)], ids=["bytes", "number"])
@in_virtual_time
async def test_what_was_read_and_waits_is_bounded_in_bytes_and_in_number(payloads: int, size: int) -> None:
    async with town() as server:
        ada = await server.seated()
        connection = connection_of(server, ada)
        payload = MSGPACK.encode([["ack", 1, 0, "x" * size]])
        most = 0

        def one_read_of_a_socket() -> None:
            nonlocal most
            for _ in range(payloads):
                connection.received(payload)
                most = max(most, connection.backlog.weight_bytes if connection.backlog is not None else 0)

        server.machine.call(one_read_of_a_socket)

        assert 0 < most <= server.limits.fair_queue_bytes_max + len(payload) + PAYLOAD_OVERHEAD_BYTES
        assert (await ada.client.closed()).reason == Reason.FLOODING
        await later()
        assert server.limits_told() == [("fair_queue_bytes_max", "disconnected")]
        assert connection.backlog is None


@in_virtual_time
async def test_what_waits_of_an_unauthenticated_client_is_hardly_more_than_a_hello() -> None:
    async with town(hellos_per_address_burst=1, hellos_per_address_per_s=0.01, hello_delay_s=1.0) as server:
        await server.guest("ada")
        stranger = await server.knock()
        await later()
        connection = list(server.parts.connections)[-1]
        most = 0

        def one_read_of_a_socket() -> None:
            nonlocal most
            for _ in range(1_000):
                connection.received(bytes(1_000))
                most = max(most, connection.backlog.weight_bytes if connection.backlog is not None else 0)

        server.machine.call(one_read_of_a_socket)

        assert 0 < most < 2 * server.limits.hello_bytes_max
        assert (await stranger.closed()).reason == Reason.FLOODING
        assert ("hello_bytes_max", "disconnected") in server.limits_told()


@in_virtual_time
async def test_who_sends_a_whole_window_at_once_is_only_slowed_down() -> None:
    async with town() as server:
        ada = await server.seated()
        connection = connection_of(server, ada)
        numbers = range(1, server.limits.window_messages_max + 1)

        def one_read_of_a_socket() -> None:
            for n in numbers:
                connection.received(MSGPACK.payload(Data(1, n, 0, "say", Raw(MSGPACK.encode(Say(n))))))

        server.machine.call(one_read_of_a_socket)
        await until(lambda: server.hall().heard == list(numbers))

        assert server.told == []


# Who waits is not forgotten


@in_virtual_time
async def test_who_waits_to_be_heard_is_not_taken_for_silent() -> None:
    # As slow as a lane with thousands in it.
    async with town(**PORTIONS, fair_queue_pause_s=40.0, ping_s=5.0, silence_s=16.0) as server:
        ada = await server.seated()

        ada.say_at_once(9)
        await later(39.0)
        assert connection_of(server, ada).backlog is not None
        await later(2.0)

        assert server.hall().heard == list(range(1, 10))
        session = server.sessions.get(ada.welcome.session)
        assert session is not None
        assert (session.status, session.drops) == ("connected", 0)


@in_virtual_time
async def test_who_says_nothing_more_after_the_queue_is_taken_for_silent() -> None:
    async with town(**PORTIONS, ping_s=5.0, silence_s=16.0) as server:
        ada = await server.seated()

        ada.say_at_once(9)
        await later(30.0)

        session = server.sessions.get(ada.welcome.session)
        assert session is not None
        assert session.drop_reason == Reason.SILENT


@in_virtual_time
async def test_one_whose_payload_makes_us_fail_does_not_keep_the_others_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with town(**PORTIONS) as server:
        ada, bob = await server.seated("ada"), await server.seated("bob")
        broken = connection_of(server, ada)
        process = LiveConnection.process

        def fail_for_ada(connection: LiveConnection, payload: bytes, rest: Any = None) -> None:
            if connection is broken and rest is not None:
                raise MemoryError
            process(connection, payload, rest)

        monkeypatch.setattr(LiveConnection, "process", fail_for_ada)
        ada.say_at_once(20)
        bob.said = 100
        bob.client.say(*(Data(1, n, 0, "say", Raw(MSGPACK.encode(Say(100 + n)))) for n in range(1, 21)))

        await until(lambda: set(range(101, 121)) <= set(server.hall().heard))


# Whatever happens to those who wait


class Gallery(Hall):
    """Notes who said it."""

    kind = "hall"

    def on_create(self, config: dict[str, Any]) -> None:
        super().on_create(config)
        self.heard_of: defaultdict[str, list[int]] = defaultdict(list)

    @on(Say)
    def say(self, player: Player[PlayerData], message: Say) -> None:
        self.heard_of[player.id].append(message.n)


class Flooder:
    """Somebody who says more than is allowed, over links that come and go, and keeps to the rules otherwise."""

    def __init__(self, guest: Guest, random: Random) -> None:
        self.guest = guest
        self.random = random
        self.sent = 0
        self.answered: dict[int, str] = {}
        self._received = 0

    def talk(self, count: int) -> None:
        """New messages, in one payload or in several."""
        frames = [self._frame(self.sent + n + 1) for n in range(count)]
        self.sent += count
        self._say(frames)

    def _frame(self, n: int) -> Data:
        return Data(1, n, self._received, "say", Raw(MSGPACK.encode(Say(n))))

    def _say(self, frames: list[Data]) -> None:
        while frames:
            size = self.random.choice([1, 3, 40])
            self.guest.client.say(*frames[:size])
            frames = frames[size:]

    def listen(self) -> None:
        """Take in what came since: refusals, each once and in order."""
        decode = MSGPACK.body_decoder(MessageRefused).decode
        for frame in self.guest.client.all_heard(Data):
            if frame.seq == self._received + 1:
                self._received += 1
                refused = decode(frame.body)
                assert refused.seq not in self.answered
                assert refused.seq > max(self.answered, default=0)
                self.answered[refused.seq] = refused.code

    async def come_back(self) -> None:
        """Resume on a new link, as soon as that is welcome, and send again what was not applied."""
        self.listen()
        while True:
            client = await self.guest.town.knock()
            client.ask_to_resume(self.guest.welcome, Position(1, 1, self._received))
            # As long as it takes to be welcome, or to be told when to come back.
            await later(1.0)
            welcomes = client.all_heard(Welcome)
            if welcomes:
                break
        self.guest.client, self.guest.welcome = client, welcomes[0]
        (channel,) = welcomes[0].channels
        self._say([self._frame(n) for n in range(channel.applied + 1, self.sent + 1)])


@pytest.mark.parametrize("seed", range(12))
@in_virtual_time
async def test_whatever_happens_to_who_waits_every_message_is_applied_or_refused_once_and_in_order(seed: int) -> None:
    random = Random(seed)
    few = {"messages_burst": 30, "messages_per_s": 20.0, "bytes_burst": 4_000, "bytes_per_s": 2_000.0}
    often = {"violations_warned_max": 2, "violations_max": 25, "violations_per_s": 5.0, "retry_after_max_s": 1.0}
    limits = patient(**PORTIONS, **few, **often, failures_per_address_burst=10_000)
    server = Town(limits, rooms=[Gallery])
    async with server:
        flooders = {name: Flooder(await server.seated(name), random) for name in ("ada", "bob", "eve")}
        hall = server.hall()
        assert isinstance(hall, Gallery)
        done: Counter[str] = Counter()

        for _ in range(60):
            flooder = random.choice(list(flooders.values()))
            session = server.sessions.get(flooder.guest.welcome.session)
            assert session is not None
            what = random.choice(["talk", "talk", "talk", "cut", "take over", "disconnect", "wait"])
            done[what] += 1
            if session.status != "connected" or flooder.guest.client.has_ended:
                await flooder.come_back()
            elif what == "talk" and flooder.sent - applied_of(session) < 400:
                flooder.talk(random.choice([1, 10, 100]))
            elif what == "cut":
                flooder.guest.client.cut()
            elif what == "take over":
                await flooder.come_back()
            elif what == "disconnect":
                server.machine.call(session.disconnect)
            await later(random.choice([0.0, 0.001, 0.01, 0.3]))
        for flooder in flooders.values():
            await settled(server, flooder)

        for name, flooder in flooders.items():
            applied = hall.heard_of[name]
            assert applied == sorted(applied)
            assert sorted([*applied, *flooder.answered]) == list(range(1, flooder.sent + 1))
            assert set(flooder.answered.values()) <= {"throttled"}
        assert server.counters.messages_throttled > 0
        assert all(done.values())
        assert server.counters.internal_errors == 0
        # Nobody is left behind, and everybody is read again.
        await later(10.0)
        assert len(server.parts.connections) == len(server.links) == len(flooders)
        assert all(link.end("server").is_reading for link in server.links)
        assert all(connection.backlog is None for connection in server.parts.connections)


def applied_of(session: Session) -> int:
    return session.channel.applied if session.channel is not None else 0


async def settled(server: Town, flooder: Flooder) -> None:
    """Wait until the server has dealt with everything that was sent, and the client has heard of it."""
    session = server.sessions.get(flooder.guest.welcome.session)
    assert session is not None
    for _ in range(60):
        if session.status != "connected" or flooder.guest.client.has_ended:
            await flooder.come_back()
        await later(1.0)
        flooder.listen()
        if applied_of(session) == flooder.sent and session.status == "connected":
            return
    raise AssertionError(f"{flooder.sent} were sent, {applied_of(session)} applied")
