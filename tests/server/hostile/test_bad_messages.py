from typing import Any

import pytest

from holdfast import Limits
from tests.server.foreign import DOORS, MSGPACK, Door, Foreigner
from tests.server.hostile.peers import Seated, closed
from tests.server.hostile_world import Hall, World, a_world

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Sequence numbers


@pytest.mark.parametrize("name", ["ack", "pong", "data"])
async def test_what_was_never_sent_cannot_be_acknowledged(seated: Seated, name: str) -> None:
    channel, peer = seated.channel, seated.foreigner
    frame = {"ack": ["ack", channel], "pong": ["pong", 1, channel], "data": ["data", channel, 1]}[name]
    frame += [2**53 - 1, "say", {"n": 1}][: 3 if name == "data" else 1]

    await peer.say(frame)

    assert await closed(peer) == (4002, "sequence")


async def test_an_acknowledgement_for_a_channel_that_is_not_ours_is_nothing(guest: Foreigner) -> None:
    await guest.say(["ack", 7, 99], ["pong", 99, 7, 99])

    assert (await guest.ask(1, "search", {}))[3] is None


async def test_a_gap_closes_the_connection_and_the_session_resumes_with_nothing_lost(
    world: World, door: Door, seated: Seated
) -> None:
    peer = seated.foreigner
    await seated.say(1, 11)
    said = await peer.message("said")

    await seated.say(3, 33)
    assert await closed(peer) == (4002, "sequence")

    async with world.enter(door) as again:
        position = {"channel": seated.channel, "generation": 1, "received": said[2]}
        welcome = await again.come_back(peer.welcome, position)
        await again.say(
            ["data", seated.channel, 2, said[2], "say", {"n": 22}],
            ["data", seated.channel, 3, said[2], "say", {"n": 33}],
        )
        assert [(await again.message("said"))[5]["n"] for _ in range(2)] == [22, 33]
    assert welcome[4]["kind"] == "resumed"
    assert [(info["channel"], info["applied"]) for info in welcome[6]] == [(seated.channel, 1)]
    assert world.said_by(peer) == [11, 22, 33]


async def test_a_message_that_comes_again_and_again_is_applied_once(world: World, seated: Seated) -> None:
    peer = seated.foreigner
    doubles = world.server.counters.duplicates_ignored
    for _ in range(3):
        await seated.say(1, 11)
    await seated.say(2, 22)
    await peer.message("said")
    await peer.message("said")

    await seated.say(1, 99)
    await seated.say(3, 33)

    # The answer to what came after it: by then the server has read it.
    assert (await peer.message("said"))[5] == {"n": 33}
    assert world.said_by(peer) == [11, 22, 33]
    assert world.server.counters.duplicates_ignored == doubles + 3


async def test_a_repeated_message_in_one_payload_is_applied_once(world: World, seated: Seated) -> None:
    peer = seated.foreigner
    frame = ["data", seated.channel, 1, 0, "say", {"n": 11}]

    await peer.say(frame, frame, frame)

    await peer.hear_ack(seated.channel, 1)
    assert world.said_by(peer) == [11]


async def test_more_messages_than_the_window_close_the_connection(subtests: pytest.Subtests) -> None:
    async with a_world(Limits(window_messages_max=8)) as world:
        for door in DOORS:
            busy = await world.server.create_room("hall")
            assert isinstance(busy, Hall)
            async with world.enter(door) as peer:
                channel = await peer.sit_down(busy.id)

                await peer.say(*(["data", channel, seq, 0, "hold", {}] for seq in range(1, 10)))

                with subtests.test(door=str(door)):
                    assert await closed(peer) == (4002, "sequence")
            busy.released.set()


@pytest.mark.parametrize("away", [-1, 1, 2**53 - 10])
async def test_a_message_for_a_channel_that_never_was_breaks_the_protocol(
    world: World, seated: Seated, away: int
) -> None:
    peer = seated.foreigner

    await peer.say(["data", seated.channel + away, 1, 0, "say", {"n": 99}])

    assert await closed(peer) == (4202, "protocol")
    assert world.said_by(peer) == []


async def test_a_message_without_a_seat_breaks_the_protocol(world: World, guest: Foreigner) -> None:
    await guest.say(["data", 1, 1, 0, "say", {"n": 99}])

    assert await closed(guest) == (4202, "protocol")
    assert world.said_by(guest) == []


async def test_an_unreliable_message_without_a_seat_changes_nothing(world: World, guest: Foreigner) -> None:
    await guest.say(["latest", 1, "say", {"n": 99}])

    assert (await guest.ask(1, "search", {}))[3] is None
    assert world.said_by(guest) == []


async def test_messages_that_were_on_their_way_when_the_seat_was_given_back_change_nothing(
    world: World, seated: Seated
) -> None:
    peer = seated.foreigner

    await peer.say(["request", 2, "leave", {}])
    assert (await peer.message("holdfast.left"))[5]["reason"] == "left"
    await seated.say(1, 99)

    assert (await peer.ask(3, "search", {}))[3] is None
    assert world.said_by(peer) == []


# Messages that the room does not take: each is answered in the stream, and counts as applied


REFUSED_BODIES: dict[str, tuple[str, Any, str]] = {
    "an unknown type": ("fly", {}, "not_found"),
    "a type of ours": ("holdfast.left", {"reason": "kicked"}, "not_found"),
    "a missing field": ("say", {}, "invalid"),
    "a wrong type": ("say", {"n": "one"}, "invalid"),
    "an array": ("say", [1], "invalid"),
    "nothing": ("say", None, "invalid"),
    "a word that is not a choice": ("walk", {"way": "up"}, "invalid"),
    "a long word that is not a choice": ("walk", {"way": "x" * 65_400}, "invalid"),
    "what the game refuses": ("guess", {"text": "no"}, "refused"),
    "what the game refuses at length": ("guess", {"text": "x" * 65_400}, "refused"),
    "a number beyond every limit": ("say", {"n": "BIG"}, "invalid"),
}


async def test_a_message_that_the_room_does_not_take_is_answered_and_the_next_one_is_applied(
    seated: Seated, subtests: pytest.Subtests
) -> None:
    peer, seq = seated.foreigner, 0
    for what, (kind, body, code) in REFUSED_BODIES.items():
        payload = peer.encode([["data", seated.channel, seq + 1, 0, kind, body]])

        await peer.say_bytes(payload.replace(b'"BIG"', b"9" * 6000))
        await seated.say(seq + 2, seq)

        with subtests.test(what):
            refusal = (await peer.message("holdfast.refused"))[5]
            assert (refusal["seq"], refusal["type"], refusal["code"]) == (seq + 1, kind, code)
            assert 0 < len(refusal["message"]) <= 1024
            assert (await peer.message("said"))[5] == {"n": seq}
        seq += 2


@pytest.mark.parametrize("kind", ["say", "walk", "guess"])
async def test_an_unreliable_message_that_the_room_does_not_take_is_dropped(seated: Seated, kind: str) -> None:
    peer = seated.foreigner

    await peer.say(["latest", seated.channel, kind, {"way": "x" * 65_000}], ["latest", seated.channel, "fly", {}])
    await seated.say(1, 11)

    assert (await peer.message("said"))[5] == {"n": 11}


async def test_a_body_of_invalid_text_is_refused(world: World) -> None:
    async with world.enter(Door("tcp", MSGPACK)) as peer:
        channel = await peer.sit_down(world.hall.id)
        frame = peer.encode([["data", channel, 1, 0, "guess", {"text": "!"}]]).replace(b"\xa1!", b"\xa1\xff")

        await peer.say_bytes(frame)

        assert (await peer.message("holdfast.refused"))[5]["code"] == "invalid"
