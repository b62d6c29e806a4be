"""A seeded vandal: frames that are well formed, in no order that makes sense, over connections that come and go."""

from contextlib import AsyncExitStack
from random import Random
from typing import Any

from tests.server.foreign import Door, Foreigner, Frame
from tests.server.hostile_world import World

_BODIES: list[Any] = [{"n": 1}, {}, {"n": "x"}, None, [1], {"way": "north"}, {"text": "no"}]
_TYPES = ["say", "say", "walk", "guess", "fly", "holdfast.left"]
_CHANNELS = [1, 1, 1, 2, 2, 3, 0, 9]


class Vandal:
    """One of them. It knows the rules just well enough to get past the first check of each."""

    def __init__(self, world: World, door: Door, seed: int) -> None:
        self._world = world
        self._door = door
        self._random = Random(seed)
        self._welcomes: list[Frame] = []
        self._seq = 1
        self._request = 1

    async def rage(self, connections: int) -> None:
        """Come and go this often."""
        async with AsyncExitStack() as stack:
            for _ in range(connections):
                peer = await stack.enter_async_context(self._world.enter(self._door))
                await self._say_hello(peer)
                for _ in range(self._random.randrange(25)):
                    await peer.say(*(self._frame() for _ in range(self._random.choice([1, 1, 1, 2, 5]))))
                # Else it stays open, to be taken over or closed by the server.
                if self._random.random() < 0.5:
                    await peer.wire.hang_up()

    async def _say_hello(self, peer: Foreigner) -> None:
        random = self._random
        resume = None
        if self._welcomes and random.random() < 0.9:
            welcome = self._welcomes[-1] if random.random() < 0.85 else random.choice(self._welcomes)
            positions = [self._position(channel) for channel in random.sample([1, 2, 3, 4], random.randrange(4))]
            resume = {"session": welcome[1], "token": welcome[3], "positions": positions}
        await peer.say(["hello", {} if resume is None or random.random() < 0.8 else None, resume])
        frame = await peer.hear_any("welcome", "close")
        if frame[0] == "welcome":
            self._go_on(frame)

    def _go_on(self, welcome: Frame) -> None:
        self._welcomes.append(welcome)
        self._request = welcome[7] + 1
        self._seq = 1 + max((max(info["applied"], info.get("accepted", 0)) for info in welcome[6]), default=0)

    def _position(self, channel: int) -> dict[str, int | None]:
        random = self._random
        received = random.choice([None, 0, 1, 2, random.randrange(40)])
        return {"channel": channel, "generation": random.choice([1, 1, 1, 2]), "received": received}

    def _frame(self) -> Frame:
        random = self._random
        channel, kind, body = random.choice(_CHANNELS), random.choice(_TYPES), random.choice(_BODIES)
        return random.choices(
            [
                ["data", channel, self._next_seq(), random.choice([0, 0, 1, random.randrange(12)]), kind, body],
                ["latest", channel, kind, body],
                ["ack", channel, random.choice([0, 1, 2, random.randrange(30)])],
                ["pong", random.randrange(3), channel, random.randrange(4)],
                self._some_request(),
                ["bye"],
                ["hello", {}],
            ],
            weights=[40, 10, 20, 10, 30, 1, 1],
        )[0]

    def _next_seq(self) -> int:
        if self._random.random() < 0.9:
            self._seq += 1
            return self._seq - 1
        return self._random.choice([1, 2, self._seq + 1, 2**53 - 1])

    def _some_request(self) -> Frame:
        random, hall = self._random, self._world.hall.id
        operation, arguments = random.choice(
            [
                ("join", {"room": hall}),
                ("join", {"room": hall}),
                ("join", {}),
                ("leave", {}),
                ("leave", {}),
                ("search", {}),
                ("join_or_create", {"kind": "hall"}),
                ("nonsense", {}),
            ]
        )
        request_id = self._request
        if random.random() < 0.9:
            self._request += 1
        return ["request", request_id, operation, arguments]
