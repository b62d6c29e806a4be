"""Unreliable messages over UDP beside a stream: when they go which way, and what strangers can do with them."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from holdfast import Limits, Message, Player, PlayerData, Room, on
from holdfast.client.session import ClientSession
from holdfast.core.codec import MSGPACK
from holdfast.schemas.frames import SENDS_DATAGRAMS, Auth, Datagrams, Hello, Welcome
from holdfast.testing import FaultyStore, MemoryServer, Named, Network, UdpNetwork, run
from holdfast.testing.server import URL
from holdfast.transports.datagram_sockets import Address
from holdfast.transports.port import Subprotocol, TransportLimits
from holdfast.transports.udp.seal import COOKIE_BYTES, ID_BYTES, SEAL_BYTES, DatagramKind
from tests.server.raw_client import RawClient


class Aim(Message):
    angle: int


class Say(Message):
    text: str


class Arena(Room[PlayerData]):
    """Tells everybody where everybody aims."""

    duplicate = "takeover"

    def on_create(self, _: object) -> None:
        self.heard: list[int] = []

    def on_recover(self) -> None:
        self.heard = []

    @on(Aim)
    def aimed(self, _: Player[PlayerData], aim: Aim) -> None:
        self.heard.append(aim.angle)
        for each in self.players:
            each.send_latest(aim)

    @on(Say)
    def said(self, _: Player[PlayerData], say: Say) -> None:
        self.broadcast(say)


class Durable(Arena):
    durability = "commit"


def limits(**changes: float) -> Limits:
    return Limits(udp_repeat_s=0.0, **changes)  # type: ignore[arg-type]  # numbers of limits


def server_on(udp: UdpNetwork, *, stream_s: float = 0.02, **options: object) -> MemoryServer:
    options.setdefault("limits", limits())
    return MemoryServer([Arena], udp=udp, network=Network(latency_s=stream_s), **options)  # type: ignore[arg-type]  # as named


async def until(ready: Callable[[], bool], *, within_s: float = 60.0) -> None:
    async with asyncio.timeout(within_s):
        while not ready():  # noqa: ASYNC110 - virtual time, and nothing announces it
            await asyncio.sleep(0.05)


async def on_udp(session: ClientSession, *, within_s: float = 60.0) -> None:
    await until(lambda: session.latest_transport == "udp", within_s=within_s)


def heard_by(server: MemoryServer) -> list[int]:
    (runner,) = server.rooms.runners()
    assert isinstance(runner.room, Arena)
    return runner.room.heard


def scenario(main: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await main()

    run(whole())


def test_the_newest_value_does_not_wait_behind_a_slow_stream() -> None:
    async def main() -> None:
        async with server_on(UdpNetwork(latency_s=0.05), stream_s=1.0) as server:
            ada = await server.connect("ada", messages=[Aim, Say])
            room = await ada.join_or_create("arena")
            await on_udp(ada)
            asked_at = asyncio.get_running_loop().time()

            await room.send(Say("slow"))
            room.send_latest(Aim(7))

            assert await room.receive() == Aim(7)
            assert asyncio.get_running_loop().time() - asked_at < 0.2
            assert await room.receive() == Say("slow")
            assert ada.transport == "memory"

    scenario(main)


def test_where_udp_is_blocked_the_stream_carries_everything_and_udp_is_tried_again() -> None:
    async def main() -> None:
        udp = UdpNetwork()
        udp.is_blocked = True
        async with server_on(udp) as server:
            ada = await server.connect("ada", messages=[Aim])
            room = await ada.join_or_create("arena")
            await asyncio.sleep(20)

            room.send_latest(Aim(1))
            assert await room.receive() == Aim(1)
            assert ada.latest_transport == "memory"

            udp.is_blocked = False
            await on_udp(ada, within_s=35)

    scenario(main)


def test_when_udp_stops_to_get_through_both_ends_use_the_stream_within_the_silence() -> None:
    async def main() -> None:
        udp = UdpNetwork(latency_s=0.05)
        async with server_on(udp) as server:
            ada = await server.connect("ada", messages=[Aim])
            room = await ada.join_or_create("arena")
            await on_udp(ada)

            udp.is_blocked = True
            await asyncio.sleep(Limits().udp_silence_s + 1.1)

            assert ada.latest_transport == "memory"
            room.send_latest(Aim(2))
            assert await room.receive() == Aim(2)
            assert ada.drops == 0

    scenario(main)


def test_udp_that_still_works_does_not_hide_that_the_stream_is_gone() -> None:
    async def main() -> None:
        async with server_on(UdpNetwork()) as server:
            ada = await server.connect("ada", messages=[Aim])
            room = await ada.join_or_create("arena")
            await on_udp(ada)

            server.link(ada).half_open("client")
            for number in range(600):
                room.send_latest(Aim(number))
                await asyncio.sleep(0.05)
                if ada.drops:
                    break

            assert ada.drops == 1

    scenario(main)


@pytest.mark.parametrize("seed", range(5))
def test_on_a_bad_network_newer_values_arrive_each_once_and_never_after_a_newer_one(seed: int) -> None:
    async def main() -> None:
        udp = UdpNetwork(Random(seed), loss=0.1, doubled=0.1, latency_s=0.05, jitter_s=0.2)
        # When the way changes, an older value on its way may still follow a newer one that went the other way.
        async with server_on(udp, limits=Limits(udp_silence_s=30.0)) as server:
            ada = await server.connect("ada", messages=[Aim])
            room = await ada.join_or_create("arena")
            await on_udp(ada)
            got: list[int] = []

            async def hear() -> None:
                while True:
                    got.append((await room.receive(Aim)).angle)

            hearing = asyncio.create_task(hear())
            for number in range(400):
                room.send_latest(Aim(number))
                await asyncio.sleep(0.05)
            await asyncio.sleep(2)
            hearing.cancel()

            heard = heard_by(server)
            assert heard == sorted(set(heard))
            assert got == sorted(set(got))
            assert len(heard) > 150
            assert len(got) > 80
            assert server.counters.datagrams_late > 0
            assert server.counters.datagrams_forged == server.counters.protocol_errors == ada.drops == 0

    scenario(main)


def test_what_was_lost_is_sent_once_more_by_default_so_that_hardly_one_is_missing() -> None:
    async def main() -> None:
        udp = UdpNetwork(Random(1), loss=0.1, latency_s=0.05)
        async with server_on(udp, limits=Limits()) as server:
            ada = await server.connect("ada", messages=[Aim])
            room = await ada.join_or_create("arena")
            await on_udp(ada)

            for number in range(400):
                room.send_latest(Aim(number))
                await asyncio.sleep(0.05)
            await asyncio.sleep(1)

            # Without repetition 360.
            assert len(heard_by(server)) >= 385

    scenario(main)


def test_repetition_stops_where_its_bytes_are_used_up() -> None:
    async def main() -> None:
        udp, sent = UdpNetwork(), []
        async with server_on(udp, limits=Limits(udp_repeat_bytes_per_s=500)) as server:
            ada = await server.connect("ada", messages=[Aim])
            room = await ada.join_or_create("arena")
            await on_udp(ada)

            def note(_: Address, datagram: bytes, is_for_server: bool) -> None:
                if is_for_server and datagram[0] == DatagramKind.CLIENT_LATEST:
                    sent.append(datagram)

            udp.on_packet = note
            for number in range(200):
                room.send_latest(Aim(number))
                await asyncio.sleep(0.05)

            repeated_bytes = sum(map(len, sent)) - sum(map(len, set(sent)))
            assert 0 < repeated_bytes <= 500 * 11
            assert len(set(sent)) == 200

    scenario(main)


def test_an_address_that_changes_behind_nat_is_proven_and_then_used() -> None:
    async def main() -> None:
        udp = UdpNetwork(latency_s=0.02)
        async with server_on(udp) as server:
            ada = await server.connect("ada", messages=[Aim])
            room = await ada.join_or_create("arena")
            await on_udp(ada)

            udp.sockets["ada"].move()
            await asyncio.sleep(2)
            room.send_latest(Aim(3))

            assert await room.receive() == Aim(3)
            assert (ada.latest_transport, ada.drops) == ("udp", 0)

    scenario(main)


async def held_back(udp: UdpNetwork, send: Callable[[], object]) -> bytes:
    """The datagram that a client sends, which does not arrive."""
    packets: list[bytes] = []
    udp.on_packet = lambda _, datagram, is_for_server: packets.append(datagram) if is_for_server else None
    udp.is_blocked = True
    send()
    await asyncio.sleep(0.1)
    udp.is_blocked, udp.on_packet = False, None
    (datagram,) = [each for each in packets if each[0] == DatagramKind.CLIENT_LATEST]
    return datagram


def test_a_datagram_that_is_changed_or_repeated_does_nothing_but_be_counted() -> None:
    async def main() -> None:
        udp = UdpNetwork()
        async with server_on(udp) as server:
            ada = await server.connect("ada", messages=[Aim])
            room = await ada.join_or_create("arena")
            await on_udp(ada)
            address, counters = udp.sockets["ada"].address, server.counters
            datagram = await held_back(udp, lambda: room.send_latest(Aim(1)))

            for place in range(len(datagram)):
                udp.to_server(1, address, datagram[:place] + bytes([datagram[place] ^ 0x80]) + datagram[place + 1 :])
                udp.to_server(1, address, datagram[:place])
            await asyncio.sleep(0.1)
            assert heard_by(server) == []
            assert counters.datagrams_late == 0
            # Of the id, and what is too short to have one.
            assert counters.datagrams_unknown == ID_BYTES + SEAL_BYTES
            assert counters.datagrams_forged == 2 * len(datagram) - counters.datagrams_unknown

            for _ in range(3):
                udp.to_server(1, address, datagram)
            await asyncio.sleep(0.1)
            assert heard_by(server) == [1]
            assert counters.datagrams_late == 2
            assert ada.drops == 0

    scenario(main)


def test_an_address_that_is_not_proven_gets_no_more_bytes_than_it_sent_and_none_of_the_game() -> None:
    async def main() -> None:
        udp = UdpNetwork()
        thief: Address = ("203.0.113.66", 6666)
        stolen: list[bytes] = []
        answers: list[bytes] = []
        is_stealing = False

        def note(address: Address, datagram: bytes, is_for_server: bool) -> None:
            if is_for_server and is_stealing and address != thief:
                # It comes from another address, and before the client's own.
                stolen.append(datagram)
                udp.to_server(1, thief, datagram)
            elif address == thief and not is_for_server:
                answers.append(datagram)

        udp.on_packet = note
        async with server_on(udp) as server:
            ada = await server.connect("ada", messages=[Aim])
            room = await ada.join_or_create("arena")
            await on_udp(ada)
            is_stealing = True
            for number in range(100):
                room.send_latest(Aim(number))
                await asyncio.sleep(0.05)
            is_stealing = False

            assert {each[0] for each in answers} == {DatagramKind.CHALLENGE}
            assert max(map(len, answers)) == SEAL_BYTES + COOKIE_BYTES
            assert sum(map(len, answers)) <= sum(map(len, stolen))
            await asyncio.sleep(5)
            await on_udp(ada)

    scenario(main)


def test_noise_gets_no_answer_and_nothing_is_kept_for_it() -> None:
    async def main() -> None:
        udp, answered = UdpNetwork(), []
        async with server_on(udp) as server:
            ada = await server.connect("ada")
            await on_udp(ada)
            count = len(server.parts.udp_paths)
            udp.on_packet = lambda address, _, is_for_server: None if is_for_server else answered.append(address)
            random = Random(7)

            for number in range(500):
                udp.to_server(1, ("192.0.2.1", number), random.randbytes(random.randrange(200)))
            await asyncio.sleep(0.1)

            assert [each for each in answered if each[0] == "192.0.2.1"] == []
            assert server.counters.datagrams_unknown == 500
            assert len(server.parts.udp_paths) == count

    scenario(main)


def test_each_connection_has_its_own_key_and_what_an_old_one_says_is_dropped() -> None:
    async def main() -> None:
        udp = UdpNetwork()
        async with server_on(udp) as server:
            ada = await server.connect("ada", messages=[Aim])
            room = await ada.join_or_create("arena")
            await on_udp(ada)
            old = udp.sockets["ada"]
            datagram = await held_back(udp, lambda: room.send_latest(Aim(1)))

            server.link(ada).cut()
            await until(lambda: ada.drops == 1 and ada.connected)
            await on_udp(ada)
            before = server.counters.datagrams_unknown
            udp.to_server(1, old.address, datagram)
            await asyncio.sleep(0.1)

            assert server.counters.datagrams_unknown == before + 1
            assert heard_by(server) == []
            assert len(server.parts.udp_paths) == 1
            assert udp.sockets["ada"] is not old

    scenario(main)


def test_after_a_takeover_the_datagrams_of_the_old_client_have_no_effect() -> None:
    async def main() -> None:
        udp = UdpNetwork()
        async with server_on(udp) as server:
            one = await server.connect("ada", messages=[Aim])
            room = await one.join_or_create("arena")
            await on_udp(one)
            address = udp.sockets["ada"].address
            datagram = await held_back(udp, lambda: room.send_latest(Aim(1)))

            two = await server.connect("ada", messages=[Aim])
            again = await two.join(room.id)
            await on_udp(two)
            udp.to_server(1, address, datagram)
            again.send_latest(Aim(2))

            assert await again.receive(Aim) == Aim(2)
            assert heard_by(server) == [2]

    scenario(main)


def test_a_server_that_is_killed_and_comes_back_gives_a_new_key() -> None:
    async def main() -> None:
        udp = UdpNetwork()
        server = MemoryServer([Durable], udp=udp, store=FaultyStore(), limits=limits())
        async with server:
            ada = await server.connect("ada", messages=[Aim])
            room = await ada.join_or_create("durable")
            await on_udp(ada)

            server.crash()
            await asyncio.sleep(1)
            await server.start()
            await until(lambda: ada.drops == 1 and ada.connected)
            await on_udp(ada)
            room.send_latest(Aim(5))

            assert await room.receive() == Aim(5)
            assert server.counters.datagrams_forged == 0

    scenario(main)


async def welcomed(server: MemoryServer, features: list[str]) -> Datagrams | None:
    client = RawClient(MSGPACK)
    await server.network.dial(
        client,
        URL,
        subprotocols=[Subprotocol(MSGPACK.name, text=False)],
        limits=TransportLimits.of(server.limits),
    )
    client.say(Hello(Auth(Named.scheme, "ada"), None, "", "", features))
    offer = (await client.hear(Welcome)).datagrams
    await client.close()
    return offer


def test_only_a_client_that_can_use_it_gets_a_key_and_each_gets_another() -> None:
    async def main() -> None:
        async with server_on(UdpNetwork()) as server:
            assert await welcomed(server, []) is None
            one, two = [await welcomed(server, [SENDS_DATAGRAMS]) for _ in range(2)]

            assert one is not None
            assert two is not None
            assert (one.id, one.secret) != (two.id, two.secret)
            assert one.secret not in repr(one)
            await until(lambda: len(server.parts.udp_paths) == 0)
        async with MemoryServer([Arena]) as server:
            assert await welcomed(server, [SENDS_DATAGRAMS]) is None

    scenario(main)


def test_a_flood_over_udp_counts_like_any_other() -> None:
    async def main() -> None:
        async with server_on(UdpNetwork(), limits=limits(bytes_per_s=2_000, bytes_burst=4_000)) as server:
            ada = await server.connect("ada", messages=[Aim])
            room = await ada.join_or_create("arena")
            await on_udp(ada)

            for number in range(200):
                room.send_latest(Aim(number))
                await asyncio.sleep(0.01)

            assert server.counters.latest_throttled + len(heard_by(server)) < 200
            assert len(heard_by(server)) < 60

    scenario(main)
