"""Lobby: a live list of the rooms on a server, and friends who reserve seats together."""

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
    """From a client: this player is ready."""


class Begun(Message):
    """To clients: everybody is ready, and the quest begins."""

    players: list[str]


class Quest(Room[PlayerData]):
    """Three seats and a host. The quest begins when all seats are taken and everybody is ready."""

    max_players = 3
    election = "oldest"

    def on_create(self, config: dict[str, object]) -> None:
        self.state = set[str]()

    def on_join(self, player: Player[PlayerData]) -> None:
        self.properties["level"] = 10 * len(self.players)  # the game decides which properties searches see

    @on(Ready)
    def ready(self, player: Player[PlayerData], ready: Ready) -> None:
        self.state.add(player.id)
        if len(self.state) == self.max_players:
            self.lock()  # nobody can join from here on, and searches no longer find it
            self.start()
            self.broadcast(Begun([player.id for player in self.players]))


def describe(info: RoomInfo) -> str:
    return f"{info.name}: {info.open_seats} of {info.max_players} seats free, level {info.properties.get('level', 0)}"


async def show_list(watch: RoomWatch) -> None:
    """Print the list of rooms. The server pushes changes; after a drop the watch catches up by itself."""
    async for update in watch:
        for info in update.changed:
            print("list |", describe(info))
        if update.removed:
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
        created = await ada.create("quest", name="The old mine")
        async with cleo.watch("quest", where="open_seats > 0") as watch, asyncio.TaskGroup() as tasks:
            tasks.create_task(show_list(watch))
            await ada.reserve(created.id, players=[ada.player_id, bob.player_id])  # both seats or none
            hers = await ada.join(created.id)
            his = await bob.join(code=created.code)  # she told him the code

            found = await cleo.join_or_create("quest", where="properties.level >= 20")
            for name, session, room in (("Ada", ada, hers), ("Bob", bob, his), ("Cleo", cleo, found)):
                tasks.create_task(play(name, session, room))


if __name__ == "__main__":
    asyncio.run(main())
