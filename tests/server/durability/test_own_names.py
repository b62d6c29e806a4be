"""A game's own attributes harm nothing, whatever they are called: the engine keeps its state elsewhere."""

from typing import Any

import pytest

from holdfast import Player, Reason, Room
from holdfast.core.room_context import RoomContext, Seats
from holdfast.core.session import Seat, Session
from holdfast.server.rooms.runner import RoomRunner
from tests.server.durability.bench import Bench, in_virtual_time, until
from tests.server.durability.rooms import Do, Hero, Say, Table, table

WORDS = """
    players player seats seat host runner context listing reservations line waitlist outlet session sessions number
    turns timers node server limits entry handlers data_type writer committer persistence happened add_seat check_open
    open_seats is_closing properties objects phase random successor room kind channel connection codec queue tasks loop
    clock store record dirty joining lock state data id
"""
# Documented, though no attributes of the class.
OURS = {"state", "kind", "data", "id"}


def names(shown: type[Any]) -> list[str]:
    """Every name of the engine's own classes and some more, public, private and mangled, that `shown` does not have."""
    words = set(WORDS.split()) | {
        name.strip("_") for engine in (RoomContext, RoomRunner, Seat, Seats, Session) for name in dir(engine)
    }
    spelled = {f"{start}{word}" for word in words for start in ("", "_", f"_{shown.__name__}__")}
    return sorted(name for name in spelled if name not in OURS and not hasattr(shown, name))


class Owner(Table):
    """Sets every name that it can think of, on itself and on its players."""

    def on_create(self, config: dict[str, Any]) -> None:
        super().on_create(config)
        self.clutter(self, Room)

    def on_recover(self) -> None:
        super().on_recover()
        self.clutter(self, Room)
        for player in self.players:
            self.clutter(player, Player)

    def on_join(self, player: Player[Hero]) -> None:
        super().on_join(player)
        self.clutter(player, Player)
        self.own(player, f"sword-{player.id}")
        self.name_host(self.host or player)

    @staticmethod
    def clutter(mine: object, shown: type[Any]) -> None:
        for name in names(shown):
            setattr(mine, name, object())

    def on_leave(self, player: Player[Hero], reason: Reason) -> None:
        super().on_leave(player, reason)
        self.properties["left"] = len(self.state.left)


@pytest.mark.parametrize("durability", ["memory", "checkpoint", "commit"])
@in_virtual_time
async def test_a_game_may_use_every_name_that_is_not_documented(durability: str) -> None:
    kind = table(Owner, durability=durability, checkpoint_s=0.1)
    async with Bench(kind) as bench:
        ada, bob, cleo = [await bench.sit(name) for name in ("ada", "bob", "cleo")]
        await ada.send(Say("one"))
        await bob.has_heard("ada:one")

        bench.link(bob).cut()
        await bob.back()
        await bob.send(Say("two"))
        await ada.has_heard("bob:two")

        if durability != "memory":
            await ada.room.flush()
            await bench.stop()
            await bench.start()
            await cleo.back()
        await ada.send(Do("kick_one", ["cleo"]), Say("three"))
        await bob.has_heard("ada:three")
        if durability == "commit":
            await bench.restart()
        await bob.send(Say("four"))
        await ada.has_heard("bob:four")

        room = bench.room(ada)
        assert [player.id for player in room.players] == ["ada", "bob"]
        assert [(player.data.count, player.owned) for player in room.players] == [
            (2, {"sword-ada"}),
            (2, {"sword-bob"}),
        ]
        assert room.host is room.player("ada")
        assert room.properties == {"left": 1}
        assert room.state.said == ["ada:one", "bob:two", "ada:three", "bob:four"]
        assert [cleo.room.left is not None, ada.room.left, bob.room.left] == [True, None, None]
        await ada.room.leave()
        await until(lambda: kind.story[-1] == "leave ada left")
        await ada.session.close()
        room.close()
        await until(lambda: len(bench.server.rooms) == 0)
