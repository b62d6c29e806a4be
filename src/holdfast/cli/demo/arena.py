"""The demo's game: ships that race for coins. A Holdfast game is a file like this one, run by `holdfast serve`."""

from typing import Any

import msgspec

from holdfast import Message, Player, PlayerData, Refused, Room, on

SIZE = 100.0
REACH = 3.0
COINS = 8
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


class Steer(Message):
    """From a player: move a ship. Numbered, so that the room notices a missing or duplicate command."""

    number: int
    ship: str
    dx: float
    dy: float


class Collected(Message):
    """To every player: somebody has found a coin. Numbered like the commands."""

    number: int
    ship: str


class Pilot(PlayerData):
    """A player and their ship, as everybody sees them; kept when the connection breaks."""

    ship: str = ""
    name: str = ""
    place: Place = (0.0, 0.0)
    coins: int = 0
    is_here: bool = True
    steered: Tally = msgspec.field(default_factory=Tally)


class Sea(msgspec.Struct):
    """The room's state, as everybody sees it; kept when the server crashes."""

    coins: list[Place]
    found: int = 0
    launched: int = 0


class Arena(Room[Pilot]):
    """One sea, a few coins, many ships."""

    durability = "commit"
    max_players = 256
    grace_s = 30.0
    orphans = "destroy"
    shares = ("state", "players")
    sync_hz = 20

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

    def on_drop(self, player: Player[Pilot]) -> None:
        """Show that the player is away."""
        player.data.is_here = False

    def on_rejoin(self, player: Player[Pilot]) -> None:
        """Show that the player is back."""
        player.data.is_here = True

    def on_recover(self) -> None:
        """Show who is connected: nobody after a crash, everybody after a move to another node."""
        for player in self.players:
            player.data.is_here = player.connected

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
                self.state.found += 1
                self.broadcast(Collected(self.state.found, pilot.ship))

    def somewhere(self) -> Place:
        """A random place."""
        return self.random.uniform(0.0, SIZE), self.random.uniform(0.0, SIZE)


def moved(where: float, by: float) -> float:
    """A coordinate after a step, within the sea."""
    return min(max(where + min(max(by, -STEP_MAX), STEP_MAX), 0.0), SIZE)
