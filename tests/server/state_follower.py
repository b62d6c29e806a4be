"""A client made by hand that follows what a room shares: read from the wire, as any SDK would."""

from typing import Any

import msgspec

from holdfast import Message, Server
from holdfast.core.codec import MSGPACK, Codec
from holdfast.core.messages import STATE
from holdfast.schemas.frames import FOLLOWS_STATE, Auth, Data, Hello, Position, Resume, SeatFrame, Welcome
from holdfast.state import Mirror
from tests.server.raw_client import RawClient
from tests.server.world import World


class Follower:
    """A client made by hand that follows the state."""

    def __init__(self, raw: RawClient, features: list[str]) -> None:
        self.raw = raw
        self.features = features
        self.mirror = Mirror()
        self.received = 0
        self.seen: list[tuple[str, Any]] = []
        """Every message, with the number of turns that the state had then."""
        self.bodies: list[bytes] = []
        self.player = ""
        self.heard = 0
        self.seq = 0

    async def sign_in(self) -> Welcome:
        self.raw.say(Hello(Auth("guest", ""), features=self.features))
        welcome = await self.raw.hear(Welcome)
        self.player = welcome.player
        return welcome

    async def resume(self, raw: RawClient, seat: SeatFrame) -> None:
        """Come back on another connection."""
        welcome, self.raw, self.heard = self.raw.all_heard(Welcome)[0], raw, 0
        position = Position(seat.channel, seat.generation, self.received, 0)
        resume = Resume(welcome.session, welcome.token, [position])
        raw.say(Hello(None, resume, features=self.features))
        await raw.hear(Welcome)

    async def join(self, kind: str = "table") -> SeatFrame:
        self.raw.ask("join_or_create", kind=kind)
        frame = await self.raw.hear(SeatFrame)
        await self.read()
        return frame

    async def watch(self, room: str) -> None:
        await self.raw.request("spectate", room=room)
        await self.read()

    async def read(self) -> None:
        """Deal with everything that was said before. Replies go first: the second comes after what waited for one."""
        await self.raw.request("mine")
        await self.raw.request("mine")
        frames, self.heard = self.raw.heard[self.heard :], len(self.raw.heard)
        for frame in frames:
            if isinstance(frame, Data):
                self.received = frame.seq
                if frame.type == STATE:
                    self.bodies.append(bytes(frame.body))
                    self.mirror.receive(decoded(self.raw.codec, frame.body))
                else:
                    turns = self.state.get("turns") if self.mirror.is_complete else None
                    self.seen.append((frame.type, turns))

    async def play(self, message: Message) -> None:
        self.seq += 1
        self.raw.send(self.seq, message)
        await self.read()

    @property
    def state(self) -> Any:
        return self.mirror.root["state"]

    @property
    def players(self) -> Any:
        return self.mirror.root["players"]

    @property
    def mine(self) -> Any:
        return self.mirror.root["mine"]


def decoded(codec: Codec, body: Any) -> Any:
    return (msgspec.json if codec.text else msgspec.msgpack).decode(body)


async def follower(
    world: World, server: Server, *, codec: Codec = MSGPACK, features: list[str] | None = None
) -> Follower:
    client = Follower(await world.raw(server, codec=codec), [FOLLOWS_STATE] if features is None else features)
    await client.sign_in()
    return client
