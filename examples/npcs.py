"""NPCs: a room opens ten agents (bots in the server's process). They need no socket and no encoding; to the room they
are ordinary players. `holdfast serve examples/npcs.py` runs the same room."""

import asyncio

import holdfast
from holdfast import Message, Player, PlayerData, Room, RoomAgent, Server, WebSocket, on

NPCS = 10


class Greet(Message):
    """From a player: greet another player."""

    whom: str


class Greeted(Message):
    """To everybody: one player greeted another."""

    who: str
    whom: str


class Tavern(Room[PlayerData]):
    """The room where they meet."""

    max_players = 16

    def on_create(self, config: dict[str, object]) -> None:
        for number in range(1, NPCS + 1):
            self.open_agent(f"npc-{number}", live)

    @on(Greet)
    def greet(self, player: Player[PlayerData], greet: Greet) -> None:
        self.broadcast(Greeted(player.id, greet.whom))


async def live(agent: RoomAgent[PlayerData]) -> None:
    """An NPC's behaviour: greet back every player who greets it."""
    while True:
        greeted = await agent.receive(Greeted)
        if greeted.whom == agent.id:
            agent.send(Greet(greeted.who))


async def main() -> None:
    """A player joins and greets every NPC; each NPC greets back."""
    async with (
        Server([Tavern], listen=[WebSocket(port=0)]) as server,
        holdfast.connect(server.url, messages=[Greeted]) as session,
    ):
        room = await session.join_or_create("tavern")
        for number in range(1, NPCS + 1):
            await room.send(Greet(f"agent:npc-{number}"))
        friends: set[str] = set()
        while len(friends) < NPCS:
            greeted = await room.receive(Greeted)
            if greeted.whom == session.player_id:
                friends.add(greeted.who)
        print(f"greeted back by {', '.join(sorted(friends))}")


if __name__ == "__main__":
    asyncio.run(main())
