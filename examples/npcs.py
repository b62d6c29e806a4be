"""NPCs: ten agents (bots in the server's process) in a room. They need no socket and no encoding; to the room they are
ordinary players."""

import asyncio

import holdfast
from holdfast import Agent, Message, Player, PlayerData, Room, Server, WebSocket, on

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

    @on(Greet)
    def greet(self, player: Player[PlayerData], greet: Greet) -> None:
        self.broadcast(Greeted(player.id, greet.whom))


async def live(agent: Agent, room_id: str) -> None:
    """An NPC's behaviour: greet back every player who greets it."""
    room = await agent.join(room_id)
    async for message in room:
        if isinstance(message, Greeted) and message.whom == agent.session.player_id:
            await room.send(Greet(message.who))


async def main() -> None:
    """A player joins and greets every NPC; each NPC greets back."""
    async with Server([Tavern], listen=[WebSocket(port=0)]) as server, asyncio.TaskGroup() as lives:
        tavern = await server.create_room("tavern")
        agents = [server.open_agent(f"npc-{number}") for number in range(1, NPCS + 1)]
        for agent in agents:
            lives.create_task(live(agent, tavern.id))

        async with holdfast.connect(server.url, messages=[Greeted]) as session:
            room = await session.join(tavern.id)
            for agent in agents:
                await room.send(Greet(agent.session.player_id))
            friends: set[str] = set()
            async for message in room:
                if isinstance(message, Greeted) and message.whom == session.player_id:
                    friends.add(message.who)
                if len(friends) == NPCS:
                    break
            print(f"greeted back by {', '.join(sorted(friends))}")

        for agent in agents:
            agent.end()


if __name__ == "__main__":
    asyncio.run(main())
