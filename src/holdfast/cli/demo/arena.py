"""The demo's game: ships that race for coins. A Holdfast game is a file like this one, run by `holdfast serve`."""

from typing import Any

import msgspec

from holdfast import Message, Player, PlayerData, Refused, Room, on

SIZE = 100.0
REACH = 3.0
COINS = 4
# How far a ship moves at most per command.
STEP_MAX = 3.0
NAMES = ("Ada", "Bo", "Cleo", "Dag", "Eva", "Finn", "Gil", "Hana", "Ivo", "Jun", "Kai", "Lia", "Mio", "Nils", "Ona")

Place = tuple[float, float]


class Tally(msgspec.Struct):
    """Counts numbered messages as they arrive, and those that are missing or come twice."""

    last: int = 0
    lost: int = 0
    duplicated: int = 0

    def count(self, number: int) -> None:
        """A message arrived: a gap after the last number is a loss, a number that is not higher is a duplicate."""
        if number > self.last:
            self.lost += number - self.last - 1
            self.last = number
        else:
            self.duplicated += 1


class Launched(Message):
    """To a player who joins: the ship, its name, and the number of the latest view."""

    ship: str
    name: str
    view: int


class Steer(Message):
    """From a player: move a ship. Numbered, so that the room notices a missing or duplicate command."""

    number: int
    ship: str
    dx: float
    dy: float


class Ship(msgspec.Struct, frozen=True):
    """One ship as all players see it, with the count of its commands, so that its player can compare."""

    name: str
    place: Place
    coins: int
    is_here: bool
    steered: Tally


class View(Message):
    """To every player, at every tick. Numbered like the commands."""

    number: int
    ships: dict[str, Ship]
    coins: list[Place]


class Pilot(PlayerData):
    """A player's data, kept when the connection breaks."""

    ship: str = ""
    name: str = ""
    place: Place = (0.0, 0.0)
    coins: int = 0
    steered: Tally = msgspec.field(default_factory=Tally)


class Sea(msgspec.Struct):
    """The room's state, kept when the server crashes."""

    coins: list[Place]
    views: int = 0
    launched: int = 0


class Arena(Room[Pilot]):
    """One sea, a few coins, many ships."""

    durability = "commit"
    max_players = 256
    grace_s = 30.0
    tick_hz = 20
    orphans = "destroy"

    state: Sea

    def on_create(self, config: dict[str, Any]) -> None:
        """Place the first coins."""
        self.state = Sea(coins=[self.somewhere() for _ in range(COINS)])

    def on_join(self, player: Player[Pilot]) -> None:
        """Give the player a ship."""
        lap, place = divmod(self.state.launched, len(NAMES))
        self.state.launched += 1
        pilot = player.data
        pilot.ship = f"ship-{self.state.launched}"
        pilot.name = NAMES[place] + (f" {lap + 1}" if lap else "")
        pilot.place = self.somewhere()
        self.own(player, pilot.ship)
        player.send(Launched(pilot.ship, pilot.name, self.state.views))

    @on(Steer)
    def steer(self, player: Player[Pilot], steer: Steer) -> None:
        """Move the player's own ship, and collect the coins that it reaches."""
        if self.owner_of(steer.ship) is not player:
            raise Refused(f"{steer.ship} is not yours")
        pilot = player.data
        pilot.steered.count(steer.number)
        x, y = pilot.place
        pilot.place = x, y = moved(x, steer.dx), moved(y, steer.dy)
        for number, (coin_x, coin_y) in enumerate(self.state.coins):
            if abs(x - coin_x) < REACH and abs(y - coin_y) < REACH:
                pilot.coins += 1
                self.state.coins[number] = self.somewhere()

    def on_tick(self, dt_s: float) -> None:
        """Send all players the current state; disconnected players get it when they return."""
        self.state.views += 1
        ships = {player.data.ship: ship_of(player) for player in self.players}
        self.broadcast(View(self.state.views, ships, self.state.coins))

    def somewhere(self) -> Place:
        """A random place."""
        return self.random.uniform(0.0, SIZE), self.random.uniform(0.0, SIZE)


def ship_of(player: Player[Pilot]) -> Ship:
    """A player's ship as all players see it."""
    pilot = player.data
    return Ship(pilot.name, pilot.place, pilot.coins, player.connected, pilot.steered)


def moved(where: float, by: float) -> float:
    """A coordinate after a step, within the sea."""
    return min(max(where + min(max(by, -STEP_MAX), STEP_MAX), 0.0), SIZE)
