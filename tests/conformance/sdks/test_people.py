"""Who joins, and with what: what every SDK tells a server of its player, and of the room it wants."""

from collections.abc import AsyncIterator

import pytest

from holdfast import Server, WebSocket
from holdfast.core.codecs import CODECS
from tests.conformance.sdks.game import Table
from tests.conformance.sdks.programs import Program, program
from tests.conformance.sdks.test_order import words


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server([Table], listen=[WebSocket(port=0)]) as server:
        yield server


@pytest.mark.parametrize("codec", CODECS)
async def test_a_config_is_for_the_room_and_properties_are_for_everybody(
    client: Program, server: Server, codec: str
) -> None:
    await client.do("connect", url=server.url, codec=codec)
    told = {"properties": {"map": "moon"}, "config": {"motto": "be nice", "camelCase": {"snake_case": [1]}}}

    room = (await client.do("create", kind="table", **told))["room"]
    await client.do("join", room=room)

    assert await words(client, 1) == ["be nice"]
    assert server.operate.rooms.get(room).properties == {"map": "moon"}


@pytest.mark.parametrize("codec", CODECS)
async def test_a_name_is_accepted_changed_and_kept_by_the_session(
    client: Program, server: Server, sdk: str, codec: str
) -> None:
    told = await client.do("connect", url=server.url, codec=codec, name="  Żółw   🐢 ")
    await client.do("join", kind="table")
    renamed = await client.do("rename", name="Ada")
    refused = await client.attempt("rename", name="\u202eadA")

    assert (told["name"], renamed["name"], refused["error"]) == ("Żółw 🐢", "Ada", "name_not_allowed")
    assert await words(client, 2) == ["Żółw 🐢", "Żółw 🐢 → Ada"]
    state = (await client.do("suspend"))["state"]
    async with program(sdk) as second:
        again = await second.do("connect", url=server.url, resume=state, name="Bob")
        assert (again["name"], again["outcome"]["kind"]) == ("Ada", "resumed")


async def test_a_name_that_is_refused_at_sign_in_ends_nothing_but_the_attempt(
    client: Program, server: Server, sdk: str
) -> None:
    told = await client.do("connect", url=server.url, name="Ada")
    state = (await client.do("suspend"))["state"]
    session = server.sessions.get(told["session"])
    assert session is not None
    session.end()

    async with program(sdk) as second:
        refused = await second.attempt("connect", url=server.url, resume=state, name="\x07")
        kept = await second.do("save")
        again = await second.do("connect", url=server.url, resume=kept["state"])

    assert refused["error"] == "refused"
    assert "choose another name" in refused["message"]
    assert (again["player"], again["name"]) == (told["player"], "Ada")


@pytest.mark.parametrize("codec", CODECS)
async def test_a_player_joins_with_options_of_their_own_or_of_the_reservation(
    client: Program, server: Server, codec: str
) -> None:
    await client.do("connect", url=server.url, codec=codec, name="Ada")
    room = (await client.do("create", kind="table"))["room"]

    refused = await client.attempt("join", room=room, options={"weapon": 5})
    await client.do("reserve", room=room, options={"weapon": "bow", "levels": {"fireBall": 3, "ice_storm": 1}})
    await client.do("join", room=room)
    await client.do("leave")
    await client.event("left")
    await client.do("join", kind="table", options={"weapon": "axe"})

    assert refused["error"] == "invalid"
    assert "Expected `str`, got `int` - at `$.weapon`" in refused["message"]
    reserved = "bow [('fireBall', 3), ('ice_storm', 1)]"
    assert await words(client, 4) == ["Ada", reserved, "Ada", "axe []"]
