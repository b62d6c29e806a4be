"""What alerts watch is there at zero before it happens: what first appears as 1 has not grown, and nobody is told."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # has no types of its own

from holdfast import Failed, PlayerData, Room
from holdfast.schemas.events import ROOM_FAILURES, RoomFailed, SignInFailed
from holdfast.testing import MemoryServer
from tests.deploy.promql import Expression
from tests.observability.look import Look, in_virtual_time, look_at

ALERTS = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yml"
# It tells of what goes on for five minutes: nothing is missed if the first of many does not count.
WITHOUT_ZEROS = {"holdfast_limits_exceeded_total"}


class Arena(Room[PlayerData]):
    pass


class Ruin(Room[PlayerData]):
    def on_create(self, config: dict[str, Any]) -> None:
        raise RuntimeError("it falls down")


async def first_look() -> Look:
    async with MemoryServer([Arena, Ruin]) as server:
        return await look_at(server)


@in_virtual_time
async def test_every_counter_of_an_alert_is_there_at_zero() -> None:
    look = await first_look()
    rules = [rule for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"] for rule in group["rules"]]
    watched = {series.name for rule in rules for series in Expression(rule["expr"]).series}

    counters = {name for name in watched if name.endswith("_total")} - WITHOUT_ZEROS

    assert len(counters) > 5
    assert [name for name in counters if not look.values(name.removeprefix("holdfast_"))] == []
    assert look.that_happened("rooms_failed_total") == {}


@in_virtual_time
async def test_every_way_in_which_a_room_of_any_kind_can_fail_is_there_before_it_does() -> None:
    look = await first_look()

    shown = look.values("rooms_failed_total")
    assert shown == {(kind, why): 0 for kind in ("arena", "ruin", "other") for why in ROOM_FAILURES}


@in_virtual_time
async def test_a_room_that_fails_is_counted_where_the_zero_was() -> None:
    async with MemoryServer([Arena, Ruin], allow_errors=RuntimeError) as server:
        before = await look_at(server)
        session = await server.connect("ada")
        with suppress(Failed):
            await session.create("ruin")
        # From a record of a game that had other rooms, or of nothing that can be read.
        server.parts.context.publish(RoomFailed(room="r1", kind="castle", why="set_aside"))
        server.parts.context.publish(RoomFailed(room="r2", kind="", why="set_aside"))
        after = await look_at(server)

    failed = after.that_happened("rooms_failed_total")
    assert failed == {("ruin", "create_failed"): 1, ("other", "set_aside"): 2}
    assert failed.keys() <= before.values("rooms_failed_total").keys()


@in_virtual_time
async def test_so_are_sign_ins_by_a_way_that_nobody_knows() -> None:
    async with MemoryServer([Arena]) as server:
        before = await look_at(server)
        server.parts.context.publish(SignInFailed(scheme="", reason="auth_failed"))
        after = await look_at(server)

    assert before.value("sign_ins_failed_total", "other", "auth_failed") == 0
    assert after.that_happened("sign_ins_failed_total") == {("other", "auth_failed"): 1}
