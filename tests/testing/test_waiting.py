"""A test that waits for what never comes fails, though a server and its clients ping each other for ever."""

import asyncio

import pytest

from holdfast import ClientRoom, Message, NotSeated, Player, PlayerData, Room, on
from holdfast.testing import Deadlock, MemoryServer, run


class Say(Message):
    text: str


class Chat(Room[PlayerData]):
    @on(Say)
    def said(self, player: Player[PlayerData], say: Say) -> None:
        if say.text == "later":
            self.after(600.0, self.broadcast, say)
        else:
            self.broadcast(say)


async def room_of(server: MemoryServer, name: str = "ada") -> ClientRoom:
    client = await server.connect(name, messages=[Say])
    return await client.join_or_create("chat")


def test_a_message_that_never_comes_is_a_deadlock_that_names_line_room_and_player() -> None:
    async def main() -> None:
        async with MemoryServer([Chat]) as server:
            room = await room_of(server)
            await room.receive()

    with pytest.raises(
        Deadlock, match=r"test_waiting\.py:\d+ for `await room\.receive\(\)`, in ClientRoom.receive of <.* chat of ada>"
    ):
        run(main())


def test_every_task_that_is_waited_for_is_named() -> None:
    async def main() -> None:
        async with MemoryServer([Chat]) as server:
            room = await room_of(server)
            async with asyncio.TaskGroup() as group:
                group.create_task(room.receive(), name="who listens")

    # As a group or not, by how it comes out of the task group.
    with pytest.raises(Deadlock, match=r"async with asyncio\.TaskGroup.*who listens waits, in ClientRoom.receive"):
        run(main())


def test_a_gather_of_which_one_never_ends_is_a_deadlock() -> None:
    async def main() -> None:
        async with MemoryServer([Chat]) as server:
            room = await room_of(server)
            await asyncio.gather(room.receive(), asyncio.sleep(10.0))

    with pytest.raises(Deadlock, match=r"ClientRoom\.receive"):
        run(main())


def test_an_event_that_nobody_sets_is_a_deadlock_beside_a_server() -> None:
    async def main() -> None:
        async with MemoryServer([Chat]) as server:
            await room_of(server)
            await asyncio.Event().wait()

    with pytest.raises(Deadlock, match=r"`await asyncio\.Event\(\)\.wait\(\)`"):
        run(main())


def test_who_gets_on_may_take_as_long_as_it_takes() -> None:
    async def main() -> list[Message]:
        async with MemoryServer([Chat]) as server:
            room = await room_of(server)
            heard = []
            for _ in range(5):
                await room.send(Say("later"))
                heard.append(await room.receive())
            return heard

    assert run(main()) == [Say("later")] * 5


def test_a_sleep_and_a_timeout_of_its_own_are_no_deadlock() -> None:
    async def main() -> None:
        async with MemoryServer([Chat]) as server:
            await room_of(server)
            await asyncio.sleep(5_000.0)
            with pytest.raises((TimeoutError, NotSeated)):
                async with asyncio.timeout(5_000.0):
                    await (await room_of(server, "bob")).receive()

    run(main())


def test_a_test_that_must_wait_longer_says_how_long() -> None:
    async def main() -> Message:
        async with MemoryServer([Chat]) as server:
            room = await room_of(server)
            await room.send(Say("later"))
            return await room.receive()

    assert run(main(), patience_s=700.0) == Say("later")
    with pytest.raises(Deadlock):
        run(main(), patience_s=100.0)
