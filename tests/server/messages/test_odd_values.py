"""What MessagePack can say and nobody can pass on is refused as its sender's fault."""

from typing import Any

import pytest
from msgspec import Raw

from holdfast import Message, Player, PlayerData, Room, on
from holdfast.schemas.frames import Data
from tests.server.world import World


class Shout(Message):
    value: Any = None


class Echo(Room[PlayerData]):
    heard: list[Any]

    def on_create(self, config: dict[str, Any]) -> None:
        self.heard = []

    @on(Shout)
    def shouted(self, player: Player[PlayerData], shout: Shout) -> None:
        self.heard.append(shout.value)
        self.broadcast(shout)


@pytest.mark.parametrize(
    "value", [b"\x81\xc0\x01", b"\x81\x01\x01", b"\x81\xc4\x01a\x01", b"\xd4\x05\x00", b"\x91\xc7\x01\x07a"]
)
async def test_odd_keys_and_extensions_are_refused_and_the_room_never_hears_of_them(
    world: World, caplog: pytest.LogCaptureFixture, value: bytes
) -> None:
    server = await world.serve(Echo)
    client = await world.raw(server)
    await client.sign_in()
    seat = await client.join("echo")
    (room,) = server.rooms

    client.say(Data(seat.channel, 1, 0, "shout", Raw(b"\x81\xa5value" + value)))
    client.say(Data(seat.channel, 2, 0, "shout", Raw(b"\x81\xa5value\x81\xa1a\x01")))
    refusal, heard = await client.hear(Data), await client.hear(Data)

    assert b"invalid" in bytes(refusal.body)
    assert bytes(heard.body) == b"\x81\xa5value\x81\xa1a\x01"
    assert isinstance(room, Echo)
    assert room.heard == [{"a": 1}]
    counters = server.counters
    assert (counters.messages_refused, counters.turns_failed, counters.internal_errors) == (1, 0, 0)
    assert caplog.records == []
