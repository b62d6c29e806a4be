"""An existing `websockets` server plus holdfast.Sessions: players who drop and return keep their gold.

This file runs the server and two players: Ada digs, loses her connection and returns; Bob watches.
"""

import asyncio
import hmac
import itertools
import secrets
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, broadcast, serve
from websockets.exceptions import ConnectionClosed

from holdfast import Refused, Sessions


@dataclass
class Miner:
    gold: int = 0

    def reset(self) -> None:
        self.gold = 0


class GoldRush:
    def __init__(self) -> None:
        self.sessions = Sessions[Miner](purge_s=60.0, duplicate="takeover", players_max=100)
        self.sockets: dict[Hashable, ServerConnection] = {}
        self.numbers = itertools.count(1)
        self.key = secrets.token_bytes(32)

    def ticket_for(self, player_id: str) -> str:
        """A secret that only this server can issue. It proves that the client is this player."""
        return f"{player_id}.{hmac.new(self.key, player_id.encode(), 'sha256').hexdigest()}"

    def player_id_from(self, ticket: str) -> str:
        """The player this ticket was issued to; a new player if the ticket is missing or forged."""
        player_id = ticket.partition(".")[0]
        is_ours = hmac.compare_digest(ticket.encode(), self.ticket_for(player_id).encode())
        return player_id if is_ours else f"miner-{next(self.numbers)}"

    async def serve_socket(self, socket: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            player_id = self.player_id_from(await socket.recv(decode=True))
            try:
                connected = self.sessions.connect(socket.id, player_id, Miner())
            except Refused as refused:
                await socket.close(4000, str(refused))
                return
            if connected.replaced is not None:
                self.sockets[connected.replaced].transport.abort()  # half-open: do not wait for it
            self.sockets[socket.id] = socket
            try:
                await socket.send(self.ticket_for(player_id))
                self.announce(player_id, "returned" if connected.returned else "joined")
                async for _ in socket:
                    connected.data.gold += 1
                    self.announce(player_id, "dug")
            finally:
                del self.sockets[socket.id]
                if self.sessions.disconnect(socket.id):  # False after a takeover: the player is still here
                    self.announce(player_id, "dropped")
                self.sessions.advance(asyncio.get_running_loop().time())

    def announce(self, player_id: str, event: str) -> None:
        broadcast(self.sockets.values(), f"{player_id} {event}: {self.sessions.get(player_id)}")


async def join(url: str, ticket: str = "") -> tuple[ClientConnection, str]:
    client = await connect(url)
    await client.send(ticket)
    return client, await client.recv(decode=True)


async def main() -> None:
    game = GoldRush()
    async with serve(game.serve_socket, "127.0.0.1", 0) as server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        bob, _ = await join(url)
        ada, ticket = await join(url)
        game.sessions.start()  # from now on, players who drop are kept
        await ada.send("dig")
        while "dropped" not in (event := await bob.recv(decode=True)):
            print("Bob sees:", event)
            if "dug" in event:
                ada.transport.abort()  # the cable is cut: no close handshake
        ada, _ = await join(url, ticket)
        print("Bob sees:", event)
        print("Bob sees:", await bob.recv())
        game.sessions.end()
        print("The next round begins:", {player_id: game.sessions.get(player_id) for player_id in game.sessions})


if __name__ == "__main__":
    asyncio.run(main())
