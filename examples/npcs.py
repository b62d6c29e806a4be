"""NPCs: ten agents in a room, players made of code. No socket, no encoding; to the room they are like anybody."""

import asyncio

import holdfast
from holdfast import Agent, Message, Player, PlayerData, Room, Server, WebSocket, on

NPCS = 10


class Greet(Message):
    """Somebody greets somebody."""

    whom: str


class Greeted(Message):
    """Everybody hears of it."""

    who: str
    whom: str


class Tavern(Room[PlayerData]):
    """Where they meet."""

    max_players = 16

    @on(Greet)
    def greet(self, player: Player[PlayerData], greet: Greet) -> None:
        self.broadcast(Greeted(player.id, greet.whom))


async def live(agent: Agent, room_id: str) -> None:
    """The mind of an NPC: greet back whoever greets you."""
    room = await agent.join(room_id)
    async for message in room:
        if isinstance(message, Greeted) and message.whom == agent.session.player_id:
            await room.send(Greet(message.who))


async def main() -> None:
    """A player walks in and greets every NPC; each greets back."""
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
