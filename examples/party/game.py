"""A party lobby: a host, teams, ready-up, a countdown and a chat. Bots fill the party if the host wants them.

holdfast serve examples/party/game.py --web examples/party/web --store sqlite:party.db
"""

import msgspec

from holdfast import Message, Player, PlayerData, Reason, Refused, Room, RoomAgent, on

COUNTDOWN_S = 3.0
CHAT_LINES = 50
CHAT_CHARS = 200
TEAMS = ("red", "blue")


class Ready(Message):
    """From a client: whether this player is ready."""

    is_ready: bool


class PickTeam(Message):
    """From a client: play for this team."""

    team: str


class Say(Message):
    """From a client: a chat line to everybody, or to one's own team."""

    text: str
    to_team: bool = False


class Begin(Message):
    """From the host: start the game once everybody is ready."""


class Finish(Message):
    """From the host: end the game. Everybody is back in the lobby, and has to get ready again."""


class AddBot(Message):
    """From the host: let a bot join the party."""


class Remove(Message):
    """From the host: remove somebody."""

    player: str


class Member(msgspec.Struct):
    """One line of the list that clients show."""

    id: str
    name: str
    team: str
    is_host: bool
    is_ready: bool
    is_here: bool


class Party(Message):
    """To clients, after every change: the whole party."""

    members: list[Member]
    phase: str
    starts_in_s: float | None


class Said(Message):
    """To clients: a chat line; `team` is empty if everybody hears it."""

    name: str
    text: str
    team: str = ""


class History(Message):
    """To one client, after a join or a resync: the last lines of the chat."""

    lines: list[Said]


class PartyMember(PlayerData):
    """What a player keeps across a drop."""

    team: str = ""
    is_ready: bool = False

    def reset(self) -> None:
        self.is_ready = False


class Chat(msgspec.Struct):
    """The state of the room: it survives a crash of the server."""

    lines: list[Said] = []


class PartyRoom(Room[PartyMember], kind="party"):
    """One room is one party."""

    max_players = 8
    election = "oldest"  # the host is the player who has been here longest
    durability = "commit"
    keep_after_end = True  # a player who is away when the game ends is still in the party
    state: Chat

    def on_create(self, config: dict[str, object]) -> None:
        self.state = Chat()

    # People come and go

    def on_join(self, player: Player[PartyMember]) -> None:
        sizes = {team: len(self.group(team)) for team in TEAMS}
        self.join_team(player, min(TEAMS, key=lambda team: sizes[team]))
        player.send(History(self.lines_for(player)))
        self.changed()

    def on_drop(self, player: Player[PartyMember]) -> None:
        self.changed()

    def on_rejoin(self, player: Player[PartyMember]) -> None:
        self.changed()

    def on_leave(self, player: Player[PartyMember], reason: Reason) -> None:
        self.changed()

    def on_host_changed(self, old: Player[PartyMember] | None, new: Player[PartyMember] | None) -> None:
        self.changed()

    def on_resync(self, player: Player[PartyMember]) -> None:
        player.send(History(self.lines_for(player)))
        player.send(self.party())

    def on_recover(self) -> None:
        for player in self.players:
            if player.is_agent:
                self.open_agent(player.name, play)  # the same seat, in the same team

    # The lobby

    @on
    def ready(self, player: Player[PartyMember], message: Ready) -> None:
        player.data.is_ready = message.is_ready
        self.changed()

    @on
    def pick_team(self, player: Player[PartyMember], message: PickTeam) -> None:
        if message.team not in TEAMS:
            raise Refused(f"choose one of these teams: {', '.join(TEAMS)}")
        self.join_team(player, message.team)
        self.changed()

    @on
    def begin(self, player: Player[PartyMember], message: Begin) -> None:
        self.check_host(player)
        if not self.is_everybody_ready:
            raise Refused("somebody is not ready yet")
        if self.remaining("start") is None:
            self.after(COUNTDOWN_S, self.begin_game, name="start")
        self.show()

    @on
    def finish(self, player: Player[PartyMember], message: Finish) -> None:
        self.check_host(player)
        self.end()  # resets everybody's data
        self.show()

    @on
    def add_bot(self, player: Player[PartyMember], message: AddBot) -> None:
        self.check_host(player)
        taken = {player.name for player in self.players}
        self.open_agent(next(name for number in range(1, 10) if (name := f"Bot {number}") not in taken), play)

    @on
    def remove(self, player: Player[PartyMember], message: Remove) -> None:
        self.check_host(player)
        other = self.player(message.player)
        if other is not None and other is not player:
            other.kick("the host removed you from the party")

    @on
    def say(self, player: Player[PartyMember], message: Say) -> None:
        text = message.text.strip()[:CHAT_CHARS]
        if not text:
            raise Refused("say something")
        line = Said(player.name, text, player.data.team if message.to_team else "")
        self.state.lines = [*self.state.lines, line][-CHAT_LINES:]
        if line.team:
            self.group(line.team).send(line)
        else:
            self.broadcast(line)

    # Rules

    @property
    def is_everybody_ready(self) -> bool:
        return all(player.data.is_ready and player.connected for player in self.players)

    def check_host(self, player: Player[PartyMember]) -> None:
        if player is not self.host:
            raise Refused("only the host can do that")

    def join_team(self, player: Player[PartyMember], team: str) -> None:
        for other in TEAMS:
            self.group(other).remove(player)
        player.data.team = team
        self.group(team).add(player)

    def lines_for(self, player: Player[PartyMember]) -> list[Said]:
        return [line for line in self.state.lines if line.team in ("", player.data.team)]

    def begin_game(self) -> None:
        self.start()
        self.show()

    def changed(self) -> None:
        """Somebody came, went or changed their mind: a countdown for others than these is over."""
        if not self.is_everybody_ready:
            self.cancel("start")
        self.show()

    def show(self) -> None:
        self.broadcast(self.party())

    def party(self) -> Party:
        members = [
            Member(
                player.id,
                player.name,
                player.data.team,
                is_host=player is self.host,
                is_ready=player.data.is_ready,
                is_here=player.connected,
            )
            for player in self.players
        ]
        return Party(members, self.phase, self.remaining("start"))


async def play(agent: RoomAgent[PartyMember]) -> None:
    """A bot: it is ready whenever it is asked."""
    while True:
        party = await agent.receive(Party)
        me = next((member for member in party.members if member.id == agent.id), None)
        if me is not None and not me.is_ready and party.phase == "lobby":
            agent.send(Ready(is_ready=True))
