"""A test of a game fails if the game's code raised, though the server contained it."""

import asyncio

import pytest

from holdfast import Message, Player, PlayerData, Refused, Room, on
from holdfast.events import Dropped
from holdfast.testing import GameFailed, MemoryServer, run


class Do(Message):
    what: str


class Did(Message):
    what: str


class Workshop(Room[PlayerData]):
    @on(Do)
    def do(self, player: Player[PlayerData], do: Do) -> None:
        match do.what:
            case "raise":
                raise LookupError("no such tool")
            case "later":
                self.after(5.0, self.late)
            case "refuse":
                raise Refused("not now")
            case _:
                pass
        player.send(Did(do.what))

    def late(self) -> None:
        raise ZeroDivisionError("in a timer")


async def play(what: str, server: MemoryServer, *, then: Exception | None = None) -> None:
    async with server:
        ada = await server.connect("ada", messages=[Did])
        room = await ada.join_or_create("workshop")
        await room.send(Do(what))
        await room.receive()
        if then is not None:
            raise then


def test_a_test_fails_when_a_handler_raised_and_is_told_where() -> None:
    with pytest.raises(GameFailed, match="allow_errors") as failed:
        run(play("raise", MemoryServer([Workshop])))

    (error,) = failed.value.exceptions
    assert isinstance(error, LookupError)
    (note,) = error.__notes__
    assert "the handler of 'do' of workshop" in note
    assert "player ada" in note
    assert "no such tool" in failed.value.explained()


def test_also_if_a_timer_did_after_everybody_had_what_they_wanted() -> None:
    async def main() -> None:
        server = MemoryServer([Workshop])
        async with server:
            ada = await server.connect("ada", messages=[Did])
            room = await ada.join_or_create("workshop")
            await room.send(Do("later"))
            await room.receive()
            server.link(ada).cut()
            await room.send(Do("fine"))
            await room.receive()
            await room.send(Do("later"))
            await room.receive()
            await asyncio.sleep(6.0)

    with pytest.raises(GameFailed) as failed:
        run(main())

    assert [type(error) for error in failed.value.exceptions] == [ZeroDivisionError, ZeroDivisionError]


def test_a_handler_of_an_event_counts_too() -> None:
    def heard(_: Dropped) -> None:
        raise LookupError("in a handler of an event")

    async def main() -> None:
        server = MemoryServer([Workshop])
        server.on(Dropped, heard)
        async with server:
            ada = await server.connect("ada")
            await ada.join_or_create("workshop")
            server.link(ada).cut()
            await ada.search("workshop")

    with pytest.raises(GameFailed, match=r"the game.s code failed"):
        run(main())


@pytest.mark.parametrize("allowed", [LookupError, (LookupError, ZeroDivisionError), Exception])
def test_what_a_test_provokes_is_allowed_by_its_type(allowed: type[Exception]) -> None:
    server = MemoryServer([Workshop], allow_errors=allowed)

    run(play("raise", server))

    assert [type(error) for error in server.failures.errors] == [LookupError]


def test_another_type_is_not_allowed_with_it() -> None:
    with pytest.raises(GameFailed):
        run(play("raise", MemoryServer([Workshop], allow_errors=ZeroDivisionError)))


def test_a_refusal_is_no_failure() -> None:
    run(play("refuse", MemoryServer([Workshop])))


def test_what_the_test_itself_raises_comes_first_and_has_the_failure_as_a_note() -> None:
    with pytest.raises(AssertionError, match="of the test") as raised:
        run(play("raise", MemoryServer([Workshop]), then=AssertionError("of the test")))

    (note,) = raised.value.__notes__
    assert "LookupError: no such tool" in note


def test_a_server_that_is_stopped_by_hand_fails_there() -> None:
    async def main() -> None:
        server = MemoryServer([Workshop])
        await server.start()
        ada = await server.connect("ada", messages=[Did])
        room = await ada.join_or_create("workshop")
        await room.send(Do("raise"))
        await room.receive()
        await ada.close()
        with pytest.raises(GameFailed):
            await server.stop()
        # Told once.
        await server.stop()

    run(main())


def test_a_hook_that_fails_all_the_time_is_shown_a_few_times() -> None:
    async def main() -> None:
        async with MemoryServer([Workshop]) as server:
            ada = await server.connect("ada", messages=[Did])
            room = await ada.join_or_create("workshop")
            for _ in range(50):
                await room.send(Do("raise"))
                await room.receive()

    with pytest.raises(GameFailed, match="30 later ones are not shown") as failed:
        run(main())

    assert len(failed.value.exceptions) == 20
