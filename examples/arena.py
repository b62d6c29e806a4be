"""Arena: a world with ticks. Each hero has a position and owns a banner, and keeps both through a drop."""

import asyncio

import holdfast
from holdfast import Message, Player, PlayerData, Reason, Room, Server, WebSocket, on


class Move(Message):
    """From a client: walk in this direction."""

    dx: float
    dy: float


class World(Message):
    """To clients: every hero's position. Sent with `broadcast_latest`, because only the newest one matters."""

    heroes: dict[str, tuple[float, float]]


class Banner(Message):
    """To clients: the banner has this owner now; None: no owner."""

    id: str
    owner: str | None


class Hero(PlayerData):
    """The data that a player keeps across a drop."""

    x: float = 0.0
    y: float = 0.0
    dx: float = 0.0
    dy: float = 0.0

    def reset(self) -> None:
        self.x = self.y = self.dx = self.dy = 0.0


class Arena(Room[Hero]):
    """Up to eight heroes, twenty ticks a second."""

    max_players = 8
    grace_s = 30.0
    tick_hz = 20
    empty_ttl_s = 5.0

    def on_join(self, player: Player[Hero]) -> None:
        self.own(player, f"banner of {player.id}")
        self.broadcast(Banner(f"banner of {player.id}", player.id))

    def on_drop(self, player: Player[Hero]) -> None:
        player.data.dx = player.data.dy = 0.0

    def on_rejoin(self, player: Player[Hero]) -> None:
        for banner in sorted(player.owned):
            self.broadcast(Banner(banner, player.id))

    def on_leave(self, player: Player[Hero], reason: Reason) -> None:
        for banner in sorted(player.owned):
            self.broadcast(Banner(banner, None))

    def on_tick(self, dt_s: float) -> None:
        for player in self.players:
            player.data.x += player.data.dx * dt_s
            player.data.y += player.data.dy * dt_s
        world = World({player.id: (round(player.data.x, 3), round(player.data.y, 3)) for player in self.players})
        self.broadcast_latest(world)

    @on(Move)
    def move(self, player: Player[Hero], move: Move) -> None:
        player.data.dx, player.data.dy = move.dx, move.dy


async def main() -> None:
    """One hero walks east, drops, and returns to the same position with the same banner."""
    async with (
        Server([Arena], listen=[WebSocket(port=0)]) as server,
        holdfast.connect(server.url, messages=[World, Banner]) as session,
    ):
        room = await session.join_or_create("arena")
        await room.send(Move(1.0, 0.0))
        x = 0.0
        async for message in room:
            if isinstance(message, World):
                x = message.heroes[session.player_id][0]
                if x > 0.2 and not session.drops:
                    session.cut()
            elif isinstance(message, Banner) and session.drops:
                print(f"back at x = {x:.2f} with the {message.id}")
                assert message.owner == session.player_id
                assert x > 0.2
                break


if __name__ == "__main__":
    asyncio.run(main())
