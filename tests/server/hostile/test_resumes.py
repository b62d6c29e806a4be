from contextlib import AsyncExitStack

import pytest

from holdfast import Server, Tcp, WebSocket
from tests.server.foreign import DOORS, JSON, MSGPACK, Door, Foreigner
from tests.server.hostile.peers import Seated, closed
from tests.server.hostile_world import Hall, World

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Coming back


async def test_a_wrong_token_opens_nothing(world: World, door: Door, seated: Seated) -> None:
    async with world.enter(door) as thief:
        await thief.say(["hello", None, {"session": seated.foreigner.welcome[1], "token": "x" * 43}])

        assert await closed(thief) == (4101, "expired")

    await seated.say(1, 11)
    assert (await seated.foreigner.message("said"))[5] == {"n": 11}


async def test_an_unknown_session_opens_nothing(stranger: Foreigner) -> None:
    await stranger.say(["hello", None, {"session": "nobody", "token": "x" * 43}])

    assert await closed(stranger) == (4101, "expired")


async def test_whoever_cannot_resume_but_can_sign_in_begins_anew_and_is_told(stranger: Foreigner) -> None:
    await stranger.say(["hello", {"scheme": "guest"}, {"session": "nobody", "token": "x" * 43}])

    assert (await stranger.hear("welcome"))[4] == {"kind": "reset", "reason": "expired"}


async def test_a_used_token_revokes_the_session_for_both(world: World, door: Door, guest: Foreigner) -> None:
    async with AsyncExitStack() as stack:
        owner = await stack.enter_async_context(world.enter(door))
        await owner.come_back(guest.welcome)
        assert await closed(guest) == (4209, "superseded")
        assert (await owner.ask(1, "search", {}))[3] is None

        thief = await stack.enter_async_context(world.enter(door))
        await thief.say(["hello", None, {"session": guest.welcome[1], "token": guest.welcome[3]}])

        assert await closed(thief) == (4103, "token_reused")
        assert await closed(owner) == (4103, "token_reused")
        late = await stack.enter_async_context(world.enter(door))
        await late.say(["hello", None, {"session": owner.welcome[1], "token": owner.welcome[3]}])
        assert await closed(late) == (4101, "expired")


async def test_a_token_whose_answer_was_lost_is_still_good(world: World, door: Door, guest: Foreigner) -> None:
    async with world.enter(door) as unlucky, world.enter(door) as lucky:
        await unlucky.come_back(guest.welcome)

        welcome = await lucky.come_back(guest.welcome)

        assert welcome[4]["kind"] == "resumed"
        assert await closed(unlucky) == (4209, "superseded")


async def test_a_session_does_not_change_its_codec(world: World, door: Door, guest: Foreigner) -> None:
    other = Door(door.transport, JSON if door.codec == MSGPACK else MSGPACK)
    async with world.enter(other) as peer:
        await peer.say(["hello", None, {"session": guest.welcome[1], "token": guest.welcome[3]}])

        assert await closed(peer) == (4202, "protocol")
    assert (await guest.ask(1, "search", {}))[3] is None


async def test_a_session_may_change_its_transport(world: World, door: Door, guest: Foreigner) -> None:
    other = Door("tcp" if door.transport == "websocket" else "websocket", door.codec)
    async with world.enter(other) as peer:
        assert (await peer.come_back(guest.welcome))[4]["kind"] == "resumed"


@pytest.mark.parametrize(
    "position",
    [{"generation": 1, "received": 2**53 - 1}, {"generation": 99, "received": 0}, {"generation": 1}],
    ids=["what was never sent", "a generation that never was", "nothing at all"],
)
async def test_whoever_claims_what_cannot_be_is_given_the_state_anew(
    world: World, door: Door, seated: Seated, position: dict[str, int]
) -> None:
    async with world.enter(door) as again:
        welcome = await again.come_back(seated.foreigner.welcome, {"channel": seated.channel, **position})

        assert welcome[4]["kind"] == "resynced"
        assert [info["generation"] for info in welcome[6]] == [2]
        assert (await again.hear("data"))[2] == 1


async def test_positions_on_channels_that_are_not_ours_are_passed_over(
    world: World, door: Door, guest: Foreigner
) -> None:
    async with world.enter(door) as again:
        welcome = await again.come_back(
            guest.welcome, *({"channel": n, "generation": 1, "received": 5} for n in range(8))
        )

        assert (welcome[4]["kind"], welcome[6]) == ("resumed", [])


async def test_more_positions_than_a_session_has_channels_are_stopped(
    world: World, door: Door, guest: Foreigner
) -> None:
    positions = [{"channel": n, "generation": 1, "received": 0} for n in range(9)]
    async with world.enter(door) as again:
        await again.say(
            ["hello", None, {"session": guest.welcome[1], "token": guest.welcome[3], "positions": positions}]
        )

        assert await closed(again) == (4202, "protocol")


# After the end


async def test_what_follows_a_bye_is_not_heard_and_holds_up_nobody(world: World, seated: Seated) -> None:
    peer = seated.foreigner

    await peer.say(["bye", "enough"], ["data", seated.channel, 1, 0, "say", {"n": 99}], ["hello", {}])

    assert await closed(peer) == (4200, "bye")
    assert world.said_by(peer) == []


async def test_who_only_listens_hears_the_room_after_somebody_elses_bye(subtests: pytest.Subtests) -> None:
    """Nobody else may speak here: a payload would set right what a bye had left in disorder."""
    async with Server([Hall], listen=[WebSocket(port=0), Tcp(port=0)]) as server:
        hall = await server.create_room("hall")
        for door in DOORS:
            async with door.enter(server.addresses) as listener, door.enter(server.addresses) as leaver:
                await listener.sit_down(hall.id)
                await leaver.sign_in()

                await leaver.say(["bye"], ["ack", 0, 0])
                await leaver.hear_end()

                with subtests.test(door=str(door)):
                    first = await listener.message("turned")
                    later = [await listener.message("turned") for _ in range(20)]
                    assert [frame[2] - first[2] for frame in later] == list(range(1, 21))
