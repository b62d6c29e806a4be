"""The blocking client watches a room."""

from collections.abc import Iterator

import pytest

from holdfast import Message, Player, PlayerData, Room, Server, Spectator, WebSocket, on
from holdfast.sync import connect
from tests.client.server_thread import ServerThread


class Cheer(Message):
    text: str


class Heard(Message):
    text: str


class Stage(Room[PlayerData]):
    max_spectators = 3

    @on(Cheer, spectators=True)
    def cheered(self, who: Player[PlayerData] | Spectator, cheer: Cheer) -> None:
        self.broadcast(Heard(cheer.text))


@pytest.fixture
def url() -> Iterator[str]:
    running = ServerThread(Server([Stage], listen=[WebSocket(port=0)]))
    yield running.url
    running.stop()


def test_a_room_is_watched_without_an_event_loop(url: str) -> None:
    with connect(url) as player, connect(url, messages=[Heard]) as spectator:
        room = player.join_or_create("stage")

        watched = spectator.spectate(room.id)
        watched.send(Cheer("bravo"))
        heard = watched.receive(timeout=10.0)

        assert heard == Heard("bravo")
        assert watched.is_spectator
        assert spectator.room is None
        assert spectator.spectating is not None
        assert spectator.spectating.id == room.id
        watched.leave()
        assert spectator.spectating is None
