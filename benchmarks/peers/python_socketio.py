"""The benchmarks' game on python-socketio, served by uvicorn."""

import asyncio
import gc
import json
import socket
import sys

import socketio
import uvicorn

GAME = json.loads(sys.argv[1])
TEXT = "x" * 32

server = socketio.AsyncServer(async_mode="asgi")
joined = 0
ticking: list[asyncio.Task[None]] = []


async def tick(room: str) -> None:
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        due += 1 / GAME["hz"]
        await asyncio.sleep(max(0.0, due - loop.time()))
        for _ in range(GAME["broadcasts"]):
            await server.emit("moved", {"text": TEXT}, to=room)


@server.event  # type: ignore[untyped-decorator]  # its package is there only while it is measured
async def say(sid: str, message: object) -> None:
    await server.emit("say", message, to=sid)


@server.event  # type: ignore[untyped-decorator]  # the same
async def join(sid: str) -> str:
    global joined  # noqa: PLW0603 - the program is one game
    room = f"arena-{joined // GAME['seats']}"
    joined += 1
    await server.enter_room(sid, room)
    if joined % GAME["seats"] == 1 and GAME["hz"]:
        ticking.append(asyncio.create_task(tick(room)))
    return room


async def main() -> None:
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    config = uvicorn.Config(socketio.ASGIApp(server), log_level="warning", ws_per_message_deflate=False)
    running = uvicorn.Server(config)

    def said() -> None:
        if sys.stdin.readline():
            gc.collect()
            print("{}", flush=True)
        else:
            running.should_exit = True
            running.force_exit = True

    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), said)
    print(listening.getsockname()[1], flush=True)
    await running.serve(sockets=[listening])


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvicorn.Config("").get_loop_factory()) as runner:
        runner.run(main())
