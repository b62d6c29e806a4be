"""Unreliable messages that travel on their own, as over ENet: they may come too early, too late, or never."""

import asyncio

from msgspec import Raw

from holdfast import Limits, Message, Player, PlayerData, Room, on
from holdfast.core.codec import MSGPACK
from holdfast.core.reasons import CLOSE_CODES, Reason
from holdfast.events import LimitExceeded
from holdfast.schemas.frames import Auth, Hello, Latest, Welcome
from holdfast.testing import MemoryServer, Named, Network, run
from holdfast.testing.server import URL
from holdfast.transports.port import Subprotocol, TransportLimits
from tests.server.raw_client import RawClient


class Aim(Message):
    angle: int


class Say(Message):
    text: str


class Arena(Room[PlayerData]):
    """Tells everybody where everybody aims, and greets with both kinds of message."""

    def on_join(self, player: Player[PlayerData]) -> None:
        player.send_latest(Aim(-1))
        player.send(Say("welcome"))

    @on(Aim)
    def aimed(self, player: Player[PlayerData], aim: Aim) -> None:
        for each in self.players:
            each.send_latest(aim)

    @on(Say)
    def said(self, player: Player[PlayerData], say: Say) -> None:
        self.broadcast(say)


def network(*, stream_s: float, datagram_s: float, loss: float = 0.0) -> Network:
    made = Network(latency_s=stream_s)
    made.carries_datagrams, made.datagram_latency_s, made.datagram_loss = True, datagram_s, loss
    return made


async def raw(server: MemoryServer) -> RawClient:
    client = RawClient(MSGPACK)
    await server.network.dial(
        client,
        URL,
        subprotocols=[Subprotocol(MSGPACK.name, text=False)],
        limits=TransportLimits.of(server.limits),
    )
    return client


def test_the_newest_value_does_not_wait_behind_a_slow_stream() -> None:
    async def main() -> None:
        async with MemoryServer([Arena], network=network(stream_s=1.0, datagram_s=0.1)) as server:
            now = asyncio.get_running_loop().time
            ada = await server.connect("ada", messages=[Aim, Say])
            room = await ada.join_or_create("arena")
            assert await room.receive() == Say("welcome")
            asked_at = now()

            await room.send(Say("slow"))
            room.send_latest(Aim(7))

            assert await room.receive() == Aim(7)
            assert now() - asked_at < 0.3
            assert await room.receive() == Say("slow")
            assert now() - asked_at >= 2.0

    run(main())


def test_one_that_overtakes_the_seat_it_belongs_to_is_dropped_and_the_next_ones_arrive() -> None:
    async def main() -> None:
        async with MemoryServer([Arena], network=network(stream_s=1.0, datagram_s=0.0)) as server:
            ada = await server.connect("ada", messages=[Aim, Say])
            room = await ada.join_or_create("arena")

            # The greeting of `on_join` came a second before the seat.
            assert await room.receive() == Say("welcome")
            room.send_latest(Aim(7))
            assert await room.receive() == Aim(7)
            assert ada.drops == 0

    run(main())


def test_before_the_welcome_they_are_dropped_and_do_no_harm() -> None:
    async def main() -> None:
        async with MemoryServer([Arena], network=network(stream_s=0.0, datagram_s=0.0)) as server:
            client = await raw(server)
            client.link.send_datagram(MSGPACK.payload(Latest(1, "aim", Raw(MSGPACK.encode(Aim(1))))))
            client.link.send_datagram(b"not even a payload")
            await asyncio.sleep(1)

            client.say(Hello(Auth(Named.scheme, "ada")))

            await client.hear(Welcome)
            assert server.counters.protocol_errors == 0
            await client.close()

    run(main())


def test_they_carry_nothing_but_unreliable_messages() -> None:
    async def main() -> None:
        async with MemoryServer([Arena], network=network(stream_s=0.0, datagram_s=0.0)) as server:
            client = await raw(server)
            client.say(Hello(Auth(Named.scheme, "ada")))
            await client.hear(Welcome)

            client.link.send_datagram(MSGPACK.payload(Hello(Auth(Named.scheme, "eve"))))

            assert (await client.ended())[0] == CLOSE_CODES[Reason.PROTOCOL]

    run(main())


def test_those_of_a_connection_that_was_taken_over_are_ignored() -> None:
    async def main() -> None:
        async with MemoryServer([Arena], network=network(stream_s=0.0, datagram_s=5.0)) as server:
            ada = await server.connect("ada", messages=[Aim, Say])
            room = await ada.join_or_create("arena")
            assert await room.receive() == Say("welcome")
            room.send_latest(Aim(1))
            await asyncio.sleep(0.1)  # it is on its way

            server.link(ada).cut()
            await room.send(Say("back"))
            assert await room.receive() == Say("back")
            await asyncio.sleep(10)
            room.send_latest(Aim(2))

            assert await room.receive() == Aim(2)
            assert server.counters.protocol_errors == 0

    run(main())


def test_the_flood_limits_hold_for_them_too() -> None:
    async def main() -> None:
        limits = Limits(latest_burst=5, latest_per_s=1.0)
        async with MemoryServer([Arena], network=network(stream_s=0.0, datagram_s=0.0), limits=limits) as server:
            exceeded: set[str] = set()
            server.on(LimitExceeded, lambda event: exceeded.add(event.limit))
            client = await raw(server)
            client.say(Hello(Auth(Named.scheme, "ada")))
            await client.hear(Welcome)
            seat = await client.join("arena")
            for _ in range(1_000):
                client.link.send_datagram(MSGPACK.payload(Latest(seat.channel, "aim", Raw(MSGPACK.encode(Aim(1))))))

            await asyncio.sleep(1)
            assert exceeded == {"latest_per_s"}
            # A client that is not read for a moment after each refusal loses what comes then.
            assert len(client.all_heard(Latest)) < 50
            await client.close()

    run(main())


def test_one_that_is_too_large_for_a_datagram_takes_the_stream() -> None:
    class Map(Message):
        tiles: str

    class Atlas(Room[PlayerData]):
        @on(Map)
        def drawn(self, player: Player[PlayerData], drawn: Map) -> None:
            player.send_latest(drawn)

    async def main() -> None:
        # No datagram arrives here.
        async with MemoryServer([Atlas], network=network(stream_s=0.0, datagram_s=0.0, loss=1.0)) as server:
            ada = await server.connect("ada", messages=[Map])
            room = await ada.join_or_create("atlas")

            room.send_latest(Map("small"))
            room.send_latest(Map("large" * 300), key="large")

            assert await room.receive() == Map("large" * 300)

    run(main())
