"""From the cable to the sentence: something happens to a player, and who operates the server is told what it was."""

import asyncio

import pytest

from holdfast import NotFound, Reason, Storage
from holdfast.schemas.events import Dropped, Ended
from holdfast.schemas.frames import Hello, Resume
from holdfast.schemas.session import TimelineInfo
from holdfast.server.durability.recovery import Pace
from holdfast.testing import FaultyStore
from tests.observability.scene import Say, Scene, Visitor, hall, scene
from tests.server.durability.bench import in_virtual_time, until


async def explained(play: Scene, visitor: Visitor) -> TimelineInfo:
    return await play.operator().timelines.of(visitor.session_id)


def texts(timeline: TimelineInfo) -> list[str]:
    return [entry.text for entry in timeline.entries]


@in_virtual_time
async def test_a_link_that_broke_and_a_player_who_came_back() -> None:
    async with scene() as play:
        ada = await play.seated()
        ada.client.cut()
        await asyncio.sleep(3.0)
        away = await explained(play, ada)
        await play.back(ada)
        back = await explained(play, ada)

        assert (away.status, away.reason) == ("disconnected", Reason.DROPPED)
        assert away.explanation.startswith("The connection was lost without a close at 00:00:")
        assert away.explanation.endswith("The seat is kept for 30 s from then, and they have not come back yet.")
        assert (back.status, back.player, back.session) == ("connected", "ada", ada.session_id)
        assert "They were back after 3 s; no message had to be sent again, and nothing was lost." in back.explanation
        assert [entry.type for entry in back.entries] == [
            "session.opened",
            "session.authenticated",
            "player.joined",
            "session.dropped",
            "session.resumed",
        ]
        assert texts(back)[2] == f"took a seat in room {ada.room_id} (hall)"
        assert back.entries[3].body["reason"] == Reason.DROPPED


@in_virtual_time
async def test_a_player_who_went_silent_and_never_came_back() -> None:
    async with scene(ping_s=5.0, silence_s=16.0) as play:
        ada = await play.seated()
        await until(lambda: play.of(Ended))

        told = await explained(play, ada)
        assert (told.status, told.reason) == ("ended", Reason.GRACE_ENDED)
        assert told.explanation.startswith("The player's connection went silent: nothing was heard for ")
        assert "pings unanswered), so it was cut at 00:00:" in told.explanation
        assert "The seat was kept for 30 s; they did not come back, so the session ended at 00:" in told.explanation
        assert "Limits.silence_s" in told.advice
        assert texts(told)[-1] == "the session ended (grace_ended)"


@in_virtual_time
async def test_a_player_who_was_kicked() -> None:
    async with scene() as play:
        ada, bob = await play.seated("ada"), await play.seated("bob")
        await play.server.machine.do(play.operator().rooms.kick(ada.room_id, "ada", "be nice"))
        await play.server.machine.do(play.operator().sessions.end(bob.session_id, "cheating"))
        await play.settled()

        out, gone = await explained(play, ada), await explained(play, bob)
        assert (out.status, out.reason) == ("connected", Reason.KICKED)
        assert out.explanation.endswith("the game or an operator removed them (kicked): “be nice”.")
        assert (gone.status, gone.reason) == ("ended", Reason.KICKED)
        assert gone.explanation.startswith("The game or an operator ended the session at")
        assert gone.explanation.endswith("(kicked): “cheating”.")


@in_virtual_time
async def test_a_player_who_flooded() -> None:
    async with scene(messages_burst=5, messages_per_s=1.0, violations_warned_max=1, violations_max=2) as play:
        ada = await play.seated()
        for seq in range(1, 40):
            ada.client.send(seq, Say("again"))
        await until(lambda: play.of(Dropped))

        told = await explained(play, ada)
        assert (told.status, told.reason) == ("disconnected", Reason.FLOODING)
        assert told.explanation.startswith("The client sent far more than is allowed, so its connection was closed at")
        assert "They reached the limit messages_per_s" in told.explanation
        assert any(text.startswith("reached the limit messages_per_s") for text in texts(told))


@in_virtual_time
async def test_a_player_who_came_again_from_elsewhere() -> None:
    async with scene() as play:
        first, second = await play.seated(), await play.seated()

        told = await explained(play, first)
        assert (told.status, told.reason) == ("ended", Reason.SUPERSEDED)
        assert told.explanation.startswith("The same player signed in again, and the newer session took over at")
        assert (await play.operator().timelines.latest_of("ada")).session == second.session_id


@in_virtual_time
async def test_a_connection_that_a_newer_one_took_over_from() -> None:
    async with scene() as play:
        ada = await play.enter()
        await play.back(ada)

        told = await explained(play, ada)
        assert (told.status, told.reason, told.advice) == ("connected", "", "")
        assert "A newer connection took over at" in told.explanation


@in_virtual_time
async def test_a_token_that_two_parties_had() -> None:
    async with scene() as play:
        ada = await play.enter()
        second = await play.back(ada)
        await second.client.request("mine")
        await play.turned_away(Hello(None, Resume(ada.session_id, ada.welcome.token)))

        told = await explained(play, ada)
        assert (told.status, told.reason) == ("ended", Reason.TOKEN_REUSED)
        assert told.explanation.startswith("A resume token was used twice, so two parties had it, and the session was")
        assert any(text.startswith("a used token was presented from memory:") for text in texts(told))
        assert ada.welcome.token not in str(told), "a secret is in no timeline"


@in_virtual_time
async def test_a_server_that_stopped() -> None:
    async with scene() as play:
        ada = await play.seated()
        operator = play.server.operate
        await play.server.stop()

        told = await operator.timelines.of(ada.session_id)
        assert (told.status, told.reason) == ("ended", Reason.STOPPING)
        assert told.explanation.startswith("The session is not saved, so it ended with the server at")


@pytest.mark.parametrize("recovery", ["eager", "lazy"])
@in_virtual_time
async def test_a_session_that_came_back_from_the_store(recovery: Pace) -> None:
    async with scene(hall(durability="commit"), store=Storage(FaultyStore(), recovery=recovery)) as play:
        ada = await play.seated()
        operator = play.server.operate
        await play.server.stop()
        before = await operator.timelines.of(ada.session_id)
        await play.server.start()
        after = await explained(play, ada)

        assert (before.status, before.reason) == ("released", Reason.STOPPING)
        assert before.explanation.startswith("The session was left in the store for the next server when this one")
        assert (after.status, after.player) == ("disconnected", "ada")
        assert texts(after) == [f"came back from the store with a seat in room {ada.room_id}; kept for 30 s"]
        assert after.explanation.startswith("The session came back from the store at")


@in_virtual_time
async def test_an_agent() -> None:
    async with scene() as play:
        agent = play.server.open_agent("npc")
        agent.end()

        told = await play.operator().timelines.of(agent.session.id)
        assert texts(told) == ["an agent was opened", "the session ended (bye)"]


@in_virtual_time
async def test_what_was_long_ago_is_forgotten_and_that_is_said() -> None:
    async with scene(timeline_kept_s=60.0) as play:
        ada = await play.enter()
        play.call(play.session(ada).end, "")
        await asyncio.sleep(59.0)
        just_in_time = await play.operator().timelines.latest_of("ada")
        await asyncio.sleep(2.0)

        assert just_in_time.session == ada.session_id
        with pytest.raises(NotFound, match="ended more than 60 s ago"):
            await explained(play, ada)
        with pytest.raises(NotFound, match="none ended recently"):
            await play.operator().timelines.latest_of("ada")


@in_virtual_time
async def test_of_a_session_with_a_long_life_the_last_part_is_told() -> None:
    async with scene(timeline_max=8) as play:
        ada = await play.enter()
        visitor = ada
        for _ in range(20):
            visitor.client.cut()
            await asyncio.sleep(1.0)
            visitor = await play.back(visitor)

        told = await explained(play, ada)
        assert len(told.entries) <= 8
        assert told.forgotten + len(told.entries) == 2 + 2 * 20
        assert "They were back after 1 s" in told.explanation
