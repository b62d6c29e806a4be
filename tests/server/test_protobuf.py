"""A client that is made by protoc from the published files, and knows nothing else of Holdfast."""

import asyncio
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

import holdfast
from holdfast import Limits, Message, Player, PlayerData, Room, Server, Untyped, WebSocket, on
from holdfast.cli.proto_file import frames_file, game_file
from tests.deadlines import DEADLINE_S

CODEC = Subprotocol("holdfast.v1.protobuf")


class Move(Message):
    """Go there."""

    x: float
    steps: tuple[int, ...] = ()


class Moved(Message):
    who: str
    x: float
    steps: list[int]


class Where(Message):
    """Asks for an answer."""


class Hall(Room[PlayerData]):
    """Tells everybody who went where."""

    shares = ("state",)
    state: dict[str, float]
    max_players = 4

    def on_create(self, config: Any) -> None:
        self.state = {}

    @on(Move)
    def moved(self, player: Player[PlayerData], move: Move) -> None:
        self.state[player.id] = move.x
        self.broadcast(Moved(player.id, move.x, list(move.steps)))

    @on(Where)
    def where(self, player: Player[PlayerData], _: Where) -> Moved:
        return Moved(player.id, self.state.get(player.id, 0.0), [])


def import_protoc() -> Any:
    """The compiler, which has no types."""
    return importlib.import_module("grpc_tools.protoc")


class Made:
    """The modules that protoc has made."""

    def __init__(self, folder: Path) -> None:
        (folder / "holdfast.proto").write_text(frames_file())
        (folder / "hall.proto").write_text(game_file([Hall], "hall.py"))
        files = ["holdfast.proto", "hall.proto"]
        assert import_protoc().main(["protoc", f"-I{folder}", f"--python_out={folder}", *files]) == 0
        sys.path.insert(0, str(folder))
        try:
            self.frames: Any = importlib.import_module("holdfast_pb2")
            self.game: Any = importlib.import_module("hall_pb2")
        finally:
            sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("protoc"))


class Peer:
    """Its own half of the protocol: as little as there must be."""

    def __init__(self, made: Made, socket: ClientConnection) -> None:
        self._frames = made.frames
        self._socket = socket
        self._heard: list[Any] = []

    async def say(self, **frames: Any) -> None:
        payload = self._frames.Payload()
        for name, frame in frames.items():
            getattr(payload.frames.add(), name).CopyFrom(frame)
        await self._socket.send(payload.SerializeToString())

    async def hear(self, name: str, kind: str = "") -> Any:
        """The next frame of this name, and of messages the next of this type."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                for frame in self._heard:
                    found = getattr(frame, name) if frame.WhichOneof("one") == name else None
                    if found is not None and (not kind or found.type == kind):
                        self._heard.remove(frame)
                        return found
                payload = self._frames.Payload.FromString(await self._socket.recv())
                for frame in payload.frames:
                    if frame.WhichOneof("one") == "block":
                        self._heard += self._single(frame.block)
                    else:
                        self._heard.append(frame)

    def _single(self, block: Any) -> list[Any]:
        frame = self._frames.Frame
        return [
            frame(data=self._frames.Data(channel=block.channel, seq=seq, type=each.type, body=each.body))
            for seq, each in enumerate(block.messages, block.seq)
        ]


async def test_it_signs_in_joins_plays_drops_resumes_asks_and_leaves(made: Made) -> None:
    pb, game = made.frames, made.game
    async with Server([Hall], listen=[WebSocket(port=0)]) as server:
        url = server.url
        async with connect(url, subprotocols=[CODEC]) as socket:
            peer = Peer(made, socket)
            await peer.say(
                hello=pb.Hello(auth=pb.Auth(scheme="guest"), client="protoc", name="Ada", features=["blocks"])
            )
            welcome = await peer.hear("welcome")
            assert (welcome.outcome.kind, welcome.name, welcome.terms.payload_bytes_max) == ("new", "Ada", 65536)
            wish = pb.JoinOrCreate(kind="hall", max_players=2)
            wish.properties["level"].integer = 3
            await peer.say(request=pb.Request(id=1, operation="join_or_create", arguments=wish.SerializeToString()))
            seat = await peer.hear("seat")
            room = pb.RoomInfo.FromString((await peer.hear("reply")).result)
            assert (room.id, room.kind, room.max_players) == (seat.room, "hall", 2)
            assert room.properties["level"].integer == 3
            (session,) = server.sessions
            assert session.codec is not None
            assert session.codec.name == CODEC
            async with holdfast.connect(url, messages=[Moved]) as other:
                bob = await other.join(room.id)
                move = game.Move(x=1.5, steps=[1, -2]).SerializeToString()
                await peer.say(data=pb.Data(channel=1, seq=1, type="move", body=move))
                heard = await peer.hear("data", "moved")
                assert game.Moved.FromString(heard.body) == game.Moved(who=welcome.player, x=1.5, steps=[1, -2])
                assert await bob.receive(Moved) == Moved(welcome.player, 1.5, [1, -2])
        async with connect(url, subprotocols=[CODEC]) as socket:
            peer = Peer(made, socket)
            where = pb.Position(channel=1, generation=1, received=heard.seq - 1, acked=1)
            again = pb.Resume(session=welcome.session, token=welcome.token, positions=[where], requests=1)
            await peer.say(hello=pb.Hello(resume=again))
            assert (await peer.hear("welcome")).outcome.kind == "resumed"
            assert (await peer.hear("data", "moved")).body == heard.body
            ask = pb.Ask(type="where", body=game.Where().SerializeToString())
            await peer.say(data=pb.Data(channel=1, seq=2, type="holdfast.ask", body=ask.SerializeToString()))
            answer = pb.MessageAnswered.FromString((await peer.hear("data", "holdfast.answer")).body)
            assert (answer.seq, game.Moved.FromString(answer.body).x) == (2, 1.5)
            await peer.say(request=pb.Request(id=2, operation="join", arguments=b"\x98\x06\x01"))
            assert (await peer.hear("reply")).problem.code == "invalid"
            await peer.say(data=pb.Data(channel=1, seq=3, type="nonsense", body=b"\xff"))
            refused = pb.MessageRefused.FromString((await peer.hear("data", "holdfast.refused")).body)
            assert (refused.seq, refused.type) == (3, "nonsense")
            await peer.say(bye=pb.Bye(reason="done"))
            assert (await peer.hear("close")).code == 4200


async def test_bytes_that_are_no_payload_close_the_connection(made: Made) -> None:
    async with (
        Server([Hall], listen=[WebSocket(port=0)]) as server,
        connect(server.url, subprotocols=[CODEC]) as socket,
    ):
        await socket.send(b"\x0a\x03\x7a\x01\x00")
        peer = Peer(made, socket)

        assert (await peer.hear("close")).code == 4202


async def test_rooms_speak_every_codec_at_once_and_share_their_state() -> None:
    codecs = ["holdfast.v1.protobuf", "holdfast.v1.msgpack", "holdfast.v1.json"]
    async with Server([Hall], listen=[WebSocket(port=0)], limits=Limits(sessions_per_player_max=8)) as server:
        sessions = [await holdfast.connect(server.url, codec=codec, messages=[Moved], state=dict) for codec in codecs]
        first = await sessions[0].join_or_create("hall")
        rooms = [first, *[await each.join(first.id) for each in sessions[1:]]]
        for each, session in zip(rooms, sessions, strict=True):
            await each.send(Move(2.0, (7,)))
            for listener in rooms:
                assert await listener.receive(Moved) == Moved(session.player_id, 2.0, [7])
        async with asyncio.timeout(DEADLINE_S):
            while any(len(each.state or {}) < len(codecs) for each in rooms):  # noqa: ASYNC110 - it comes by itself
                await asyncio.sleep(0.01)
        found = await sessions[0].search("hall", where="open_seats > 0")
        assert [each.id for each in found] == [first.id]
        assert [each.id for each in await sessions[0].my_rooms()] == [first.id]
        for session in sessions:
            await session.close()


async def test_a_message_whose_class_is_not_listed_stays_bytes() -> None:
    async with (
        Server([Hall], listen=[WebSocket(port=0)]) as server,
        holdfast.connect(server.url, codec="holdfast.v1.protobuf", messages=[Untyped]) as session,
    ):
        room = await session.join_or_create("hall")
        await room.send(Move(0.0))
        who = session.player_id.encode()
        assert await room.receive() == Untyped("moved", b"\n" + bytes([len(who)]) + who)
