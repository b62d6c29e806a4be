"""What players are called: asked for at sign-in, changed, checked by the game, told apart in a room, kept."""

from typing import Any, ClassVar

import pytest

from holdfast import Auth, Limits, NameNotAllowed, Player, PlayerData, Reason, Refused, Room, Server, SessionEnded
from holdfast.events import Ended, PlayerJoined, Renamed, SeatTaken, SessionOpened
from holdfast.identity import Guest, Identity
from holdfast.testing import FaultyStore, MemoryServer, Named
from tests.server.durability.bench import a_moment, in_virtual_time, until


class Hall(Room[PlayerData]):
    kind = "hall"
    grace_s = 60.0
    story: ClassVar[list[str]]

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = {}

    def admit(self, player: Player[PlayerData]) -> None:
        self.story.append(f"admit {player.name}")

    def on_join(self, player: Player[PlayerData]) -> None:
        self.story.append(f"join {player.name}")

    def on_rename(self, player: Player[PlayerData], old_name: str) -> None:
        self.story.append(f"{old_name} is {player.name}")

    def on_drop(self, player: Player[PlayerData]) -> None:
        self.story.append(f"drop {player.name}")

    def on_rejoin(self, player: Player[PlayerData]) -> None:
        self.story.append(f"rejoin {player.name}")

    def on_leave(self, player: Player[PlayerData], reason: Reason) -> None:
        self.story.append(f"leave {player.name}")


def hall(**settings: Any) -> type[Hall]:
    return type("Hall", (Hall,), {"story": [], **settings})


def names_in(server: Server) -> dict[str, str]:
    """By player id, what everybody in the only room is called."""
    (room,) = server.rooms
    return {player.id: player.name for player in room.players}


# Asking for a name


@in_virtual_time
async def test_a_name_is_asked_for_at_sign_in_and_the_welcome_says_which_was_accepted() -> None:
    kind = hall()
    async with MemoryServer([kind]) as server:
        ada = await server.connect("ada", name="  Ada   Byron ")
        bob = await server.connect("bob")
        await ada.join_or_create("hall")
        await bob.join_or_create("hall")

        assert (ada.name, bob.name) == ("Ada Byron", "")
        assert names_in(server) == {"ada": "Ada Byron", "bob": "bob"}
        assert kind.story == ["admit Ada Byron", "join Ada Byron", "admit bob", "join bob"]


@in_virtual_time
async def test_a_name_that_is_not_allowed_refuses_the_sign_in_and_says_what_to_do() -> None:
    async with MemoryServer([hall()]) as server:
        for name in ("\u202eadA", "x" * 33):
            with pytest.raises(SessionEnded, match="choose") as refused:
                await server.connect("ada", name=name)
            assert (refused.value.reason, refused.value.problem) == ("refused", "name_not_allowed")

        assert len(server.sessions) == 0
        assert (await server.connect("ada", name="Ada")).name == "Ada"


@in_virtual_time
async def test_a_refused_name_ends_no_other_session_of_the_player() -> None:
    async with MemoryServer([hall()], limits=Limits(sessions_per_player_max=1)) as server:
        first = await server.connect("ada", name="Ada")

        with pytest.raises(SessionEnded):
            await server.connect("ada", name="\x00")

        assert await first.search() == []


@in_virtual_time
async def test_a_guest_whose_new_name_is_refused_is_still_the_same_guest(tmp_path_factory: Any) -> None:
    path = tmp_path_factory.mktemp("names") / "guest.session"
    async with MemoryServer([hall()], auth=[Guest()], check_name=_no_admins) as server:
        first = await server.connect(saved=path, name="Ada")
        guest = first.player_id
        await first.suspend()
        # The session ends meanwhile.
        await until(lambda: len(server.sessions) == 0)

        with pytest.raises(SessionEnded):
            await server.connect(saved=path, name="Admin")
        again = await server.connect(saved=path)

        assert (again.player_id, again.name) == (guest, "Ada")


def _no_admins(name: str, identity: Identity) -> str | None:
    if name.casefold() == "admin" and "staff" not in identity.roles:
        raise Refused("this name is reserved")
    return None


# The listing of a room


@in_virtual_time
async def test_a_room_s_listing_names_its_host_as_they_are_called_there() -> None:
    async with MemoryServer([hall(election="oldest")]) as server:
        eve, bob = await server.connect("eve", name="Eve"), await server.connect("bob", name="Ada")
        ada, guest = await server.connect("ada", name="Ada"), await server.connect("guest")
        room_id = (await ada.create("hall")).id
        await bob.join(room_id)
        await ada.join(room_id)

        (found,) = await eve.search("hall")
        async with eve.watch("hall") as watch:
            await bob.rename("Bob")
            while watch.rooms[room_id].host_name != "Bob":
                await watch.receive()

        assert (found.host, found.host_name) == ("bob", "Ada")
        await until(lambda: bob.room is not None and bob.room.info is not None and bob.room.info.host_name == "Bob")
        assert bob.room is not None
        await bob.room.leave()
        await until(lambda: ada.room is not None and ada.room.info is not None and ada.room.info.host == "ada")
        assert ada.room is not None
        assert ada.room.info is not None
        assert ada.room.info.host_name != "Bob"
        assert (await guest.search("hall"))[0].host_name == "Ada (2)"


# Changing it


@in_virtual_time
async def test_a_player_changes_their_name_and_the_room_hears_of_it() -> None:
    kind = hall()
    renamed: list[Renamed] = []
    async with MemoryServer([kind]) as server:
        server.on(Renamed, renamed.append)
        ada = await server.connect("ada", name="Ada")
        before = await ada.rename("Ada B")
        await ada.join_or_create("hall")

        answer = await ada.rename(" Ada  Lovelace ")
        same = await ada.rename("Ada Lovelace")
        nobody = await ada.rename("")
        await a_moment()

        assert (before, answer, same, nobody, ada.name) == ("Ada B", "Ada Lovelace", "Ada Lovelace", "", "")
        assert kind.story[2:] == ["Ada B is Ada Lovelace", "Ada Lovelace is ada"]
        assert [(event.old_name, event.new_name) for event in renamed] == [
            ("Ada", "Ada B"),
            ("Ada B", "Ada Lovelace"),
            ("Ada Lovelace", ""),
        ]


@in_virtual_time
async def test_a_refused_rename_changes_nothing() -> None:
    kind = hall()
    async with MemoryServer([kind], check_name=_no_admins) as server:
        ada = await server.connect("ada", name="Ada")
        await ada.join_or_create("hall")

        for name in ("Admin", "\x07", "x" * 2000):
            with pytest.raises(NameNotAllowed):
                await ada.rename(name)

        assert ada.name == "Ada"
        assert names_in(server) == {"ada": "Ada"}
        assert len(kind.story) == 2


@in_virtual_time
async def test_a_room_that_has_not_heard_of_a_player_hears_only_the_last_name() -> None:
    kind = hall()
    async with MemoryServer([kind]) as server:
        ada = await server.connect("ada", name="Ada")
        room = await ada.join_or_create("hall")
        await room.leave()

        await ada.rename("Eve")

        assert kind.story == ["admit Ada", "join Ada", "leave Ada"]


# The game's check


@in_virtual_time
async def test_a_game_may_refuse_change_or_give_a_name() -> None:
    asked: list[tuple[str, str]] = []

    def check(name: str, identity: Identity) -> str | None:
        asked.append((name, identity.player_id))
        if name == "rude":
            raise Refused("be nice")
        return f"{name}!" if name else "Somebody"

    async with MemoryServer([hall()], check_name=check) as server:
        ada = await server.connect("ada", name=" Ada ")
        bob = await server.connect("bob")
        await ada.rename("Eve")
        with pytest.raises(NameNotAllowed, match="be nice"):
            await ada.rename("rude")

        assert (ada.name, bob.name) == ("Eve!", "Somebody")
        assert asked == [("Ada", "ada"), ("", "bob"), ("Eve", "ada"), ("rude", "ada")]


@pytest.mark.parametrize("answer", [True, 5, RuntimeError("a bug"), "\x00"], ids=repr)
def test_a_check_that_fails_lets_nobody_in_with_that_name(answer: Any) -> None:
    def check(name: str, identity: Identity) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    @in_virtual_time
    async def play() -> None:
        async with MemoryServer([hall()], check_name=check, allow_errors=Exception) as server:
            with pytest.raises((SessionEnded, OSError)):
                await server.connect("ada", name="Ada", give_up_s=1.0)
            assert len(server.sessions) == 0

    play()


def test_a_check_must_not_wait() -> None:
    async def check(name: str, identity: Identity) -> str:
        return name

    with pytest.raises(TypeError, match="plain function"):
        Server([hall()], listen=[], check_name=check)  # type: ignore[arg-type]


# Look-alikes


@in_virtual_time
async def test_look_alikes_in_a_room_are_told_apart_and_stay_so() -> None:
    kind = hall()
    async with MemoryServer([kind]) as server:
        first = await server.connect("p1", name="Ada")
        room = await first.join_or_create("hall")
        for player, name in (("p2", "ada"), ("p3", "Аdа"), ("p4", "Eve")):
            session = await server.connect(player, name=name)
            await session.join(room.id)
            # What they asked for is what they have; only the room tells them apart.
            assert session.name == name

        assert names_in(server) == {"p1": "Ada", "p2": "ada (2)", "p3": "Аdа (3)", "p4": "Eve"}
        await room.leave()
        assert names_in(server) == {"p2": "ada (2)", "p3": "Аdа (3)", "p4": "Eve"}
        await first.join(room.id)
        assert names_in(server)["p1"] == "Ada"
        await first.rename("Eve")
        assert names_in(server)["p1"] == "Eve (2)"
        assert kind.story[-1] == "Ada is Eve (2)"


@in_virtual_time
async def test_nobody_is_called_like_the_id_of_a_player_without_a_name() -> None:
    async with MemoryServer([hall()]) as server:
        bob, eve, ada = (
            await server.connect("bob"),
            await server.connect("eve", name="Bob"),
            await server.connect("ada"),
        )
        for session in (bob, eve, ada):
            await session.join_or_create("hall")

        assert names_in(server) == {"bob": "bob", "eve": "Bob (2)", "ada": "ada"}


@in_virtual_time
async def test_one_player_on_two_seats_has_one_name() -> None:
    async with MemoryServer([hall(duplicate="allow")]) as server:
        one, other = await server.connect("ada", name="Ada"), await server.connect("ada", name="Ada")
        room = await one.join_or_create("hall")
        await other.join(room.id)

        (there,) = server.rooms
        assert [player.name for player in there.players] == ["Ada", "Ada"]


# How long it lasts


@in_virtual_time
async def test_a_name_survives_a_drop_and_a_lost_answer() -> None:
    kind = hall()
    async with MemoryServer([kind]) as server:
        ada = await server.connect("ada", name="Ada")
        await ada.join_or_create("hall")
        ada.cut()
        await until(lambda: ada.connected and ada.drops == 1)
        assert (ada.name, names_in(server)) == ("Ada", {"ada": "Ada"})

        await ada.rename("Eve")
        ada.cut()
        await until(lambda: ada.connected and ada.drops == 2)

        assert (ada.name, names_in(server)) == ("Eve", {"ada": "Eve"})


@in_virtual_time
async def test_a_session_that_is_reset_asks_for_the_last_name() -> None:
    async with MemoryServer([hall()], grace_s=1.0) as server:
        ada = await server.connect("ada", name="Ada")
        await ada.rename("Eve")
        server.crash()
        await server.start()
        await until(lambda: ada.connected)

        assert ada.outcome is not None
        assert (ada.outcome.kind, ada.name) == ("reset", "Eve")


@in_virtual_time
async def test_a_second_session_has_the_name_of_the_first_and_takes_it_over_with_the_seat() -> None:
    kind = hall()
    async with MemoryServer([kind]) as server:
        first = await server.connect("ada", name="Ada")
        room = await first.join_or_create("hall")
        second = await server.connect("ada")
        await second.join(room.id)

        assert second.name == "Ada"
        assert names_in(server) == {"ada": "Ada"}
        third = await server.connect("ada", name="Ada L")
        await third.join(room.id)
        assert names_in(server) == {"ada": "Ada L"}
        assert kind.story[-3:] == ["drop Ada", "Ada is Ada L", "rejoin Ada L"]


@in_virtual_time
async def test_a_saved_session_goes_on_with_its_name(tmp_path_factory: Any) -> None:
    path = tmp_path_factory.mktemp("names") / "ada.session"
    async with MemoryServer([hall()]) as server:
        first = await server.connect("ada", saved=path, name="Ada")
        await first.rename("Eve")
        await first.suspend()

        again = await server.connect(saved=path, name="Bob")

        assert again.outcome is not None
        assert (again.outcome.kind, again.name) == ("resumed", "Eve")


@pytest.mark.parametrize("durability", ["commit", "checkpoint"])
def test_names_survive_a_crash_told_apart_as_before(durability: str) -> None:
    @in_virtual_time
    async def play() -> None:
        kind = hall(durability=durability, checkpoint_s=1.0)
        async with MemoryServer([kind], store=FaultyStore()) as server:
            one, two = await server.connect("p1", name="Ada"), await server.connect("p2", name="Ada")
            room = await one.join_or_create("hall")
            await two.join(room.id)
            await room.leave()
            await two.rename("ADA")
            await one.join(room.id)
            before = names_in(server)
            await a_moment(5.0)

            server.crash()
            await server.start()
            recovered = names_in(server)
            await until(lambda: one.connected and two.connected)
            await one.rename("Grace")
            await a_moment(5.0)
            server.crash()
            await server.start()
            await until(lambda: one.connected and two.connected)

            assert before == recovered == {"p1": "Ada (2)", "p2": "ADA"}
            assert names_in(server) == {"p1": "Grace", "p2": "ADA"}
            assert (one.name, two.name) == ("Grace", "ADA")

    play()


# Where it is shown


@in_virtual_time
async def test_operators_see_names_beside_ids_and_find_players_by_them() -> None:
    async with MemoryServer([hall()], auth=[Named()]) as server:
        ada = await server.connect("p1", name="Ada")
        await server.connect("p2", name="Eve", auth=Auth("name", "p2"))
        room = await ada.join_or_create("hall")
        await ada.reserve(room.id, players=["p2", "p3"])
        operate = server.operate

        assert operate.sessions.get(ada.id).name == "Ada"
        assert [each.player for each in operate.sessions.list(search="aDА", limit=9, cursor="").sessions] == ["p1"]
        assert [(each.id, each.name) for each in operate.players.list(search="ev", limit=9, cursor="").players] == [
            ("p2", "Eve")
        ]
        assert operate.players.list(search="nobody", limit=9, cursor="").players == []
        assert [(seat.player, seat.name) for seat in operate.rooms.seats(room.id)] == [
            ("p1", "Ada"),
            ("p2", "Eve"),
            ("p3", ""),
        ]
        assert [player.name for player in operate.rooms.state(room.id).players] == ["Ada"]


@in_virtual_time
async def test_events_timelines_and_explanations_have_the_name() -> None:
    told: list[Any] = []
    async with MemoryServer([hall()]) as server:
        for kind in (SessionOpened, PlayerJoined, SeatTaken, Ended):
            server.on(kind, told.append)
        ada = await server.connect("p1", name="Ada")
        await ada.join_or_create("hall")
        await ada.rename("Grace")
        live = await server.operate.timelines.of(ada.id)
        await ada.close()
        await a_moment()
        ended = await server.operate.timelines.of(ada.id)

    assert [event.player_name for event in told] == ["Ada", "Ada", "Ada", "Grace"]
    assert (live.name, ended.name) == ("Grace", "Grace")
    assert live.explanation.startswith("“Grace” has been connected since")
    assert "changed their name from 'Ada' to 'Grace'" in [entry.text for entry in live.entries]
