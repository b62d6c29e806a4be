"""Chat: a minimal room. Serve it with `holdfast serve examples/chat.py`, or run this file to watch two clients.

Bo's connection is cut while Ada talks. He receives every message exactly once, without any code for it here.
"""

import asyncio

import holdfast
from holdfast import Message, Player, PlayerData, Reason, Room, Server, WebSocket, on


class Say(Message):
    """From a client: say something."""

    text: str


class Said(Message):
    """To all clients: somebody said something."""

    who: str
    text: str


class Chat(Room[PlayerData]):
    """A room to talk in."""

    def on_join(self, player: Player[PlayerData]) -> None:
        self.broadcast(Said("room", f"{player.id} is here"))

    def on_leave(self, player: Player[PlayerData], reason: Reason) -> None:
        self.broadcast(Said("room", f"{player.id} has left"))

    @on(Say)
    def say(self, player: Player[PlayerData], say: Say) -> None:
        if not say.text.strip():
            raise holdfast.Refused("say something")
        self.broadcast(Said(player.id, say.text))


async def main() -> None:
    """Two clients chat; the connection of one is cut in the middle."""
    async with Server([Chat], listen=[WebSocket(port=0)]) as server:
        url = server.url
        async with holdfast.connect(url, messages=[Said]) as ada, holdfast.connect(url, messages=[Said]) as bo:
            bo.on_resume(lambda outcome: print(f"   bo is back: {outcome.kind}, {outcome.replayed} replayed"))
            adas_room = await ada.join_or_create("chat")
            bos_room = await bo.join_or_create("chat")

            for number in range(1, 6):
                await adas_room.send(Say(f"line {number}"))
                if number == 2:
                    print("   bo's connection is cut")
                    bo.cut()

            heard: list[str] = []
            async for message in bos_room:
                if isinstance(message, Said) and message.who == ada.player_id:
                    print(f"bo hears: {message.text}")
                    heard.append(message.text)
                if len(heard) == 5:
                    break
            assert heard == [f"line {number}" for number in range(1, 6)]


if __name__ == "__main__":
    asyncio.run(main())
