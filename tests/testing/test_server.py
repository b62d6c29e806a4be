"""A whole server in memory: what a game's own tests would do with it."""

import asyncio
from random import Random
from textwrap import dedent
from typing import Any

import pytest

import holdfast.testing
from holdfast import Auth, Limits, Message, NotSeated, Player, PlayerData, Resynced, Room, SessionEnded, on
from holdfast.identity import Guest
from holdfast.testing import MemoryServer, run


class Say(Message):
    text: str


class Chat(Room[PlayerData]):
    @on(Say)
    def said(self, player: Player[PlayerData], say: Say) -> None:
        self.broadcast(say)

    def on_resync(self, player: Player[PlayerData]) -> Any:
        player.send(Say("the state"))


def test_the_example_of_the_package_runs_as_it_stands() -> None:
    words = holdfast.testing.__doc__
    assert words is not None
    example = dedent("\n".join(line for line in words.splitlines() if line.startswith("    ") or not line))

    exec(compile(example, "the docstring of holdfast.testing", "exec"), {})  # noqa: S102 - our own docstring


def test_a_client_is_who_it_says_it_is() -> None:
    async def main() -> None:
        async with MemoryServer([Chat]) as server:
            ada = await server.connect("ada")

            assert ada.player_id == "ada"
            assert [session.player_id for session in server.sessions] == ["ada"]

    run(main())


def test_other_authenticators_can_be_tested() -> None:
    async def main() -> None:
        async with MemoryServer([Chat], auth=[Guest(bytes(32), Random(1))]) as server:
            guest = await server.connect()
            again = await server.connect(auth=Auth("guest", guest.credential))

            assert guest.player_id == again.player_id
            with pytest.raises(SessionEnded):
                await server.connect("ada")

    run(main())


def test_a_cut_link_is_resumed_and_nothing_is_lost() -> None:
    async def main() -> None:
        async with MemoryServer([Chat]) as server:
            ada = await server.connect("ada", messages=[Say])
            room = await ada.join_or_create("chat")

            for number in range(10):
                await room.send(Say(str(number)))
                server.link(ada).cut()

            assert [await room.receive() for _ in range(10)] == [Say(str(number)) for number in range(10)]
            assert ada.outcome is not None
            assert ada.outcome.kind == "resumed"

    run(main())


def test_a_player_who_is_away_for_longer_than_the_grace_loses_the_session() -> None:
    async def main() -> None:
        async with MemoryServer([Chat], grace_s=5.0) as server:
            ada = await server.connect("ada")
            server.dialer(ada).is_down = True
            server.link(ada).cut()

            await asyncio.sleep(6.0)

            assert len(server.sessions) == 0

    run(main())


def test_limits_can_be_made_small_enough_to_be_reached() -> None:
    async def main() -> None:
        limits = Limits(window_messages_max=4, kept_messages_max=8)
        async with MemoryServer([Chat], limits=limits) as server:
            ada = await server.connect("ada", messages=[Say])
            bob = await server.connect("bob", messages=[Say])
            room = await ada.join_or_create("chat")
            loud = await bob.join(room.id)
            server.link(ada).stop_reading("client")

            for number in range(30):
                await loud.send(Say(str(number)))
                await loud.receive()

            assert await room.receive() == Resynced()
            assert await room.receive() == Say("the state")

    run(main())


def test_the_end_of_the_server_closes_its_clients() -> None:
    async def main() -> None:
        async with MemoryServer([Chat]) as server:
            ada = await server.connect("ada")
            room = await ada.join_or_create("chat")
            server.dialer(ada).is_down = True
            server.link(ada).cut()

        with pytest.raises((SessionEnded, NotSeated)):
            await room.send(Say("anybody?"))

    run(main())


def test_two_servers_live_side_by_side() -> None:
    async def main() -> None:
        async with MemoryServer([Chat]) as first, MemoryServer([Chat]) as second:
            await first.connect("ada")

            assert (len(first.sessions), len(second.sessions)) == (1, 0)

    run(main())


@pytest.mark.parametrize("is_same", [True, False])
def test_ids_follow_from_the_seed(is_same: bool) -> None:
    async def main(seed: int) -> tuple[str, str]:
        async with MemoryServer([Chat], seed=seed) as server:
            ada = await server.connect("ada")
            room = await ada.join_or_create("chat")
            return ada.id, room.id

    assert (run(main(1)) == run(main(1 if is_same else 2))) is is_same


@pytest.mark.parametrize("name", ["recovery", "too_many_sessions", "full_share"])
def test_settings_that_are_gone_say_what_to_use_instead(name: str) -> None:
    options: dict[str, Any] = {name: None}

    with pytest.raises(TypeError, match=f"`{name}` was removed: it "):
        MemoryServer([Chat], **options)
