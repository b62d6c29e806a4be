"""Sessions that are idle, or too old; rooms of one player; wrong passwords and codes."""

import pytest

from holdfast import Limits, Reason, SessionEnded, Throttled
from holdfast.core.reasons import CLOSE_CODES
from holdfast.schemas.frames import Ack, Ping, Pong
from holdfast.testing import FaultyStore, MemoryServer
from tests.server.durability.bench import in_virtual_time, until
from tests.server.limits.street import ELSEWHERE, Guest, Hall, Say, Town, later, patient, town


async def answering_pings(guest: Guest, seconds: float) -> None:
    """Show signs of life, and nothing else."""
    for _ in range(int(seconds)):
        await later(1.0)
        for ping in guest.client.all_heard(Ping)[-1:]:
            guest.client.say(Pong(ping.id, ping.channel, 0))


# Idle sessions


@in_virtual_time
async def test_a_session_whose_client_only_answers_pings_ends_as_idle() -> None:
    async with town(idle_s=60.0, ping_s=5.0, silence_s=16.0) as server:
        ada = await server.seated()

        await answering_pings(ada, 55.0)
        assert len(server.sessions) == 1
        await answering_pings(ada, 15.0)

        close = await ada.client.closed()
        assert (close.code, close.reason) == (CLOSE_CODES[Reason.IDLE], Reason.IDLE)
        assert len(server.sessions) == 0


@pytest.mark.parametrize("ping_s", [0.5, 45.0, 3_600.0])
@in_virtual_time
async def test_an_idle_session_ends_at_its_time_however_often_it_is_pinged(ping_s: float) -> None:
    async with town(idle_s=60.0, ping_s=ping_s, silence_s=20_000.0) as server:
        await server.seated()

        await later(59.0)
        assert len(server.sessions) == 1
        await later(2.0)

        assert len(server.sessions) == 0


@in_virtual_time
async def test_whoever_reads_is_not_idle() -> None:
    async with town(idle_s=60.0, ping_s=5.0, silence_s=20_000.0) as server:
        ada, bob = await server.seated("ada"), await server.seated("bob")

        for seq in range(1, 6):
            server.machine.call(server.hall().broadcast, Say(seq))
            await later(30.0)
            ada.client.say(Ack(1, seq))
        await later(1.0)

        assert [session.player_id for session in server.sessions] == ["ada"]
        assert (await bob.client.closed()).reason == Reason.IDLE


@in_virtual_time
async def test_an_idle_client_stays_away() -> None:
    async with MemoryServer([Hall], limits=Limits(idle_s=60.0)) as server:
        ada = await server.connect("ada")
        await ada.join_or_create("hall")

        await until(lambda: len(server.sessions) == 0, within_s=61.0)
        await later(600.0)

        assert len(server.sessions) == 0
        assert server.counters.sessions_ended == 1
        with pytest.raises(SessionEnded) as ended:
            await ada.search("hall")
        assert ended.value.reason == Reason.IDLE


@pytest.mark.parametrize("what", ["message", "latest", "request"])
@in_virtual_time
async def test_messages_and_requests_keep_a_session_alive(what: str) -> None:
    async with town(idle_s=60.0, ping_s=5.0, silence_s=16.0) as server:
        ada = await server.seated()

        for _ in range(5):
            await answering_pings(ada, 30.0)
            match what:
                case "message":
                    ada.say()
                case "latest":
                    ada.send_latest()
                case _:
                    await ada.client.request("search")

        assert len(server.sessions) == 1


@in_virtual_time
async def test_zero_means_that_nobody_is_ever_idle() -> None:
    async with town(idle_s=0.0, ping_s=5.0, silence_s=16.0) as server:
        ada = await server.seated()

        await answering_pings(ada, 600.0)

        assert len(server.sessions) == 1


@in_virtual_time
async def test_an_agent_is_never_idle_and_never_too_old() -> None:
    async with town(idle_s=60.0, session_age_max_s=60.0, ping_s=5.0) as server:
        server.machine.call(server.open_agent, "npc")

        await later(600.0)

        assert len(server.sessions) == 1


# Old sessions


@in_virtual_time
async def test_a_session_ends_when_it_is_too_old_however_much_it_says() -> None:
    async with town(session_age_max_s=60.0, ping_s=5.0, silence_s=16.0) as server:
        ada = await server.seated()

        for _ in range(14):
            ada.say()
            await answering_pings(ada, 5.0)

        close = await ada.client.closed()
        assert (close.code, close.reason) == (CLOSE_CODES[Reason.TOO_OLD], Reason.TOO_OLD)


@in_virtual_time
async def test_coming_back_does_not_make_a_session_younger() -> None:
    async with town(session_age_max_s=60.0, ping_s=5.0, silence_s=16.0) as server:
        ada = await server.seated()
        await answering_pings(ada, 50.0)
        ada.client.cut()
        await later()

        back = await server.knock()
        ada.welcome = await back.resume(ada.welcome)
        ada.client = back
        await answering_pings(ada, 15.0)

        assert (await back.closed()).reason == Reason.TOO_OLD


@in_virtual_time
async def test_a_crash_does_not_make_a_lasting_session_younger() -> None:
    class Lasting(Hall):
        kind = "lasting"
        durability = "commit"

    limits = patient(session_age_max_s=60.0, ping_s=5.0, silence_s=16.0)
    server = Town(limits, rooms=[Lasting], store=FaultyStore())
    async with server:
        # Virtual time begins at 0, which stands for a time that is not known.
        await later(1.0)
        ada = await server.connect("ada")
        await ada.join_or_create("lasting")
        await later(50.0)
        server.crash()
        await server.start()
        await until(lambda: ada.connected)
        assert ada.outcome is not None
        assert ada.outcome.kind == "resumed"

        await later(16.0)

        assert [event.reason for event in server.ended] == [Reason.TOO_OLD]


# Rooms


@in_virtual_time
async def test_a_player_may_have_made_so_many_rooms_that_have_not_ended() -> None:
    async with town(rooms_per_player_max=2) as server:
        ada, again = await server.guest("ada"), await server.guest("ada")
        made = [await ada.client.request("create", kind="hall") for _ in range(2)]

        for guest in (ada, again):
            reply = await guest.client.request("create", kind="hall")
            assert reply.problem is not None
            assert reply.problem.code == "throttled"

        assert server.limits_told() == [("rooms_per_player_max", "refused")]
        assert all(reply.problem is None for reply in made)
        bob = await server.guest("bob")
        assert (await bob.client.request("create", kind="hall")).problem is None


@in_virtual_time
async def test_a_room_that_has_ended_makes_space_for_another() -> None:
    async with town(rooms_per_player_max=1, unjoined_s=10.0) as server:
        ada = await server.guest()
        await ada.client.request("create", kind="hall")

        await until(lambda: len(server.rooms) == 0)

        assert (await ada.client.request("create", kind="hall")).problem is None


@in_virtual_time
async def test_a_room_that_could_not_be_made_does_not_count() -> None:
    async with town(rooms_per_player_max=1) as server:
        ada = await server.guest()

        refused = await ada.client.request("create", kind="hall", properties={"": 1})

        assert refused.problem is not None
        assert (await ada.client.request("create", kind="hall")).problem is None


@in_virtual_time
async def test_who_has_made_too_many_may_still_join_the_others() -> None:
    async with town(rooms_per_player_max=1) as server:
        ada, bob = await server.guest("ada"), await server.guest("bob")
        await ada.client.request("create", kind="hall", visibility="private")
        refused = await ada.client.request("join_or_create", kind="hall")
        assert refused.problem is not None

        await bob.client.join("hall")

        assert (await ada.client.request("join_or_create", kind="hall")).problem is None


@in_virtual_time
async def test_the_server_itself_and_its_agents_may_make_any_number_of_rooms() -> None:
    async with town(rooms_per_player_max=1) as server:
        for _ in range(3):
            await server.create_room("hall")

        async def make() -> None:
            agent = server.open_agent("npc")
            for _ in range(3):
                await agent.create("hall")

        await server.machine.do(make())

        assert len(server.rooms) == 6


@in_virtual_time
async def test_rooms_that_came_back_from_the_store_count_too() -> None:
    class Lasting(Hall):
        kind = "lasting"
        durability = "commit"

    store = FaultyStore()
    limits = patient(rooms_per_player_max=1, unjoined_s=3600.0)
    async with Town(limits, rooms=[Lasting], store=store) as server:
        ada = await server.connect("ada")
        await ada.create("lasting")
        server.crash()
        await server.start()

        again = await server.connect("ada")

        with pytest.raises(Throttled):
            await again.create("lasting")


# Guesses


@in_virtual_time
async def test_wrong_guesses_of_one_address_count_whoever_makes_them() -> None:
    async with town(wrong_guesses_max=5, guesses_per_address_burst=8, guesses_per_address_per_s=0.05) as server:
        host = await server.guest("host", ELSEWHERE)
        made = await host.client.request("create", kind="hall", password="sesame")
        problems = []

        for number in range(12):
            guest = await server.guest(f"guest {number}")
            reply = await guest.client.request("join", room=made.result["id"], password=f"guess {number}")
            assert reply.problem is not None
            problems.append(reply.problem.code)

        assert problems == ["wrong_password"] * 8 + ["throttled"] * 4
        assert ("guesses_per_address_per_s", "refused") in server.limits_told()
        bob = await server.guest("bob", ELSEWHERE)
        assert (await bob.client.request("join", room=made.result["id"], password="sesame")).problem is None


@in_virtual_time
async def test_an_address_may_guess_again_after_a_while() -> None:
    async with town(wrong_guesses_max=5, guesses_per_address_burst=2, guesses_per_address_per_s=0.05) as server:
        host = await server.guest("host", ELSEWHERE)
        made = await host.client.request("create", kind="hall")
        guest = await server.guest()
        for _ in range(2):
            await guest.client.request("join", code="AAAAAA")
        refused = await guest.client.request("join", code=made.result["code"])
        assert refused.problem is not None

        await later(20.0)

        assert (await guest.client.request("join", code=made.result["code"])).problem is None
