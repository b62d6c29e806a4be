"""What is played: rooms that end soon and rooms that never do, in memory and saved with every commit."""

from holdfast import Message, Player, PlayerData, Room, on


class Say(Message):
    """Sent back to whoever said it."""

    text: str


class Tell(Message):
    """Sent to everybody in the room."""

    text: str


class Finish(Message):
    """Ends the room."""


class Visitor(PlayerData):
    """What a visitor keeps."""

    said: int = 0
    last: str = ""


class Hall(Room[Visitor]):
    """Everybody who comes gets an object and a timer, as in many games."""

    max_players = 8
    grace_s = 1.0
    empty_ttl_s = 0.5
    election = "oldest"

    def on_join(self, player: Player[Visitor]) -> None:
        """A newcomer owns something."""
        self.own(player, f"hat of {player.id}")
        self.after(0.2, self.greet, player)

    def greet(self, player: Player[Visitor]) -> None:
        """A moment later, if they are still here."""
        player.data.last = "greeted"

    @on(Say)
    def say(self, player: Player[Visitor], say: Say) -> None:
        """Echo."""
        player.data.said += 1
        player.data.last = say.text
        player.send(say)

    @on(Tell)
    def tell(self, player: Player[Visitor], tell: Tell) -> None:
        """Broadcast."""
        self.broadcast(tell)

    @on(Finish)
    def finish(self, player: Player[Visitor], finish: Finish) -> None:
        """End the room."""
        self.close()


class Vault(Hall):
    """The same, saved."""

    durability = "commit"


class Square(Hall):
    """Never ends, however many come and go. The measured load is here, too."""

    max_players = 1_000
    empty_ttl_s = 1e9

    @on(Tell)
    def tell(self, player: Player[Visitor], tell: Tell) -> None:
        """Not to everybody: those of the measured load do not read meanwhile."""
        player.send(tell)


class Plaza(Square):
    """The same, saved."""

    durability = "commit"


SHORT = ("hall", "vault")
LONG = ("square", "plaza")
ROOMS = [Hall, Vault, Square, Plaza]
MESSAGES = [Say, Tell]
