"""The demo's game: ships that race for a coin. A Holdfast game is a file like this one, run by `holdfast serve`."""

from typing import Any

import msgspec

from holdfast import Message, Player, PlayerData, Refused, Room, on

SIZE = 100.0
REACH = 3.0


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
    """To every player, at every tick: your ship, the coin, and how your commands came in. Numbered, as those are."""

    number: int
    place: tuple[float, float]
    coin: tuple[float, float]
    coins: int
    steered: Tally


class Pilot(PlayerData):
    """What a player keeps, however often the connection breaks."""

    x: float = 0.0
    y: float = 0.0
    coins: int = 0
    steered: Tally = msgspec.field(default_factory=Tally)


class Sea(msgspec.Struct):
    """What the room keeps, however often the server crashes."""

    coin: tuple[float, float]
    views: int = 0
    launched: int = 0


class Arena(Room[Pilot]):
    """One sea, one coin, many ships."""

    durability = "commit"
    max_players = 256
    grace_s = 30.0
    tick_hz = 20
    orphans = "destroy"

    state: Sea

    def on_create(self, config: dict[str, Any]) -> None:
        """Begin."""
        self.state = Sea(coin=self.somewhere())

    def on_join(self, player: Player[Pilot]) -> None:
        """Give everybody a ship of their own."""
        self.state.launched += 1
        ship = f"ship-{self.state.launched}"
        self.own(player, ship)
        player.data.x, player.data.y = self.somewhere()
        player.send(Welcome(ship, self.state.views))

    @on(Steer)
    def steer(self, player: Player[Pilot], steer: Steer) -> None:
        """Move a ship, if it is the player's own."""
        if self.owner_of(steer.ship) is not player:
            raise Refused(f"{steer.ship} is not yours")
        pilot, coin = player.data, self.state.coin
        pilot.steered.count(steer.number)
        pilot.x = min(max(pilot.x + steer.dx, 0.0), SIZE)
        pilot.y = min(max(pilot.y + steer.dy, 0.0), SIZE)
        if abs(pilot.x - coin[0]) < REACH and abs(pilot.y - coin[1]) < REACH:
            pilot.coins += 1
            self.state.coin = self.somewhere()

    def on_tick(self, dt_s: float) -> None:
        """Show everybody how they stand. Who is away gets it when they are back."""
        self.state.views += 1
        for player in self.players:
            pilot = player.data
            view = View(self.state.views, (pilot.x, pilot.y), self.state.coin, pilot.coins, pilot.steered)
            player.send(view)

    def somewhere(self) -> tuple[float, float]:
        """A random place."""
        return self.random.uniform(0.0, SIZE), self.random.uniform(0.0, SIZE)
