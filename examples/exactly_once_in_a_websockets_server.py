"""Exactly-once messages in a plain `websockets` server: holdfast.PlayerStreams over sockets that are not Holdfast's.

This file runs the server and a player: Ada digs two hundred times, and her connection is cut twenty times.
"""

import asyncio
from contextlib import suppress

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

import holdfast
from holdfast import ClientSession, Message, PlayerStream, PlayerStreams, on

ROUNDS = 20
DIGS = 10


class Dig(Message):
    number: int


class Gold(Message):
    total: int


class Mine(PlayerStreams):
    grace_s = 60.0  # how long a dropped player is kept

    def on_join(self, player: PlayerStream) -> None:
        player.data = 0

    @on(Dig)
    def dug(self, player: PlayerStream, dig: Dig) -> None:
        assert dig.number == player.data + 1, "a message was lost, duplicated or out of order"
        player.data = dig.number
        player.send(Gold(player.data))


mine = Mine()


async def serve_socket(socket: ServerConnection) -> None:
    with suppress(ConnectionClosed):
        await mine.serve(socket, socket.send, socket.close, subprotocol=socket.subprotocol)


async def play(ada: ClientSession) -> None:
    room = await ada.join_or_create("mine")
    resumed = asyncio.Event()
    ada.on_resume(lambda outcome: resumed.set())
    for round_ in range(ROUNDS):
        digs = range(round_ * DIGS + 1, (round_ + 1) * DIGS + 1)
        for number in digs:
            await room.send(Dig(number))
        assert await room.receive(Gold) == Gold(digs[0])
        resumed.clear()
        ada.cut()  # the cable is cut: some messages are on their way, some were never sent
        for number in digs[1:]:
            assert await room.receive(Gold) == Gold(number)
        await resumed.wait()
    print(f"{ROUNDS * DIGS} messages there and back over {ada.drops} cuts: none lost, none twice, none out of order.")


async def main() -> None:
    subprotocols = [Subprotocol(name) for name in mine.subprotocols]
    async with serve(serve_socket, "127.0.0.1", 0, subprotocols=subprotocols) as server:
        host, port = server.sockets[0].getsockname()[:2]
        async with holdfast.connect(f"ws://{host}:{port}", messages=[Gold], retry_first_s=0.01) as ada:
            await play(ada)
    await mine.stop()


if __name__ == "__main__":
    asyncio.run(main())
