"""Chat: the smallest room there is. Serve it with `holdfast serve examples/chat.py`, or run it to see it play.

Bo's connection is cut while Ada talks. He misses nothing and hears nothing twice: there is no code for that here.
"""

import asyncio

import holdfast
from holdfast import Message, Player, PlayerData, Reason, Room, Server, WebSocket, on


class Say(Message):
    """A client says something."""

    text: str


class Said(Message):
    """Everybody hears it."""

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
    """Two people talk; the connection of one is cut in the middle."""
    async with Server([Chat], listen=[WebSocket(port=0)]) as server:
        url = server.url
        async with holdfast.connect(url, messages=[Said]) as ada, holdfast.connect(url, messages=[Said]) as bo:
            bo.on_resume = lambda outcome: print(f"   bo is back: {outcome.kind}, {outcome.replayed} replayed")
            adas_room = await ada.join_or_create("chat")
            bos_room = await bo.join_or_create("chat")

            for number in range(1, 6):
                await adas_room.send(Say(f"line {number}"))
                if number == 2:
                    print("   snip: bo's connection is cut")
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
