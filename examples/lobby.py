"""Lobby: the rooms of a server as a list that stays true, and friends who keep their seats together."""

import asyncio

import holdfast
from holdfast import (
    ClientRoom,
    ClientSession,
    Message,
    Player,
    PlayerData,
    Room,
    RoomInfo,
    RoomWatch,
    Server,
    WebSocket,
    on,
)


class Ready(Message):
    """A player wants to begin."""


class Begun(Message):
    """Everybody is ready."""

    players: list[str]


class Quest(Room[PlayerData]):
    """Three seats and a host; it begins when all are taken and everybody is ready."""

    max_players = 3
    election = "oldest"

    def on_create(self, config: dict[str, object]) -> None:
        self.state = set[str]()

    def on_join(self, player: Player[PlayerData]) -> None:
        self.properties["level"] = 10 * len(self.players)  # what searches look for is the game's to say

    @on(Ready)
    def ready(self, player: Player[PlayerData], ready: Ready) -> None:
        self.state.add(player.id)
        if len(self.state) == self.max_players:
            self.lock()  # nobody new from here on: it is in no list any more
            self.start()
            self.broadcast(Begun([player.id for player in self.players]))


def line(info: RoomInfo) -> str:
    return f"{info.name}: {info.open_seats} of {info.max_players} seats free, level {info.properties.get('level', 0)}"


async def show_list(watch: RoomWatch) -> None:
    """What a lobby shows. Nothing is polled: changes are pushed, and what a drop has missed is caught up with."""
    async for news in watch:
        for info in news.changed:
            print("list |", line(info))
        if news.removed:
            print("list | a room is full or gone;", len(watch.rooms), "left")
            return


async def play(name: str, session: ClientSession, room: ClientRoom) -> None:
    await room.send(Ready())
    async for message in room:
        if isinstance(message, Begun):
            role = "the host" if room.host == session.player_id else "a guest"
            print(f"{name} plays as {role} with {len(message.players) - 1} others")
            return


async def main() -> None:
    async with (
        Server([Quest], listen=[WebSocket(port=0)]) as server,
        holdfast.connect(server.url, messages=[Begun]) as ada,
        holdfast.connect(server.url, messages=[Begun]) as bob,
        holdfast.connect(server.url, messages=[Begun]) as cleo,
    ):
        made = await ada.create("quest", name="The old mine")
        async with cleo.watch("quest", where="open_seats > 0") as watch, asyncio.TaskGroup() as tasks:
            tasks.create_task(show_list(watch))
            await ada.reserve(made.id, players=[ada.player_id, bob.player_id])  # two seats together, or none
            hers = await ada.join(made.id)
            his = await bob.join(code=made.code)  # she has told him the code

            found = await cleo.join_or_create("quest", where="properties.level >= 20")
            for name, session, room in (("Ada", ada, hers), ("Bob", bob, his), ("Cleo", cleo, found)):
                tasks.create_task(play(name, session, room))


if __name__ == "__main__":
    asyncio.run(main())
