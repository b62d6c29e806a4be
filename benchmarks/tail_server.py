"""The server of `benchmarks/tail.py`: rooms that tick, rooms on disk, the API.

    python -m benchmarks.tail_server FOLDER

It prints the port of its players and that of its API. Each line on its standard input is answered by what its event
loop was busy with since the last time, for each time that it was busy for 5 ms.
"""

import asyncio
import os
import signal
import sys

import msgspec

import holdfast
from benchmarks.game import TEXT, Game
from benchmarks.serving import Moved, Say, counting_room_of
from benchmarks.stalls import Stalls
from holdfast import Player, PlayerData, Room, on
from holdfast.testing import UNLIMITED


class Arena(Room[PlayerData]):
    """Ticks and answers."""

    max_players = 50
    grace_s = 10.0
    keep_before_start = True
    tick_hz = 20

    @on(Say)
    def say(self, player: Player[PlayerData], message: Say) -> None:
        """Send it back."""
        player.send(message)

    def on_tick(self, dt_s: float) -> None:
        """One message to everybody."""
        self.broadcast(Moved(TEXT))


def serve(folder: str) -> None:
    """Until the standard input ends."""
    table = counting_room_of(Game(seats=4, durability="commit", folder=folder), "table")
    server = holdfast.Server(
        [Arena, table],
        listen=[holdfast.WebSocket(port=0)],
        store=f"sqlite:{folder}/rooms.db",
        limits=UNLIMITED,
        http=holdfast.HttpApi(port=0),
    )
    holdfast.run(server, ready=obey)


def obey(server: holdfast.Server) -> None:
    """Tell the ports, and answer."""
    stalls = Stalls()

    def said() -> None:
        if os.read(0, 4096):
            print(msgspec.json.encode(stalls.taken()).decode(), flush=True)
        else:
            asyncio.get_running_loop().remove_reader(0)
            signal.raise_signal(signal.SIGINT)

    asyncio.get_running_loop().add_reader(0, said)
    print(server.addresses["websocket"][1], server.addresses["http"][1], flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
