"""SQLite's loop: let the first call of the store fail, then the second, and so on until the story ends untouched."""

import asyncio
from itertools import count

import pytest
from msgspec import Struct

from holdfast import ClientSession, Effect, Limits, Message, Player, PlayerData, Room, on
from holdfast.stores import StoreError, Unavailable, Unknown
from holdfast.testing import FaultyStore, MemoryServer, run

LIMITS = Limits(store_retry_s=0.05)


class Say(Message):
    text: str


class Minutes(Struct):
    said: list[str] = []
    rung: int = 0


class Chat(Room[PlayerData]):
    durability = "commit"
    state: Minutes

    def on_create(self, config: dict[str, object]) -> None:
        self.state = Minutes()
        self.after(2.0, self.ring)

    def ring(self) -> None:
        self.state.rung += 1

    @on(Say)
    def said(self, player: Player[PlayerData], say: Say) -> None:
        self.state.said.append(say.text)
        self.effect("write down", say.text)
        self.broadcast(say)


class Story:
    """A player talks, the server crashes, comes back, and stops in order; one call of its store fails."""

    def __init__(self) -> None:
        self.store = FaultyStore(latency_s=0.001)
        self.written: dict[str, str] = {}
        self.server = MemoryServer(
            [Chat], store=self.store, effects={"write down": self.write_down}, limits=LIMITS, seed="story"
        )
        self.heard: list[str] = []

    async def write_down(self, effect: Effect) -> None:
        self.written[effect.key] = effect.payload

    async def start(self) -> None:
        while True:
            try:
                return await self.server.start()
            except StoreError:
                await asyncio.sleep(0.1)

    async def told(self) -> None:
        await self.start()
        ada = await self.server.connect("ada", messages=[Say])
        room = await ada.join_or_create("chat")
        reader = asyncio.create_task(self.read(ada))
        for texts in (("one", "two"), ("three", "four"), ("five",)):
            for text in texts:
                await room.send(Say(text))
            await room.flush()
            self.server.crash()
            await self.start()
        await room.flush()
        await asyncio.sleep(5.0)
        await self.server.stop()
        await self.start()
        await asyncio.sleep(20.0)
        self.check(ada)
        reader.cancel()
        await ada.close()
        await asyncio.sleep(1.0)
        await self.server.stop()

    async def read(self, ada: ClientSession) -> None:
        assert ada.room is not None
        async for message in ada.room:
            assert isinstance(message, Say)
            self.heard.append(message.text)

    def check(self, ada: ClientSession) -> None:
        assert ada.room is not None
        room = self.server.rooms.get(ada.room.id)
        assert room is not None
        said = ["one", "two", "three", "four", "five"]
        assert room.state.said == said
        assert self.heard == said
        assert sorted(self.written.values()) == sorted(said)
        assert room.state.rung == 1
        assert not [entry for entry in self.store.disk.entries if entry.startswith("effect/")]


@pytest.mark.parametrize(
    ("error", "is_written"), [(Unavailable, False), (Unknown, True), (Unknown, False)], ids=["refused", "done", "lost"]
)
def test_whichever_call_of_the_store_fails_nothing_is_lost_or_done_twice(
    error: type[StoreError], is_written: bool
) -> None:
    for call in count(1):
        story = Story()
        story.store.fail(error("not this time"), call=call, is_written=is_written)

        run(story.told())

        if story.store.calls < call:
            break
    assert call > 20
