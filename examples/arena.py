"""Arena: a ticking world. Heroes move, own a banner each, and keep both through a drop."""

import asyncio

import holdfast
from holdfast import Message, Player, PlayerData, Reason, Room, Server, WebSocket, on


class Move(Message):
    """A client wants to walk this way."""

    dx: float
    dy: float


class World(Message):
    """Where everybody is: the newest is the only one of interest."""

    heroes: dict[str, tuple[float, float]]


class Banner(Message):
    """Whose banner this is now; None: nobody's."""

    id: str
    owner: str | None


class Hero(PlayerData):
    """What a player keeps across a drop."""

    x: float = 0.0
    y: float = 0.0
    dx: float = 0.0
    dy: float = 0.0

    def reset(self) -> None:
        self.x = self.y = self.dx = self.dy = 0.0


class Arena(Room[Hero]):
    """Twenty steps a second."""

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
        for player in self.players:
            player.send_latest(world)

    @on(Move)
    def move(self, player: Player[Hero], move: Move) -> None:
        player.data.dx, player.data.dy = move.dx, move.dy


async def main() -> None:
    """One hero walks east, drops, and finds themself where they stopped, banner in hand."""
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
