"""Last card: a card game for four. Nobody sees another's hand, bots take the empty seats, every turn has a clock.

    holdfast serve examples/last_card/game.py --web examples/last_card/web --store sqlite:last_card.db

Play a card of the suit or the rank of the top one, or draw. The first player without cards wins.
"""

import asyncio
from time import time

import msgspec

from holdfast import (
    Hidden,
    Message,
    Player,
    PlayerData,
    Private,
    Reason,
    Refused,
    Room,
    RoomAgent,
    RoomFull,
    Spectator,
    on,
)

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


class Cheered(Message):
    """To everybody."""

    name: str
    text: str


class Holder(PlayerData):
    """A player, kept across a drop. Everybody sees it, but the hand."""

    name: str = ""
    cards: int = 0
    is_bot: bool = False
    is_here: bool = True
    wants_rematch: bool = True
    hand: Private[list[str]] = msgspec.field(default_factory=list)

    def hold(self, hand: list[str]) -> None:
        self.hand, self.cards = hand, len(hand)

    def reset(self) -> None:
        self.hold([])
        self.wants_rematch = self.is_bot


class Deal(msgspec.Struct):
    """The table, as everybody sees it; nobody sees the deck."""

    deck: Hidden[list[str]] = msgspec.field(default_factory=list)
    pile: list[str] = []
    turn: str = ""
    turn_ends_at: float = 0.0  # in seconds since 1970
    winner: str = ""
    spectators: int = 0


def fits(card: str, top: str) -> bool:
    return card[0] == top[0] or card[1] == top[1]


class LastCard(Room[Holder]):
    """One room is one table."""

    max_players = 4
    max_spectators = 1000
    durability = "commit"
    transactional = True  # a move that is refused halfway never happened
    shares = ("state", "players")
    keep_after_end = True  # a player who is away when a game ends may still want a rematch
    state: Deal

    def on_create(self, config: dict[str, object]) -> None:
        self.state = Deal()

    # People come and go

    def on_join(self, player: Player[Holder]) -> None:
        player.data.name, player.data.is_bot = player.name, player.is_agent
        self.deal_when_ready()
        if self.phase == "lobby" and self.remaining("fill") is None:
            self.after(FILL_S, self.fill, name="fill")

    def on_rename(self, player: Player[Holder], old_name: str) -> None:
        player.data.name = player.name

    def fill(self) -> None:
        """Nobody else came in time: bots take the empty seats."""
        taken = {player.id for player in self.players}
        names = [name for number in range(1, 9) if f"agent:{(name := f'Bot {number}')}" not in taken]
        try:
            for name in names[: self.max_players - len(self.players)]:
                self.open_agent(name, self.play)
        except RoomFull:
            # A seat is reserved for somebody who may still come.
            self.after(FILL_S, self.fill, name="fill")

    def on_recover(self) -> None:
        for player in self.players:
            player.data.is_here = player.connected  # after a crash nobody yet; after a move all who were
            if player.is_agent:
                # By its id: another player may be called like it. The seat is the same, with the same cards.
                self.open_agent(player.id, self.play)

    def on_drop(self, player: Player[Holder]) -> None:
        player.data.is_here = False

    def on_rejoin(self, player: Player[Holder]) -> None:
        player.data.is_here = True

    def on_leave(self, player: Player[Holder], reason: Reason) -> None:
        if self.phase == "playing":
            self.state.deck += player.data.hand
            self.random.shuffle(self.state.deck)  # nobody knows what they draw
            if len(self.players) < 2:
                self.game_over(winner="")
            elif self.state.turn == player.id:
                self.next_turn()
        else:
            self.after(FILL_S, self.fill, name="fill")

    def on_spectate(self, spectator: Spectator) -> None:
        self.state.spectators = len(self.spectators)

    def on_unspectate(self, spectator: Spectator, reason: Reason) -> None:
        self.state.spectators = len(self.spectators)

    # The game

    def deal_when_ready(self) -> None:
        is_full = len(self.players) == self.max_players
        if self.phase == "lobby" and is_full and all(player.data.wants_rematch for player in self.players):
            self.deal()

    def deal(self) -> None:
        self.cancel("fill")
        self.start()
        self.lock()  # those who come now may watch
        deck = DECK.copy()
        self.random.shuffle(deck)
        for player in self.players:
            player.data.hold([deck.pop() for _ in range(HAND_CARDS)])
        self.state.pile, self.state.deck, self.state.winner = [deck.pop()], deck, ""
        self.begin_turn(self.random.choice(self.players))

    @on
    def play_card(self, player: Player[Holder], message: Play) -> None:
        self.check_turn(player)
        hand, pile = player.data.hand, self.state.pile
        if message.card not in hand:
            raise Refused(f"you do not have {message.card}")
        if not fits(message.card, pile[-1]):
            raise Refused(f"{message.card} has neither the suit nor the rank of {pile[-1]}")
        player.data.hold([card for card in hand if card != message.card])
        pile.append(message.card)
        if player.data.hand:
            self.next_turn()
        else:
            self.game_over(winner=player.name)

    @on
    def draw(self, player: Player[Holder], message: Draw) -> Drawn:
        self.check_turn(player)
        card = self.draw_for(player)
        self.next_turn()
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
        player.data.hold([*player.data.hand, card])
        return card

    def turn_over(self) -> None:
        """The time is up: draw for a player who is slow, or away."""
        if (player := self.player(self.state.turn)) is not None:
            self.draw_for(player)
        self.next_turn()

    def next_turn(self) -> None:
        ids = [str(player.id) for player in self.players]
        after = ids.index(self.state.turn) + 1 if self.state.turn in ids else 0
        self.begin_turn(self.players[after % len(ids)])

    def begin_turn(self, player: Player[Holder]) -> None:
        self.state.turn, self.state.turn_ends_at = player.id, time() + TURN_S
        self.after(TURN_S, self.turn_over, name="turn")  # replaces the timer of the turn before

    def check_turn(self, player: Player[Holder]) -> None:
        if self.phase != "playing":
            raise Refused("no game is being played")
        if self.state.turn != player.id:
            raise Refused("it is not your turn")

    def game_over(self, winner: str) -> None:
        self.cancel("turn")
        self.state = Deal(winner=winner, spectators=len(self.spectators))
        self.end()
        self.unlock()
        self.after(FILL_S, self.fill, name="fill")  # if somebody has left

    @on
    def rematch(self, player: Player[Holder], message: Rematch) -> None:
        if self.phase == "playing":
            raise Refused("this game is not over yet")
        player.data.wants_rematch = True
        self.deal_when_ready()

    @on(spectators=True)
    def cheer(self, member: Player[Holder] | Spectator, message: Cheer) -> None:
        self.broadcast(Cheered(member.name, message.text.strip()[:CHEER_CHARS]))

    async def play(self, agent: RoomAgent[Holder]) -> None:
        """A bot: plays the first card that fits, or draws."""
        while True:
            await agent.until(lambda: self.state.turn == agent.id)
            await asyncio.sleep(BOT_THINKS_S)
            if self.state.turn == agent.id:
                card = next((card for card in agent.data.hand if fits(card, self.state.pile[-1])), "")
                agent.send(Play(card) if card else Draw())
