"""What cannot be read stays in the store as it is; everything else comes back."""

import asyncio
from typing import Any

import msgspec
import pytest

from holdfast.core.records import decode_room, decode_session, encode
from holdfast.server.durability.recovery import Pace
from holdfast.stores import Entry
from tests.server.durability.bench import Bench, Sitting, a_moment, in_virtual_time, until
from tests.server.durability.rooms import Do, Say, Table, table
from tests.server.durability.test_records import World

both_paces = pytest.mark.parametrize("pace", ["eager", "lazy"])


class Fragile(Table):
    def restore(self, saved: Any) -> None:
        if "poison" in saved.said:
            raise RuntimeError("poison")
        super().restore(saved)

    def poison(self, player: object) -> None:
        self.state.said.append("poison")


def overwrite(bench: Bench, key: str, value: bytes) -> None:
    bench.data.entries[key] = Entry(key, value, bench.data.entries[key].revision)


def damage(bench: Bench, ada: Sitting, how: str) -> None:
    key = f"room/{ada.room.id}"
    record = decode_room(bench.store.value(key))
    match how:
        case "noise":
            overwrite(bench, key, b"\x01noise")
        case "empty":
            overwrite(bench, key, b"")
        case "a newer version":
            overwrite(bench, key, b"\x7f" + bench.store.value(key)[1:])
        case "unknown kind":
            overwrite(bench, key, encode(msgspec.structs.replace(record, kind="gone")))
        case "missing part":
            del bench.data.entries[bench.store.keys_of(f"{key}/")[0]]
        case "missing record":
            del bench.data.entries[key]
        case "a memory room now":
            overwrite(bench, key, encode(msgspec.structs.replace(record, kind="lounge")))
        case "state of another shape":
            overwrite(bench, key, encode(msgspec.structs.replace(record, state=msgspec.Raw(b"\xa1x"))))
        case _:
            raise ValueError(how)


@both_paces
@pytest.mark.parametrize(
    "how",
    [
        "noise",
        "empty",
        "a newer version",
        "unknown kind",
        "missing part",
        "missing record",
        "a memory room now",
        "state of another shape",
    ],
)
@in_virtual_time
async def test_a_room_that_cannot_be_read_is_set_aside_and_the_others_come_back(
    pace: Pace, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    rooms = [table(World), table(name="Other"), table(name="Lounge", durability="memory")]
    async with Bench(*rooms, recovery=pace) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob", "other")
        await ada.send(Do("build", ["a", "b"]))
        await ada.room.flush()
        bench.crash()
        damage(bench, ada, how)
        prefix = f"room/{ada.room.id}"
        before = {key: bench.store.value(key) for key in bench.store.keys_of(prefix)}

        await bench.start()
        outcome = await ada.back()
        await bob.send(Say("on"))
        await bob.has_heard("bob:on")
        await a_moment(5.0)

        assert outcome.kind == "reset"
        assert bob.kinds == ["resumed"]
        assert {key: bench.store.value(key) for key in bench.store.keys_of(prefix)} == before
        assert any("is set aside" in record.message and prefix in record.message for record in caplog.records)
        assert bench.server.rooms.get(ada.room.id) is None


@both_paces
@in_virtual_time
async def test_a_game_that_cannot_restore_its_state_has_its_room_set_aside(pace: Pace) -> None:
    async with Bench(table(Fragile), recovery=pace) as bench:
        ada = await bench.sit("ada")
        await ada.send(Do("poison"))
        await ada.room.flush()

        await bench.restart()
        outcome = await ada.back()
        await a_moment()

        assert outcome.kind == "reset"
        assert bench.store.keys_of("room/") == [f"room/{ada.room.id}"]


@both_paces
@in_virtual_time
async def test_a_session_that_cannot_be_read_costs_nobody_else_anything(pace: Pace) -> None:
    async with Bench(table(), recovery=pace) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        await a_moment()
        bench.crash()
        overwrite(bench, f"session/{ada.session.id}", b"\x01noise")

        await bench.start()
        outcome = await ada.back()
        await bob.send(Say("on"))
        await bob.has_heard("bob:on")

        assert outcome.kind == "reset"
        assert bob.kinds == ["resumed"]
        assert [player.id for player in bench.room(bob).players] == ["ada", "bob"]


@both_paces
@in_virtual_time
async def test_a_session_without_a_seat_that_cannot_be_read_costs_nobody_else_anything(pace: Pace) -> None:
    async with Bench(table(), recovery=pace) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        await ada.room.leave()
        await a_moment()
        bench.crash()
        key = f"session/{ada.session.id}"
        record = decode_session(bench.store.value(key))
        overwrite(bench, key, encode(msgspec.structs.replace(record, codec="holdfast.v9")))

        await bench.start()
        outcome = await ada.back()
        await bob.send(Say("on"))
        await bob.has_heard("bob:on")

        assert outcome.kind == "reset"
        assert bob.kinds == ["resumed"]


@in_virtual_time
async def test_rooms_that_nobody_asked_for_before_a_stop_are_there_after_it() -> None:
    async with Bench(table(), recovery="lazy") as bench:
        for _ in range(30):
            await bench.server.create_room("table")
        bench.crash()
        await bench.start()

        await bench.stop()
        bench.recovery = "eager"
        await bench.start()

        assert len(bench.server.rooms) == 30


@in_virtual_time
async def test_a_room_that_fails_to_recover_its_timer_goes_on_without_it(caplog: pytest.LogCaptureFixture) -> None:
    class Armed(Table):
        def arm(self, player: object) -> None:
            self.after(1.0, self.ring)
            self.after(1.0, self.odd, "x")

        def odd(self, what: "Missing") -> None:  # type: ignore[name-defined]  # noqa: F821 - the point
            self.story.append("odd")

        def ring(self) -> None:
            self.story.append("ring")

    async with Bench(table(Armed)) as bench:
        ada = await bench.sit("ada")
        await ada.send(Do("arm"))
        await ada.room.flush()
        bench.crash()
        bench.rooms = [table(Table)]

        await bench.start()
        await ada.send(Say("on"))
        await ada.has_heard("ada:on")

        dropped = [record.message for record in caplog.records if "a timer is dropped" in record.message]
        assert any("method=ring" in message for message in dropped)
        assert asyncio.get_running_loop().time() < 60.0
        await until(lambda: ada.session.connected)
