"""Exactly-once messages in a FastAPI app: holdfast.PlayerStreams on one of its WebSocket routes, beside the HTTP ones.

This file runs the app on uvicorn, and a player: Ada buys a ticket by HTTP, and her connection is cut twenty times.
"""

import asyncio
import secrets
from contextlib import suppress
from socket import create_server

import httpx
import uvicorn
from fastapi import FastAPI, WebSocket, WebSocketDisconnect

import holdfast
from holdfast import Auth, ClientSession, Message, NotAllowed, PlayerStream, PlayerStreams, on

ROUNDS, DIGS = 20, 10


class Dig(Message):
    number: int


class Gold(Message):
    total: int


class Mine(PlayerStreams):
    grace_s = 60.0

    def authenticate(self, auth: Auth) -> str:
        if auth.credential not in tickets:
            raise NotAllowed("buy a ticket first")
        return tickets.pop(auth.credential)

    def on_join(self, player: PlayerStream) -> None:
        player.data = 0

    @on(Dig)
    async def dug(self, player: PlayerStream, dig: Dig) -> None:
        assert dig.number == player.data + 1, "a message was lost, duplicated or out of order"
        await asyncio.sleep(0)  # it may wait, as for a database: a message is acknowledged when it is handled
        player.data = dig.number
        player.send(Gold(player.data))


app = FastAPI()
mine = Mine()
tickets: dict[str, str] = {}


@app.post("/tickets/{name}")
async def buy(name: str) -> str:
    ticket = secrets.token_urlsafe()
    tickets[ticket] = name
    return ticket


@app.websocket("/play")
async def play(socket: WebSocket) -> None:
    await socket.accept(subprotocol="holdfast.v1.msgpack")
    with suppress(WebSocketDisconnect):
        await mine.serve(socket.iter_bytes(), socket.send_bytes, socket.close, subprotocol="holdfast.v1.msgpack")


async def dig(ada: ClientSession) -> None:
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
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="websockets-sansio"))
    with create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        address = "{}:{}".format(*listener.getsockname())
        async with httpx.AsyncClient(trust_env=False) as http:
            ticket = (await http.post(f"http://{address}/tickets/ada")).json()
        auth = Auth("ticket", ticket)
        async with holdfast.connect(f"ws://{address}/play", auth=auth, messages=[Gold], retry_first_s=0.01) as ada:
            await dig(ada)
        server.should_exit = True
        await serving


if __name__ == "__main__":
    asyncio.run(main())
