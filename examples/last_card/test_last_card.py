"""The card game under drops and crashes, in virtual time and without sockets. Run it with: pytest examples/last_card"""

from collections.abc import Callable

from examples.last_card.game import Cheer, Cheered, Draw, Drawn, Hand, LastCard, Play, Rematch, Table, fits

from holdfast import ClientRoom, ClientSession, MessageRefused
from holdfast.testing import FaultyStore, MemoryServer, run

MESSAGES = [Table, Hand, Cheered, Drawn]


async def until(room: ClientRoom, holds: Callable[[Table], bool]) -> Table:
    while not holds(table := await room.receive(Table)):
        pass
    return table


async def sit_down(server: MemoryServer, name: str) -> tuple[ClientSession, ClientRoom]:
    session = await server.connect(name.lower(), messages=MESSAGES, name=name)
    return session, await session.join_or_create("last_card")


async def play_to_the_end(session: ClientSession, room: ClientRoom) -> Table:
    """Play as the bots do, until somebody has won."""
    cards: list[str] = []
    async for message in room:
        match message:
            case Hand():
                cards = message.cards
            case Table(phase="lobby") if message.winner:
                return message
            case Table() if message.turn == session.player_id:
                card = next((card for card in cards if fits(card, message.top)), "")
                await room.send(Play(card) if card else Draw())
    raise AssertionError("the table closed")


def test_bots_take_the_empty_seats_and_a_game_is_played_to_its_end_and_again() -> None:
    async def play() -> None:
        async with MemoryServer([LastCard], store=FaultyStore()) as server:
            ada, room = await sit_down(server, "Ada")
            dealt = await until(room, lambda table: table.phase == "playing")
            assert [player.is_bot for player in dealt.players] == [False, True, True, True]

            over = await play_to_the_end(ada, room)
            assert over.winner
            await room.send(Rematch())

            again = await until(room, lambda table: table.phase == "playing")
            assert [player.cards for player in again.players] == [5, 5, 5, 5]

    run(play())


def test_nobody_receives_another_players_cards() -> None:
    async def play() -> None:
        async with MemoryServer([LastCard], store=FaultyStore()) as server:
            ada, room = await sit_down(server, "Ada")
            bob, other = await sit_down(server, "Bob")
            hand, others = await room.receive(Hand), await other.receive(Hand)

            assert len(hand.cards) == len(others.cards) == 5
            assert not set(hand.cards) & set(others.cards)
            assert ada.player_id != bob.player_id

    run(play())


def test_a_game_goes_on_after_a_crash_with_the_same_cards() -> None:
    async def play() -> None:
        async with MemoryServer([LastCard], store=FaultyStore()) as server:
            ada, room = await sit_down(server, "Ada")
            hand = await room.receive(Hand)

            server.crash()
            await server.start()

            assert (await room.receive(Hand)).cards == hand.cards
            over = await play_to_the_end(ada, room)
            assert over.winner

    run(play())


def test_a_player_who_is_away_draws_when_the_time_is_up() -> None:
    async def play() -> None:
        async with MemoryServer([LastCard], store=FaultyStore()) as server:
            ada, room = await sit_down(server, "Ada")
            await until(room, lambda table: table.turn == ada.player_id)

            drew = await until(room, lambda table: table.turn != ada.player_id)

            mine = next(player for player in drew.players if player.id == ada.player_id)
            assert mine.cards == 6

    run(play())


def test_drawing_is_answered_and_out_of_turn_refused() -> None:
    async def play() -> None:
        async with MemoryServer([LastCard], store=FaultyStore()) as server:
            ada, room = await sit_down(server, "Ada")
            await until(room, lambda table: table.turn == ada.player_id)

            drawn = await room.ask(Draw())

            assert isinstance(drawn, Drawn)
            assert drawn.card in (await until_hand(room, 6)).cards
            await room.send(Draw())
            assert (await room.receive(MessageRefused)).message == "it is not your turn"

    run(play())


async def until_hand(room: ClientRoom, cards: int) -> Hand:
    while len((hand := await room.receive(Hand)).cards) != cards:
        pass
    return hand


def test_a_spectator_sees_the_table_and_no_hand_and_may_cheer() -> None:
    async def play() -> None:
        async with MemoryServer([LastCard], store=FaultyStore()) as server:
            _, room = await sit_down(server, "Ada")
            await until(room, lambda table: table.phase == "playing")
            cleo = await server.connect("cleo", messages=MESSAGES, name="Cleo")
            watched = await cleo.spectate(room.id)

            table = await watched.receive(Table)
            await watched.send(Cheer("Go!"))
            await watched.send(Draw())

            assert table.spectators == 1
            assert len(table.players) == 4
            assert await room.receive(Cheered) == Cheered("Cleo", "Go!")
            refused = await watched.receive(MessageRefused)
            assert refused.type == "draw"

    run(play())
