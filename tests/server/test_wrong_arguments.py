"""A wrong argument is refused with what was expected; a hook that raises is logged with its name and its player."""

from typing import Any

import pytest

from holdfast import Failed, Message, Player, Room, Server
from holdfast.identity import Guest
from holdfast.testing import MemoryServer
from tests.cases import every_case
from tests.server.durability.bench import in_virtual_time


class Boom(Message):
    text: str = ""


class Arena(Room[Any]):
    pass


@pytest.mark.parametrize("wrong", [{"type": "boom"}, "boom", Boom, None])
@in_virtual_time
async def test_what_is_no_message_cannot_be_sent(wrong: Any) -> None:
    async with MemoryServer([Arena]) as server:
        room = await server.create_room("arena")
        ada = await server.connect("ada")
        await ada.join(room.id)

        for send in (room.broadcast, room.players[0].send, room.players[0].send_latest):
            with pytest.raises(TypeError, match=r"send a Message, as in `class Move\(Message\)`"):
                send(wrong)


@in_virtual_time
async def test_a_broadcast_to_nobody_is_checked_too() -> None:
    async with MemoryServer([Arena]) as server:
        room = await server.create_room("arena")

        with pytest.raises(TypeError, match="send a Message"):
            room.broadcast({"type": "boom"})  # type: ignore[arg-type] # what is wrong with it


@in_virtual_time
async def test_an_owner_is_a_player_and_not_an_id() -> None:
    async with MemoryServer([Arena]) as server:
        room = await server.create_room("arena")

        with pytest.raises(TypeError, match=r"got 'ada': self\.player\(player_id\) finds one by id"):
            room.own("ada", "sword")  # type: ignore[arg-type] # what is wrong with it

        assert room.owner_of("sword") is None
        assert "sword" not in room.objects


@pytest.mark.parametrize("wrong", [Arena, [Arena, "arena"], "arena", None, [Boom]])
def test_a_server_takes_a_list_of_rooms(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"Server takes a list of Room classes, as in Server\(\[Arena\]\); got "):
        Server(wrong)


@every_case(
    ("settings", "said"),
    [
        ({"auth": "password"}, r"auth=\[Guest\(\), Password\(\)\]; got a value of type str"),
        ({"auth": Guest()}, "auth is a list of authenticators"),
        ({"queues": ["europe"]}, r"queues=\[Queue\("),
        ({"effects": {"pay": 5}}, "effects maps names to functions"),
        ({"check_name": "ada"}, "check_name is a function"),
    ],
)
def test_a_setting_that_would_fail_later_is_an_error_at_once(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        Server([Arena], **settings)


class Moody(Room[Any]):
    """Raises in the hook that its property names."""

    def _raise_in(self, hook: str) -> None:
        if self.properties.get("raises") == hook:
            raise ZeroDivisionError("a bug of the game")

    def admit(self, player: Player[Any]) -> None:
        self._raise_in("admit")

    def on_join(self, player: Player[Any]) -> None:
        self._raise_in("on_join")

    def on_leave(self, player: Player[Any], reason: str) -> None:
        self._raise_in("on_leave")


@pytest.mark.parametrize("hook", ["admit", "on_join", "on_leave"])
@in_virtual_time
async def test_a_hook_that_raises_is_logged_with_its_name_and_its_player(
    hook: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with MemoryServer([Moody], allow_errors=ZeroDivisionError) as server:
        room = await server.create_room("moody", properties={"raises": hook})
        ada = await server.connect("ada")

        if hook == "on_leave":
            await (await ada.join(room.id)).leave()
        else:
            with pytest.raises(Failed, match=f"{hook} failed"):
                await ada.join(room.id)

    told = [record.message for record in caplog.records if "the game's code failed" in record.message]
    assert len(told) == 1
    assert f"where={hook} " in told[0]
    assert "player=ada" in told[0]
