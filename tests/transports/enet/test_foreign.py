"""ENet's own C library at the other end: in pyenet, LÖVE and Godot. Each is skipped where it is not installed."""

import asyncio
import os
import shlex
import shutil
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing.transport_checks import LIMITS, TEXT
from holdfast.transports import enet
from holdfast.transports.port import NORMAL
from tests.deadlines import DEADLINE_S
from tests.transports.harness import EnetAdapter, Harness

BIG = b"fragments " * 3_000
STEP_MS = 20


class Echo(Harness):
    """A server that foreign clients talk to."""

    def __init__(self) -> None:
        super().__init__(EnetAdapter())

    async def serve(self) -> int:
        await self.listen(subprotocols=[TEXT])
        return self.port

    async def talk(self) -> None:
        """What every client is told: a payload, its own large one, datagrams, and a close."""
        accepted = await self.accept()
        assert await accepted.payload(2) == [b"hello", BIG]
        accepted.link.send(BIG)
        await accepted.until(lambda: bool(accepted.datagrams))
        assert accepted.datagrams[0].startswith(b"aim")
        # It may be lost even here, if the client is slow.
        for number in range(5):
            accepted.link.send_datagram(b"newest %d" % number)
            await asyncio.sleep(0.01)
        accepted.link.close(4200, "bye")
        assert await accepted.loss() == (4200, "bye")


@pytest.mark.skipif(find_spec("enet") is None, reason="pyenet exists for Python up to 3.12 only")
async def test_a_client_of_pyenet_is_served() -> None:
    pyenet: Any = import_module("enet")
    echo = Echo()
    port = await echo.serve()
    heard: list[tuple[int, bytes]] = []

    def play() -> int:
        host = pyenet.Host(None, 1, 3, 0, 0)
        peer = host.connect(pyenet.Address(b"127.0.0.1", port), 3)
        for _ in range(int(DEADLINE_S * 1000 / STEP_MS)):
            event = host.service(STEP_MS)
            if event.type == pyenet.EVENT_TYPE_CONNECT:
                peer.send(0, pyenet.Packet(TEXT.name.encode(), pyenet.PACKET_FLAG_RELIABLE))
            elif event.type == pyenet.EVENT_TYPE_RECEIVE:
                heard.append((event.channelID, event.packet.data))
                if len(heard) == 1:
                    peer.send(0, pyenet.Packet(b"hello", pyenet.PACKET_FLAG_RELIABLE))
                    peer.send(0, pyenet.Packet(BIG, pyenet.PACKET_FLAG_RELIABLE))
            elif event.type == pyenet.EVENT_TYPE_DISCONNECT:
                return int(event.data)
            if len(heard) >= 2:
                peer.send(1, pyenet.Packet(b"aim", 0))
        raise TimeoutError

    code, _ = await asyncio.gather(asyncio.to_thread(play), echo.talk())

    assert code == 4200
    assert [data for channel, data in heard if channel == 0] == [TEXT.name.encode(), BIG]
    newest = [data for channel, data in heard if channel == 1]
    assert newest
    assert newest == sorted(newest)
    assert [data for channel, data in heard if channel == 2] == [(4200).to_bytes(2, "big") + b"bye"]
    await echo.finish()


LOVE = f"""
local enet = require "enet"
local host = enet.host_create()
local peer = host:connect("127.0.0.1:" .. os.getenv("ENET_PORT"), 3)
local big = string.rep("fragments ", 3000)
local heard, newest, closed = 0, 0, ""
while true do
    local event = host:service({STEP_MS})
    if event and event.type == "connect" then
        peer:send("{TEXT.name}", 0, "reliable")
    elseif event and event.type == "receive" then
        if event.channel == 0 then
            heard = heard + 1
            if heard == 1 then
                peer:send("hello", 0, "reliable")
                peer:send(big, 0, "reliable")
            elseif event.data ~= big then
                error("the payload is another one")
            end
        elseif event.channel == 1 then
            newest = newest + 1
        else
            closed = event.data:sub(3)
        end
    elseif event and event.type == "disconnect" then
        print(event.data, heard, newest > 0, closed)
        break
    end
    if heard >= 2 then peer:send("aim", 1, "unreliable") end
end
love.event.quit()
"""


@pytest.mark.skipif(shutil.which("love") is None, reason="LÖVE is not installed")
async def test_a_game_of_love_is_served(tmp_path: Path) -> None:
    (tmp_path / "conf.lua").write_text(
        "function love.conf(t) t.window = nil t.modules.graphics = false t.modules.audio = false end"
    )
    (tmp_path / "main.lua").write_text(LOVE)
    echo = Echo()
    port = await echo.serve()

    game = await asyncio.create_subprocess_exec(
        *("love", str(tmp_path)),
        env={"ENET_PORT": str(port), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "SDL_VIDEODRIVER": "dummy"},
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(DEADLINE_S):
        await echo.talk()
        output, _ = await game.communicate()

    assert output.splitlines()[-1].split() == [b"4200", b"2", b"true", b"bye"]
    await echo.finish()


GODOT = shlex.split(os.environ.get("GODOT", "")) or [found for found in [shutil.which("godot")] if found]
GDSCRIPT = f"""
extends SceneTree

func _init():
    var host := ENetConnection.new()
    host.create_host(1, 3)
    var peer := host.connect_to_host("127.0.0.1", OS.get_environment("ENET_PORT").to_int(), 3)
    var big := "fragments ".repeat(3000).to_utf8_buffer()
    var heard := 0
    var newest := 0
    var closed := ""
    while true:
        var event: Array = host.service({STEP_MS})
        if event[0] == ENetConnection.EVENT_CONNECT:
            peer.send(0, "{TEXT.name}".to_utf8_buffer(), ENetPacketPeer.FLAG_RELIABLE)
        elif event[0] == ENetConnection.EVENT_RECEIVE:
            var data := peer.get_packet()
            if event[3] == 0:
                heard += 1
                if heard == 1:
                    peer.send(0, "hello".to_utf8_buffer(), ENetPacketPeer.FLAG_RELIABLE)
                    peer.send(0, big, ENetPacketPeer.FLAG_RELIABLE)
                elif data != big:
                    print("the payload is another one")
                    break
            elif event[3] == 1:
                newest += 1
            else:
                closed = data.slice(2).get_string_from_utf8()
        elif event[0] == ENetConnection.EVENT_DISCONNECT:
            print(event[2], " ", heard, " ", newest > 0, " ", closed)
            break
        if heard >= 2:
            peer.send(1, "aim".to_utf8_buffer(), 0)
    quit()
"""


@pytest.mark.skipif(not GODOT, reason="Godot 4 is not installed: make godot")
async def test_a_game_of_godot_is_served(tmp_path: Path) -> None:
    (tmp_path / "project.godot").write_text('config_version=5\n[application]\nconfig/name="enet"\n')
    (tmp_path / "run.gd").write_text(GDSCRIPT)
    echo = Echo()
    port = await echo.serve()

    game = await asyncio.create_subprocess_exec(
        *(*GODOT, "--headless", "--path", str(tmp_path), "-s", "res://run.gd"),
        env={"ENET_PORT": str(port), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(DEADLINE_S):
        await echo.talk()
        output, _ = await game.communicate()

    assert output.splitlines()[-1].split() == [b"4200", b"2", b"true", b"bye"]
    await echo.finish()


@pytest.mark.skipif(find_spec("enet") is None, reason="pyenet exists for Python up to 3.12 only")
async def test_our_client_is_served_by_the_c_library() -> None:
    pyenet: Any = import_module("enet")
    host = pyenet.Host(pyenet.Address(b"127.0.0.1", 0), 4, 3, 0, 0)
    heard: list[bytes] = []

    def serve() -> int:
        for _ in range(int(DEADLINE_S * 1000 / STEP_MS)):
            event = host.service(STEP_MS)
            if event.type == pyenet.EVENT_TYPE_RECEIVE:
                heard.append(event.packet.data)
                event.peer.send(event.channelID, event.packet)
            elif event.type == pyenet.EVENT_TYPE_DISCONNECT:
                host.service(0)  # it acknowledges
                return int(event.data)
        raise TimeoutError

    serving = asyncio.create_task(asyncio.to_thread(serve))
    harness = Harness(EnetAdapter())
    recorder = await dialed(harness, host.address.port)
    recorder.link.send(BIG)
    recorder.link.send_datagram(b"aim")
    assert await recorder.payload() == [BIG]
    await recorder.until(lambda: recorder.datagrams == [b"aim"])
    recorder.link.close(NORMAL, "")

    assert await recorder.loss() == (NORMAL, "")
    assert await serving == NORMAL
    assert heard[0] == TEXT.name.encode()


async def dialed(harness: Harness, port: int) -> Any:
    recorder = harness.make()
    await enet.dial(recorder, f"enet://127.0.0.1:{port}", subprotocols=[TEXT], limits=LIMITS)
    return recorder


@pytest.mark.skipif(find_spec("enet") is None, reason="pyenet exists for Python up to 3.12 only")
async def test_many_peers_of_one_socket_are_told_apart() -> None:
    pyenet: Any = import_module("enet")
    count = 60
    echo = Echo()
    port = await echo.serve()

    def play() -> set[bytes]:
        host = pyenet.Host(None, count, 3, 0, 0)
        heard: set[bytes] = set()
        names = [host.connect(pyenet.Address(b"127.0.0.1", port), 3).incomingPeerID for _ in range(count)]
        for _ in range(int(DEADLINE_S * 1000 / STEP_MS)):
            event = host.service(STEP_MS)
            if event.type == pyenet.EVENT_TYPE_CONNECT:
                event.peer.send(0, pyenet.Packet(TEXT.name.encode(), pyenet.PACKET_FLAG_RELIABLE))
            elif event.type == pyenet.EVENT_TYPE_RECEIVE:
                heard.add(b"%d" % event.peer.incomingPeerID)
                event.peer.send(0, pyenet.Packet(b"%d" % event.peer.incomingPeerID, pyenet.PACKET_FLAG_RELIABLE))
                if len(heard) == count:
                    host.flush()
                    assert heard == {b"%d" % name for name in names}
                    return heard
        raise TimeoutError

    sent = await asyncio.to_thread(play)

    received = {(await recorder.payload())[0] for recorder in echo.accepted}
    assert received == sent
    assert len({recorder.link.peer for recorder in echo.accepted}) == 1
    await echo.finish()
