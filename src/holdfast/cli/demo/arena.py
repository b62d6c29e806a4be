"""The demo's game: ships that race for a coin. A Holdfast game is a file like this one, run by `holdfast serve`."""

from typing import Any

import msgspec

from holdfast import Message, Player, PlayerData, Refused, Room, on

SIZE = 100.0
REACH = 3.0


class Welcome(Message):
    """To a player who joins: your ship, and the number of the last view you missed."""

    ship: str
    view: int


class Steer(Message):
    """From a player: move my ship. Numbered, so that the room can tell if one is missing or comes twice."""

    number: int
    ship: str
    dx: float
    dy: float


class View(Message):
    """To everybody, at every tick: where the ships and the coin are. Numbered, as above, for the player."""

    number: int
    ships: dict[str, tuple[float, float]]
    coin: tuple[float, float]


class Tally(msgspec.Struct):
    """Counts numbered messages as they come in."""

    last: int = 0
    lost: int = 0
    doubled: int = 0

    def count(self, number: int) -> None:
        """A message came: one higher than the last is right, a leap is a loss, anything lower is a double."""
        if number > self.last:
            self.lost += number - self.last - 1
            self.last = number
        else:
            self.doubled += 1


class Pilot(PlayerData):
    """What a player keeps, however often the connection breaks."""

    x: float = 0.0
    y: float = 0.0
    coins: int = 0
    steered: Tally = msgspec.field(default_factory=Tally)


class Arena(Room[Pilot]):
    """One sea, one coin, many ships."""

    max_players = 256
    grace_s = 30.0
    tick_hz = 20
    orphans = "destroy"

    def on_create(self, config: dict[str, Any]) -> None:
        """Begin."""
        self.views = 0
        self.launched = 0
        self.coin = self.somewhere()

    def on_join(self, player: Player[Pilot]) -> None:
        """Give everybody a ship of their own."""
        self.launched += 1
        ship = f"ship-{self.launched}"
        self.own(player, ship)
        player.data.x, player.data.y = self.somewhere()
        player.send(Welcome(ship, self.views))

    @on(Steer)
    def steer(self, player: Player[Pilot], steer: Steer) -> None:
        """Move a ship, if it is the player's own."""
        if self.owner_of(steer.ship) is not player:
            raise Refused(f"{steer.ship} is not yours")
        pilot = player.data
        pilot.steered.count(steer.number)
        pilot.x = min(max(pilot.x + steer.dx, 0.0), SIZE)
        pilot.y = min(max(pilot.y + steer.dy, 0.0), SIZE)
        if abs(pilot.x - self.coin[0]) < REACH and abs(pilot.y - self.coin[1]) < REACH:
            pilot.coins += 1
            self.coin = self.somewhere()

    def on_tick(self, dt_s: float) -> None:
        """Show everybody where everything is. Who is away gets it when they are back."""
        self.views += 1
        ships = {ship: (player.data.x, player.data.y) for player in self.players for ship in player.owned}
        self.broadcast(View(self.views, ships, self.coin))

    def somewhere(self) -> tuple[float, float]:
        """A random place."""
        return self.random.uniform(0.0, SIZE), self.random.uniform(0.0, SIZE)
