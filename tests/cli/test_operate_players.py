"""`holdfast players ban`, `unban`, `bans` and `sign-out`, against a real node with its HTTP API."""

import time
from collections.abc import AsyncIterator

import pytest

import holdfast
from holdfast import Reason, Room, Server, SessionEnded, WebSocket
from holdfast.events import RoleGranted
from holdfast.http.api import ApiKey, HttpApi
from tests.cases import every_case
from tests.cli.operator import Operator

KEY = "0123456789abcdef"


class Hall(Room[holdfast.PlayerData]):
    """A room."""


@pytest.fixture
async def operator() -> AsyncIterator[Operator]:
    api = HttpApi(port=0, keys=[ApiKey(KEY, ["admin"], name="ops")])
    async with Server([Hall], listen=[WebSocket(port=0)], http=api) as server:
        yield Operator(server, KEY)


async def test_a_player_is_banned_listed_and_let_in_again(operator: Operator) -> None:
    async with holdfast.connect(operator.server.url) as ada:
        credential = ada.credential
        said = await operator.output("players", "ban", ada.player_id, "--for", "2h", "--why", "be nice")

        with pytest.raises(SessionEnded) as ended:
            await ada.search()
    listed = await operator.output("players", "bans")
    (ban,) = await operator.json("players", "bans")
    lifted = await operator.output("players", "unban", ada.player_id)

    assert ended.value.reason == Reason.BANNED
    assert said.startswith("Banned until ")
    assert said.endswith(f"UTC: player:{ada.player_id}.")
    assert f"player:{ada.player_id}" in listed
    assert "be nice" in listed
    assert 7000 < ban["until"] - time.time() <= 7200
    assert lifted == f"No longer banned: player:{ada.player_id}."
    assert await operator.output("players", "bans") == "There are no bans."
    async with holdfast.connect(operator.server.url, auth=holdfast.Auth("guest", credential)) as again:
        assert again.player_id == ada.player_id


async def test_a_range_of_addresses_is_banned_and_let_in_again(operator: Operator) -> None:
    assert (
        await operator.output("players", "ban", "--address", "203.0.113.7/24")
        == "Banned for good: address:203.0.113.0/24."
    )
    assert (
        await operator.output("players", "unban", "--address", "203.0.113.0/24")
        == "No longer banned: address:203.0.113.0/24."
    )

    assert operator.server.bans() == []


async def test_a_ban_has_an_end_in_words_or_by_the_calendar(operator: Operator) -> None:
    for span, seconds in (("90s", 90), ("30min", 1800), ("30m", 1800), ("1.5h", 5400), ("7d", 604_800), ("2w", 1.21e6)):
        ban = await operator.json("players", "ban", "ada", "--for", span)
        assert ban["until"] - ban["since"] == pytest.approx(seconds, rel=1e-3)
    assert (await operator.json("players", "ban", "ada", "--until", "2030-01-31T18:00Z"))["until"] == 1_896_112_800.0
    assert (await operator.json("players", "ban", "ada", "--until", "2030-01-31T18:00+02:00"))[
        "until"
    ] == 1_896_105_600.0
    assert (await operator.json("players", "ban", "ada", "--until", "2030-01-31"))["until"] > 1_896_000_000.0


@every_case(
    ("words", "says"),
    [
        (["ban"], "Give either a player's ID or an --address"),
        (["ban", "ada", "--address", "203.0.113.7"], "Give either a player's ID or an --address"),
        (["ban", "ada", "--for", "2h", "--until", "2030-01-31"], "Give either --for or --until"),
        (
            ["ban", "ada", "--for", "soon"],
            "invalid duration 'soon': use a number above 0 with s, m, h, d or w, such as 90s",
        ),
        (["ban", "ada", "--for", "0s"], "invalid duration"),
        (["ban", "ada", "--until", "tomorrow"], "invalid date 'tomorrow': use a date such as 2030-01-31"),
        (["ban", "ada", "--until", "1999-01-31"], "must be in the future"),
        (["ban", "--address", "elsewhere"], "not a range of addresses; use the form 203.0.113.0/24"),
        (["unban"], "Give either a player's ID or an --address"),
        (["unban", "ada"], "there is no ban of 'player:ada'"),
    ],
)
async def test_a_mistake_is_told_with_what_to_do(operator: Operator, words: list[str], says: str) -> None:
    result = await operator.run("players", *words)

    assert result.exit_code != 0
    assert says in " ".join(result.stderr.split())
    assert operator.server.bans() == []


async def test_a_player_is_signed_out_everywhere(operator: Operator) -> None:
    async with holdfast.connect(operator.server.url) as ada:
        said = await operator.output("players", "sign-out", ada.player_id, "--why", "your password was changed")

    assert said == f"Player {ada.player_id} is signed out everywhere."
    assert operator.server.parts.access.sign_outs == 1
    assert await operator.json("players", "sign-out", "nobody") == {"signed_out": "nobody"}


async def test_a_role_is_granted_listed_revoked_and_reset(operator: Operator) -> None:
    told: list[RoleGranted] = []
    operator.server.on(RoleGranted, told.append)
    async with holdfast.connect(operator.server.url) as ada:
        session = operator.server.sessions.get(ada.id)
        assert session is not None

        granted = await operator.output("players", "grant", ada.player_id, "gm")
        assert granted == f"Player {ada.player_id} has the role gm."
        assert session.roles == {"gm"}
        [listed] = await operator.json("players", "roles")
        assert listed == {"player": ada.player_id, "granted": ["gm"], "revoked": []}
        assert "gm" in await operator.output("players", "list")
        assert (await operator.json("sessions", "show", ada.id))["roles"] == ["gm"]

        revoked = await operator.output("players", "revoke", ada.player_id, "gm")
        assert revoked == f"Player {ada.player_id} does not have the role gm."
        assert session.roles == frozenset()
        reset = await operator.output("players", "reset-roles", ada.player_id)
        assert reset == f"Player {ada.player_id} has the roles of the sign-in."
        assert await operator.output("players", "roles") == "No roles were granted or revoked."
    assert [(event.role, event.by) for event in told][:1] == [("gm", "ops")]


async def test_a_role_that_cannot_be_one_is_refused(operator: Operator) -> None:
    result = await operator.run("players", "grant", "ada", "x" * 65)

    assert result.exit_code == 1
    assert "a word of 1 to 64 printable characters" in result.stderr


async def test_bans_need_a_key_for_operators() -> None:
    api = HttpApi(port=0, keys=[ApiKey(KEY, ["rooms"])])
    async with Server([Hall], listen=[WebSocket(port=0)], http=api) as server:
        operator = Operator(server, KEY)

        of_roles = (["roles"], ["grant", "ada", "gm"], ["revoke", "ada", "gm"], ["reset-roles", "ada"])
        for words in (["bans"], ["ban", "ada"], ["unban", "ada"], ["sign-out", "ada"], *of_roles):
            result = await operator.run("players", *words)
            assert result.exit_code == 1
            assert "scope admin" in result.stderr
