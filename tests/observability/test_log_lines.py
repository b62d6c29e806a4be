"""The lines of the log: one for every event, at its level, and never so many that they fill a disk."""

import asyncio
import logging
from typing import Any

import pytest

import holdfast
from holdfast import Limits
from holdfast.observability.log_lines import LEVELS, EventLogger, LineLimit
from holdfast.schemas import events
from holdfast.schemas.events import Event, LimitExceeded, NodeHealth, SignInFailed
from holdfast.schemas.frames import Auth, Hello
from holdfast.testing import MemoryServer
from tests.log_lines import line_of
from tests.server.durability.bench import in_virtual_time
from tests.server.world import World, chat, until_resumed

Line = tuple[str, str, dict[str, Any]]


def lines_of(caplog: pytest.LogCaptureFixture) -> list[Line]:
    return [(record.levelname, *line_of(record)) for record in caplog.records if record.name == "holdfast.events"]


def of_kind(lines: list[Line], event: str) -> list[dict[str, Any]]:
    return [fields for _, name, fields in lines if name == event]


async def test_a_player_s_way_is_one_line_for_each_step_with_ids_as_fields(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    server = await world.serve(chat())
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    await until_resumed(session, session.cut)
    await session.close()
    await server.stop()

    told = [line for line in lines_of(caplog) if line[2].get("session") == session.id]

    assert [(level, event) for level, event, _ in told] == [
        ("INFO", "session.opened"),
        ("INFO", "session.authenticated"),
        ("INFO", "player.joined"),
        ("INFO", "session.dropped"),
        ("INFO", "session.resumed"),
        ("INFO", "player.left"),
        ("INFO", "session.ended"),
    ]
    assert {fields["player"] for _, _, fields in told} == {session.player_id}
    opened, joined, resumed = told[0][2], told[2][2], told[4][2]
    assert opened["peer"].startswith("127.0.0.1:")
    assert joined["room"] == room.id
    assert (resumed["outcome"], resumed["replayed"]) == ("resumed", 0)
    assert not any({"type", "at"} & fields.keys() for _, _, fields in told)


async def test_the_life_of_a_room_is_a_line_for_each_step_without_its_listing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    server = await world.serve(chat())
    room = await server.create_room("chat", name="The Hall")
    room.start()
    room.close()
    await server.stop()

    told = [line for line in lines_of(caplog) if line[2].get("room") == room.id]

    assert [(event, fields) for _, event, fields in told] == [
        ("room.created", {"room": room.id, "kind": "chat"}),
        ("room.started", {"room": room.id, "kind": "chat"}),
        ("room.ending", {"room": room.id, "kind": "chat", "reason": "closed"}),
        ("room.ended", {"room": room.id, "status": "ended", "reason": "closed"}),
    ]


async def test_what_is_in_order_is_not_logged_unless_somebody_asks(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    await session.join_or_create("chat")
    await until_resumed(session, session.cut)
    await session.close()
    await server.stop()

    assert caplog.records == []


async def test_a_used_token_is_one_warning_with_whose_and_from_where(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    server = await world.serve(chat())
    first = await world.raw(server)
    welcome = await first.sign_in()
    second = await world.raw(server)
    await second.resume(welcome)
    await second.join()
    thief = await world.raw(server)
    thief.ask_to_resume(welcome)
    await thief.closed()

    (line,) = lines_of(caplog)
    level, event, fields = line
    assert (level, event) == ("WARNING", "token.reused")
    assert (fields["session"], fields["player"]) == (welcome.session, welcome.player)
    assert fields["peer"].startswith("127.0.0.1:")


def test_no_event_that_is_loud_is_unknown() -> None:
    known = {each for each in vars(events).values() if isinstance(each, type) and issubclass(each, Event)}

    assert set(LEVELS) <= known


@pytest.mark.parametrize("is_healthy", [True, False])
@in_virtual_time
async def test_a_node_that_is_not_well_is_a_warning(caplog: pytest.LogCaptureFixture, *, is_healthy: bool) -> None:
    lines = LineLimit(asyncio.get_running_loop(), 1, lambda *_: None)

    EventLogger(lines, 1).record(NodeHealth(node="n", is_healthy=is_healthy))

    assert [level for level, _, _ in lines_of(caplog)] == ([] if is_healthy else ["WARNING"])


@pytest.mark.parametrize("whose", ["player", "address"])
async def test_a_ban_is_told_with_whose_it_is_as_a_field(
    world: World, caplog: pytest.LogCaptureFixture, whose: str
) -> None:
    caplog.set_level(logging.INFO)
    server = await world.serve(chat())
    name = {"player": "ann:of:colons", "address": "203.0.113.0/24"}[whose]

    await server.ban(**{whose: name}, why="a cheat")  # type: ignore[arg-type]  # both are texts
    await server.unban(**{whose: name})

    lines = lines_of(caplog)
    assert of_kind(lines, "ban.set") == [{whose: name, "why": "a cheat", "until": 0.0}]
    assert of_kind(lines, "ban.lifted") == [{whose: name}]


@in_virtual_time
async def test_a_flood_of_refused_hellos_is_a_few_lines_and_a_number(caplog: pytest.LogCaptureFixture) -> None:
    limits = Limits(
        log_lines_per_s=3,
        hellos_per_address_burst=1000,
        failures_per_address_burst=1000,
        unauthenticated_per_address_max=1000,
    )
    async with MemoryServer([chat()], limits=limits) as server:
        for _ in range(40):
            with pytest.raises(holdfast.SessionEnded):
                await server.connect("", auth=Auth("name", ""))
        await asyncio.sleep(2.0)
        lines = lines_of(caplog)

    failures = of_kind(lines, "sign_in.failed")
    left_out = sum(
        fields["lines"]
        for fields in of_kind(lines, "more lines like this were left out")
        if fields["kind"].startswith("sign_in.failed")
    )
    seconds = max(1, round(asyncio.get_running_loop().time()))
    assert len(failures) + left_out == 40
    assert left_out > 0
    assert len(failures) <= 3 * seconds
    assert len(lines) < 40


@in_virtual_time
async def test_one_limit_does_not_drown_another(caplog: pytest.LogCaptureFixture) -> None:
    async with MemoryServer([chat()], limits=Limits(log_lines_per_s=2)) as server:
        for _ in range(10):
            server.parts.context.publish(LimitExceeded(limit="unauthenticated_max", action="refused"))
        server.parts.context.publish(LimitExceeded(limit="messages_per_s", action="warned", session="s1", player="ann"))
        server.parts.context.publish(SignInFailed(scheme="password", reason="auth_failed", address="203.0.113.7"))
        await asyncio.sleep(1.5)

    lines = lines_of(caplog)
    assert [fields["limit"] for fields in of_kind(lines, "limit.exceeded")] == ["unauthenticated_max"] * 2 + [
        "messages_per_s"
    ]
    assert len(of_kind(lines, "sign_in.failed")) == 1
    assert of_kind(lines, "more lines like this were left out") == [
        {"kind": "limit.exceeded unauthenticated_max", "lines": 8}
    ]


async def test_a_game_that_fails_at_every_message_does_not_fill_the_log_either(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    server = await world.serve(chat(), limits=Limits(log_lines_per_s=2))
    for number in range(20):
        server.parts.faults.report("on_disconnect of a session", ValueError("why"), session=f"s{number}")

    errors = [line_of(record) for record in caplog.records if record.levelname == "ERROR"]
    assert [fields["session"] for _, fields in errors] == ["s0", "s1"]
    assert server.counters.internal_errors == 20


async def test_an_authenticator_that_repeats_the_credential_does_not_tell_it_to_the_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        scheme = "broken"

        def authenticate(self, credential: str, approach: object) -> holdfast.Auth:
            raise LookupError(f"no row for {credential!r}")

    class BrokenLater(Broken):
        scheme = "later"

        async def authenticate(self, credential: str, approach: object) -> holdfast.Auth:  # type: ignore[override]
            raise LookupError(f"no row for {credential!r}")

    server = await world.serve(chat(), auth=[Broken(), BrokenLater()])
    for scheme in ("broken", "later"):
        client = await world.raw(server)
        client.say(Hello(Auth(scheme, "ann:hunter2-and-more")))
        await client.closed()

    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 2
    assert caplog.text.count("LookupError: no row for '***'") == 2
    assert "hunter2" not in caplog.text


async def test_a_request_that_fails_does_not_tell_its_secrets_to_the_log(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await world.serve(chat())

    def break_down(wish: Any, *_: Any, **__: Any) -> None:
        raise LookupError(f"{wish.kind} {wish.password}")

    monkeypatch.setattr(server.parts.rooms, "create", break_down)
    client = await world.raw(server)
    await client.sign_in()
    await client.request("create", kind="chat", password="open-sesame")

    assert "LookupError: chat ***" in caplog.text
    assert "open-sesame" not in caplog.text


# How often the log says the same


@in_virtual_time
async def test_so_many_lines_of_a_kind_in_a_second_and_then_one_that_counts_the_rest() -> None:
    told: list[tuple[float, str, int]] = []
    loop = asyncio.get_running_loop()
    limit = LineLimit(loop, 3, lambda kind, lines: told.append((loop.time(), kind, lines)))
    start = loop.time()

    first = [limit.allow("flood") for _ in range(10)]
    other = limit.allow("calm")
    await asyncio.sleep(1.5)
    again = limit.allow("flood")
    await asyncio.sleep(5.0)

    assert first == [True] * 3 + [False] * 7
    assert other
    assert again
    assert told == [(start + 1.0, "flood", 7)]


@in_virtual_time
async def test_the_end_tells_what_was_left_out_and_leaves_no_timer() -> None:
    told: list[tuple[str, int]] = []
    limit = LineLimit(asyncio.get_running_loop(), 1, lambda kind, lines: told.append((kind, lines)))
    for _ in range(3):
        limit.allow("flood")

    limit.close()
    await asyncio.sleep(5.0)

    assert told == [("flood", 2)]
