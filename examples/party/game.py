"""A party lobby: a host, teams, ready-up, a countdown and a chat. Bots fill the party if the host wants them.

holdfast serve examples/party/game.py --web examples/party/web --store sqlite:party.db
"""

import msgspec

from holdfast import Message, Player, PlayerData, Private, Refused, Room, RoomAgent, on

COUNTDOWN_S = 3
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


class Said(msgspec.Struct):
    """A chat line; `team` is empty if everybody hears it."""

    name: str
    text: str
    team: str = ""


class PartyMember(PlayerData):
    """A player, kept across a drop. Everybody sees it, but the chat: each sees their own."""

    name: str = ""
    team: str = ""
    is_ready: bool = False
    is_here: bool = True
    chat: Private[list[Said]] = msgspec.field(default_factory=list)


class Lobby(msgspec.Struct):
    """The state of the room, as everybody sees it. It survives a crash of the server."""

    host: str = ""
    is_playing: bool = False
    starts_in_s: int = 0  # 0: the host has not started it


class PartyRoom(Room[PartyMember], kind="party"):
    """One room is one party."""

    max_players = 8
    election = "oldest"  # the host is the player who has been here longest
    durability = "commit"
    transactional = True  # a turn that raises leaves nothing behind
    shares = ("state", "players")
    keep_after_end = True  # a player who is away when the game ends is still in the party
    state: Lobby

    def on_create(self, config: dict[str, object]) -> None:
        self.state = Lobby()

    # People come and go

    def on_join(self, player: Player[PartyMember]) -> None:
        sizes = {team: len(self.group(team)) for team in TEAMS}
        self.join_team(player, min(TEAMS, key=lambda team: sizes[team]))
        player.data.name, player.data.is_ready = player.name, player.is_agent
        player.data.chat = [line for line in self.players[0].data.chat if not line.team]
        self.check_countdown()

    def on_drop(self, player: Player[PartyMember]) -> None:
        player.data.is_here = False
        self.check_countdown()

    def on_rejoin(self, player: Player[PartyMember]) -> None:
        player.data.is_here = True

    def on_host_changed(self, old: Player[PartyMember] | None, new: Player[PartyMember] | None) -> None:
        self.state.host = new.id if new is not None else ""

    def on_recover(self) -> None:
        for player in self.players:
            player.data.is_here = player.connected  # after a crash nobody yet; after a move all who were
            if player.is_agent:
                # By its id: another player may be called like it. The seat is the same, in the same team.
                self.open_agent(player.id.removeprefix("agent:"), idle)

    # The lobby

    @on
    def ready(self, player: Player[PartyMember], message: Ready) -> None:
        player.data.is_ready = message.is_ready
        self.check_countdown()

    @on
    def pick_team(self, player: Player[PartyMember], message: PickTeam) -> None:
        if message.team not in TEAMS:
            raise Refused(f"choose one of these teams: {', '.join(TEAMS)}")
        self.join_team(player, message.team)

    @on
    def begin(self, player: Player[PartyMember], message: Begin) -> None:
        self.check_host(player)
        if self.phase == "playing":
            raise Refused("the game is on already")
        if not self.is_everybody_ready:
            raise Refused("somebody is not ready yet")
        if not self.state.starts_in_s:
            self.state.starts_in_s = COUNTDOWN_S
            self.every(1.0, self.count_down, name="start")

    @on
    def finish(self, player: Player[PartyMember], message: Finish) -> None:
        self.check_host(player)
        if self.phase == "lobby":
            raise Refused("no game is on")
        self.state.is_playing = False
        self.end()
        for member in self.players:
            member.data.is_ready = member.is_agent

    @on
    def add_bot(self, player: Player[PartyMember], message: AddBot) -> None:
        self.check_host(player)
        taken = {player.id for player in self.players}
        name = next(name for number in range(1, 10) if f"agent:{(name := f'Bot {number}')}" not in taken)
        self.open_agent(name, idle)

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
        for hearer in self.group(line.team) if line.team else self.players:
            hearer.data.chat = [*hearer.data.chat, line][-CHAT_LINES:]

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

    def count_down(self) -> None:
        self.state.starts_in_s -= 1
        if self.state.starts_in_s == 0:
            self.cancel("start")
            self.state.is_playing = True
            self.start()

    def check_countdown(self) -> None:
        """Somebody came, went or changed their mind: a countdown for others than these is over."""
        if not self.is_everybody_ready:
            self.cancel("start")
            self.state.starts_in_s = 0


async def idle(agent: RoomAgent[PartyMember]) -> None:
    """A bot: it is here, and always ready."""
    async for _ in agent:
        pass
