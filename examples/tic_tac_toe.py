"""Tic-tac-toe: turns, rules and refused moves. A player who drops returns to the same side of the same board."""

import asyncio

import holdfast
from holdfast import Message, Player, PlayerData, Refused, Room, Server, WebSocket, on

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


class Place(Message):
    """From a client: mark this field, 0 to 8."""

    field: int


class Board(Message):
    """To clients: the fields, whose turn it is, and who has won."""

    fields: str
    turn: str
    winner: str = ""


class Side(PlayerData):
    """The data that a player keeps across a drop: their mark."""

    mark: str = ""


class TicTacToe(Room[Side]):
    """Two players, nine fields."""

    max_players = 2
    grace_s = 60.0

    def on_create(self, config: dict[str, object]) -> None:
        self.state = Board(" " * 9, "x")

    def on_join(self, player: Player[Side]) -> None:
        player.data.mark = "x" if len(self.players) == 1 else "o"
        if len(self.players) == 2:
            self.start()

    def on_start(self) -> None:
        self.broadcast(self.state)

    def on_rejoin(self, player: Player[Side]) -> None:
        player.send(self.state)

    @on(Place)
    def place(self, player: Player[Side], place: Place) -> None:
        board = self.state
        if self.phase != "playing" or player.data.mark != board.turn:
            raise Refused("it is not your turn")
        if not 0 <= place.field <= 8 or board.fields[place.field] != " ":
            raise Refused("that field is taken")
        fields = board.fields[: place.field] + player.data.mark + board.fields[place.field + 1 :]
        won = any(all(fields[i] == player.data.mark for i in line) for line in LINES)
        self.state = Board(fields, "o" if board.turn == "x" else "x", player.data.mark if won else "")
        self.broadcast(self.state)
        if won:
            self.end()


async def main() -> None:
    """Play one game; x drops in the middle and still wins."""
    async with Server([TicTacToe], listen=[WebSocket(port=0)]) as server:
        url, messages = server.url, [Board]
        async with holdfast.connect(url, messages=messages) as x, holdfast.connect(url, messages=messages) as o:
            table = await x.create("tic_tac_toe")
            rooms = {"x": await x.join(table.id), "o": await o.join(table.id)}
            moves = [4, 0, 2, 1, 6]

            board = Board("", "")
            async for message in rooms["o"]:
                if not isinstance(message, Board):
                    continue
                board = message
                print("|".join(board.fields), f"{board.winner} wins" if board.winner else f"{board.turn} to move")
                if board.winner:
                    break
                if len(moves) == 3:
                    x.cut()
                await rooms[board.turn].send(Place(moves.pop(0)))
            assert board.winner == "x"


if __name__ == "__main__":
    asyncio.run(main())
