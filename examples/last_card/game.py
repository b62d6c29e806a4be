"""Last card: a card game for four. Nobody sees another's hand, bots take the empty seats, every turn has a clock.

    holdfast serve examples/last_card/game.py --web examples/last_card/web --store sqlite:last_card.db

Play a card of the suit or the rank of the top one, or draw. The first player without cards wins.
"""

import asyncio

import msgspec

from holdfast import Message, Player, PlayerData, Reason, Refused, Room, RoomAgent, Spectator, on

RANKS = "23456789TJQKA"
SUITS = "CDHS"
DECK = [rank + suit for suit in SUITS for rank in RANKS]
HAND_CARDS = 5
TURN_S = 20.0
FILL_S = 5.0
BOT_THINKS_S = 1.0
CHEER_CHARS = 40


class Play(Message):
    """From a client: play this card."""

    card: str


class Draw(Message):
    """From a client, to be asked: draw a card instead. The answer is `Drawn`."""


class Rematch(Message):
    """From a client: play again. The next game begins when everybody wants it."""


class Cheer(Message):
    """From a client, also from one that only watches."""

    text: str


class Drawn(Message):
    """The card that was drawn, for the player who drew it."""

    card: str


class Hand(Message):
    """To one player: their own cards."""

    cards: list[str]


class Cheered(Message):
    """To everybody."""

    name: str
    text: str


class Opponent(msgspec.Struct):
    """What everybody may know of a player."""

    id: str
    name: str
    cards: int
    is_here: bool
    is_bot: bool
    wants_rematch: bool


class Table(Message):
    """To everybody, after every change: what lies open."""

    players: list[Opponent]
    phase: str
    top: str = ""
    turn: str = ""
    turn_s: float | None = None
    winner: str = ""
    spectators: int = 0


class Holder(PlayerData):
    """What a player keeps across a drop."""

    cards: list[str] = []  # noqa: RUF012 - a Struct copies it for each player
    wants_rematch: bool = False

    def reset(self) -> None:
        self.cards = []
        self.wants_rematch = False


class Deal(msgspec.Struct):
    """The state of the room: it survives a crash of the server."""

    deck: list[str] = []
    pile: list[str] = []
    turn: str = ""
    winner: str = ""


def fits(card: str, top: str) -> bool:
    return card[0] == top[0] or card[1] == top[1]


class LastCard(Room[Holder]):
    """One room is one table."""

    max_players = 4
    max_spectators = 1000
    durability = "commit"
    keep_after_end = True  # a player who is away when a game ends may still want a rematch
    state: Deal

    def on_create(self, config: dict[str, object]) -> None:
        self.state = Deal()

    # People come and go

    def on_join(self, player: Player[Holder]) -> None:
        player.data.wants_rematch = True
        if self.phase == "lobby":
            if len(self.players) == self.max_players:
                self.deal()
            elif self.remaining("fill") is None:
                self.after(FILL_S, self.fill, name="fill")
        self.show()

    def fill(self) -> None:
        """Nobody else came in time: bots take the empty seats."""
        taken = {player.name for player in self.players}
        names = (name for number in range(1, 9) if (name := f"Bot {number}") not in taken)
        for _ in range(self.max_players - len(self.players)):
            self.open_agent(next(names), play)

    def on_recover(self) -> None:
        for player in self.players:
            if player.is_agent:
                self.open_agent(player.name, play)  # the same seat, with the same cards

    def on_drop(self, player: Player[Holder]) -> None:
        self.show()

    def on_rejoin(self, player: Player[Holder]) -> None:
        self.show()
        self.show_hand(player)

    def on_resync(self, player: Player[Holder] | Spectator) -> None:
        player.send(self.table())

    def on_leave(self, player: Player[Holder], reason: Reason) -> None:
        if self.phase == "playing":
            self.state.deck += player.data.cards
            if len(self.players) < 2:
                self.game_over(winner=None)
            elif self.state.turn == player.id:
                self.next_turn()
        else:
            self.after(FILL_S, self.fill, name="fill")
        self.show()

    def on_spectate(self, spectator: Spectator) -> None:
        self.show()

    def on_unspectate(self, spectator: Spectator, reason: Reason) -> None:
        self.show()

    # The game

    def deal(self) -> None:
        self.cancel("fill")
        self.start()
        self.lock()  # those who come now may watch
        deck = DECK.copy()
        self.random.shuffle(deck)
        for player in self.players:
            player.data.cards, deck = deck[:HAND_CARDS], deck[HAND_CARDS:]
            self.show_hand(player)
        self.state = Deal(deck[1:], deck[:1], turn=self.random.choice(self.players).id)
        self.after(TURN_S, self.turn_over, name="turn")

    @on
    def play_card(self, player: Player[Holder], message: Play) -> None:
        self.check_turn(player)
        if message.card not in player.data.cards:
            raise Refused(f"you do not have {message.card}")
        if not fits(message.card, self.state.pile[-1]):
            raise Refused(f"{message.card} has neither the suit nor the rank of {self.state.pile[-1]}")
        player.data.cards = [card for card in player.data.cards if card != message.card]
        self.state.pile.append(message.card)
        self.show_hand(player)
        if player.data.cards:
            self.next_turn()
        else:
            self.game_over(winner=player)
        self.show()

    @on
    def draw(self, player: Player[Holder], message: Draw) -> Drawn:
        self.check_turn(player)
        card = self.draw_for(player)
        self.next_turn()
        self.show()
        return Drawn(card)

    def draw_for(self, player: Player[Holder]) -> str:
        state = self.state
        if not state.deck:
            *state.deck, top = state.pile
            self.random.shuffle(state.deck)
            state.pile = [top]
        if not state.deck:
            return ""  # every card is in somebody's hand
        card = state.deck.pop()
        player.data.cards = [*player.data.cards, card]
        self.show_hand(player)
        return card

    def turn_over(self) -> None:
        """The time is up: draw for a player who is slow, or away."""
        if (player := self.player(self.state.turn)) is not None:
            self.draw_for(player)
        self.next_turn()
        self.show()

    def next_turn(self) -> None:
        ids = [str(player.id) for player in self.players]
        after = ids.index(self.state.turn) + 1 if self.state.turn in ids else 0
        self.state.turn = ids[after % len(ids)]
        self.after(TURN_S, self.turn_over, name="turn")  # replaces the timer of the turn before

    def check_turn(self, player: Player[Holder]) -> None:
        if self.phase != "playing":
            raise Refused("no game is being played")
        if self.state.turn != player.id:
            raise Refused("it is not your turn")

    def game_over(self, winner: Player[Holder] | None) -> None:
        self.cancel("turn")
        self.state = Deal(winner=winner.name if winner is not None else "")
        self.end()
        self.unlock()

    @on
    def rematch(self, player: Player[Holder], message: Rematch) -> None:
        if self.phase == "playing":
            raise Refused("this game is not over yet")
        player.data.wants_rematch = True
        if len(self.players) == self.max_players and all(each.data.wants_rematch for each in self.players):
            self.deal()
        self.show()

    @on(spectators=True)
    def cheer(self, member: Player[Holder] | Spectator, message: Cheer) -> None:
        self.broadcast(Cheered(member.name, message.text.strip()[:CHEER_CHARS]))

    # What everybody sees

    def show(self) -> None:
        self.broadcast(self.table())

    def show_hand(self, player: Player[Holder]) -> None:
        player.send(Hand(player.data.cards))

    def table(self) -> Table:
        players = [
            Opponent(
                player.id,
                player.name,
                len(player.data.cards),
                is_here=player.connected,
                is_bot=player.is_agent,
                wants_rematch=player.data.wants_rematch,
            )
            for player in self.players
        ]
        state = self.state
        top = state.pile[-1] if state.pile else ""
        return Table(players, self.phase, top, state.turn, self.remaining("turn"), state.winner, len(self.spectators))


async def play(agent: RoomAgent[Holder]) -> None:
    """A bot: plays the first card that fits, and always wants a rematch."""
    cards: list[str] = []
    while True:
        match await agent.receive():
            case Hand() as hand:
                cards = hand.cards
            case Table(phase="playing", turn=agent.id, top=top):
                await asyncio.sleep(BOT_THINKS_S)
                card = next((card for card in cards if fits(card, top)), "")
                agent.send(Play(card) if card else Draw())
            case Table(phase="lobby", players=players):
                if any(player.id == agent.id and not player.wants_rematch for player in players):
                    agent.send(Rematch())
            case _:
                pass
