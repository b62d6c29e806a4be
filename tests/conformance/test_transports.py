"""What every transport promises, said once and run on each of them; see `holdfast.transports.port`."""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random

import pytest

from holdfast.transports.port import (
    GOING_AWAY,
    INTERNAL,
    NORMAL,
    TOO_BIG,
    VANISHED,
    DialError,
    Subprotocol,
    Transport,
)
from tests.cases import every_case
from tests.deadlines import DEADLINE_S
from tests.transports.harness import ADAPTERS, BINARY, LIMITS, TEXT, Harness
from tests.transports.recorder import Recorder

SLOW = 4008
IMPATIENT = replace(LIMITS, close_s=0.2)


@pytest.fixture(params=ADAPTERS)
async def harness(request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    harness = Harness(ADAPTERS[request.param]())
    yield harness
    await harness.finish()


async def test_an_open_link_is_announced_to_both_ends_before_dial_returns(harness: Harness) -> None:
    listener = await harness.listen()
    recorder = Recorder()

    transport = await harness.adapter.dial(recorder, listener, [BINARY], LIMITS)

    harness.dialed.append(recorder)
    assert recorder.transport is transport
    accepted = await harness.accept()
    assert accepted.link.kind == transport.kind
    assert accepted.link.subprotocol == transport.subprotocol == BINARY
    assert accepted.link.is_encrypted == transport.is_encrypted
    assert accepted.link.is_compressed == transport.is_compressed
    assert accepted.link.peer
    assert transport.peer


async def test_a_payload_of_any_allowed_size_arrives_whole_in_both_directions(harness: Harness) -> None:
    dialed, accepted = await harness.pair()
    sizes = (0, 1, 125, 126, 8192, 8193, 65535, 65536, LIMITS.payload_bytes_max)
    payloads = [bytes(index % 251 for index in range(size)) for size in sizes]

    for payload in payloads:
        dialed.link.send(payload)
        accepted.link.send(payload)

    assert await accepted.payload(len(sizes)) == payloads
    assert await dialed.payload(len(sizes)) == payloads


async def test_payloads_arrive_in_the_order_in_which_they_were_sent(harness: Harness) -> None:
    dialed, accepted = await harness.pair()
    # Small and large ones take different ways through the adapters.
    sent = [bytes([index % 256]) * (20 if index % 2 else 9000 + index) for index in range(1000)]

    for payload in sent:
        accepted.link.send(payload)

    assert await dialed.payload(len(sent)) == sent


async def test_text_arrives_as_its_utf_8_bytes(harness: Harness) -> None:
    dialed, accepted = await harness.pair(subprotocol=TEXT)

    dialed.link.send("grüße 🎲".encode())

    assert await accepted.payload() == ["grüße 🎲".encode()]


async def test_received_is_never_called_from_inside_send(harness: Harness) -> None:
    class Echo(Recorder):
        is_sending = False

        def received(self, payload: bytes) -> None:
            if self.is_sending:
                self.violations.append("received inside send")
            super().received(payload)
            self.is_sending = True
            self.link.send(payload)
            self.is_sending = False

    harness.make = Echo
    listener = await harness.listen()
    dialed = await harness.dial(listener, recorder=Echo())

    dialed.link.send(b"back and forth")

    await dialed.payload(50)


async def test_a_datagram_arrives_on_its_own_way_or_is_not_taken(harness: Harness) -> None:
    ends = await harness.pair()
    for sender, receiver in (ends, ends[::-1]):
        size = sender.link.datagram_bytes_max

        taken = [sender.link.send_datagram(bytes(size)), sender.link.send_datagram(bytes(size + 1))]

        assert taken == [size > 0, False]
        if size:
            await receiver.until(lambda receiver=receiver: bool(receiver.datagrams))  # type: ignore[misc]
            assert receiver.datagrams == [bytes(size)]
        sender.link.close(NORMAL, "")
        assert not sender.link.send_datagram(b"")
        assert receiver.payloads == []
        ends = await harness.pair()


async def test_the_dialers_first_choice_that_the_listener_speaks_is_agreed_on(harness: Harness) -> None:
    listener = await harness.listen(subprotocols=[BINARY, TEXT])

    dialed = await harness.dial(listener, subprotocols=[Subprotocol("test.v2", text=False), TEXT, BINARY])

    accepted = await harness.accept()
    assert dialed.link.subprotocol == accepted.link.subprotocol == TEXT


async def test_dialing_without_a_common_subprotocol_fails_for_good(harness: Harness) -> None:
    listener = await harness.listen(subprotocols=[BINARY])

    with pytest.raises(DialError) as failure:
        await harness.dial(listener, subprotocols=[Subprotocol("test.v2", text=False)])

    assert not failure.value.retry
    assert harness.accepted == []


async def test_dialing_where_nobody_listens_is_worth_another_try(harness: Harness) -> None:
    listener = await harness.listen()
    await listener.close()

    with pytest.raises(DialError) as failure:
        await harness.dial(listener)

    assert failure.value.retry


async def test_a_closed_listener_leaves_open_links_alone(harness: Harness) -> None:
    listener = await harness.listen()
    dialed = await harness.dial(listener)
    accepted = await harness.accept()

    await listener.close()
    await listener.close()

    dialed.link.send(b"still here")
    assert await accepted.payload() == [b"still here"]


async def test_two_listeners_do_not_share_links(harness: Harness) -> None:
    dialed, accepted = await harness.pair()

    await harness.fence()

    dialed.link.send(b"for the first")
    assert await accepted.payload() == [b"for the first"]
    assert len(harness.accepted) == 1


async def test_many_links_at_once_each_get_their_own(harness: Harness) -> None:
    listener = await harness.listen()
    dialed = await asyncio.gather(*(harness.dial(listener) for _ in range(20)))
    await harness.accept(20)

    for number, recorder in enumerate(dialed):
        recorder.link.send(b"%d" % number)

    told = [(await recorder.payload())[0] for recorder in harness.accepted]
    assert sorted(told) == sorted(b"%d" % number for number in range(20))


@pytest.mark.parametrize("code", [NORMAL, GOING_AWAY, SLOW, 4999])
async def test_a_close_tells_both_ends_its_code_and_reason(harness: Harness, code: int) -> None:
    dialed, accepted = await harness.pair()

    accepted.link.close(code, "go now")

    assert await accepted.loss() == (code, "go now")
    assert await dialed.loss() == (code, "go now")


async def test_the_dialing_end_may_close_as_well(harness: Harness) -> None:
    dialed, accepted = await harness.pair()

    dialed.link.close(SLOW, "")

    assert await dialed.loss() == (SLOW, "")
    assert await accepted.loss() == (SLOW, "")


async def test_a_long_reason_reaches_the_peer_cut_between_two_characters(harness: Harness) -> None:
    dialed, accepted = await harness.pair()

    accepted.link.close(SLOW, "€" * 200)

    assert await dialed.loss() == (SLOW, "€" * 41)


async def test_a_close_delivers_first_what_was_sent_before_it(harness: Harness) -> None:
    dialed, accepted = await harness.pair()
    sent = [bytes([index]) * 50_000 for index in range(100)]
    dialed.link.pause_reading()
    for payload in sent:
        accepted.link.send(payload)

    accepted.link.close(NORMAL, "that was all")
    dialed.link.resume_reading()

    assert await dialed.loss() == (NORMAL, "that was all")
    assert dialed.payloads == sent


async def test_nothing_is_received_after_a_close_of_our_own(harness: Harness) -> None:
    dialed, accepted = await harness.pair()
    for _ in range(100):
        dialed.link.send(b"too late")

    accepted.link.close(NORMAL, "")
    received = len(accepted.payloads)

    await accepted.loss()
    assert len(accepted.payloads) == received


async def test_what_is_sent_after_a_close_is_dropped(harness: Harness) -> None:
    dialed, accepted = await harness.pair()
    accepted.link.send(b"before")

    accepted.link.close(NORMAL, "")
    accepted.link.send(b"after")

    await dialed.loss()
    assert dialed.payloads == [b"before"]


async def test_a_close_works_while_we_do_not_read(harness: Harness) -> None:
    dialed, accepted = await harness.pair()
    accepted.link.pause_reading()
    dialed.link.send(b"unread")

    accepted.link.close(NORMAL, "enough")

    assert await accepted.loss() == (NORMAL, "enough")
    assert await dialed.loss() == (NORMAL, "enough")


async def test_the_first_close_counts_and_further_ones_do_nothing(harness: Harness) -> None:
    dialed, accepted = await harness.pair()

    accepted.link.close(SLOW, "first")
    accepted.link.close(NORMAL, "second")

    assert await accepted.loss() == (SLOW, "first")
    assert await dialed.loss() == (SLOW, "first")


async def test_when_both_ends_close_at_once_each_is_told_once_with_its_own_code(harness: Harness) -> None:
    dialed, accepted = await harness.pair()

    dialed.link.close(4200, "bye")
    accepted.link.close(4012, "stopping")

    assert await dialed.loss() == (4200, "bye")
    assert await accepted.loss() == (4012, "stopping")


async def test_a_peer_that_does_not_answer_a_close_is_cut(harness: Harness) -> None:
    dialed, accepted = await harness.pair(limits=IMPATIENT)
    dialed.link.pause_reading()

    accepted.link.close(SLOW, "no answer")

    assert await accepted.loss() == (SLOW, "no answer")


async def test_a_close_does_not_wait_for_a_peer_that_does_not_read(harness: Harness) -> None:
    dialed, accepted = await harness.pair(limits=IMPATIENT)
    dialed.link.pause_reading()
    fill(accepted)

    accepted.link.close(SLOW, "too slow")

    assert await accepted.loss() == (SLOW, "too slow")
    assert accepted.link.buffered_bytes == 0


async def test_an_abort_ends_both_ends_without_a_word(harness: Harness) -> None:
    dialed, accepted = await harness.pair()

    accepted.link.abort()

    assert await accepted.loss() == (VANISHED, "")
    assert await dialed.loss() == (VANISHED, "")


async def test_what_is_sent_after_an_abort_is_dropped(harness: Harness) -> None:
    dialed, accepted = await harness.pair()

    accepted.link.abort()
    accepted.link.send(b"after")

    await dialed.loss()
    assert dialed.payloads == []


async def test_lost_is_not_told_from_inside_abort(harness: Harness) -> None:
    dialed, _ = await harness.pair()

    dialed.link.abort()

    assert dialed.end is None


async def test_an_abort_in_the_middle_of_a_read_stops_the_delivery(harness: Harness) -> None:
    class Impatient(Recorder):
        def received(self, payload: bytes) -> None:
            super().received(payload)
            self.link.abort()

    harness.make = Impatient
    dialed, accepted = await harness.pair()

    for _ in range(10):
        dialed.link.send(b"one is enough")

    await accepted.loss()
    assert accepted.payloads == [b"one is enough"]


async def test_a_close_in_the_middle_of_a_read_stops_the_delivery(harness: Harness) -> None:
    class Impatient(Recorder):
        def received(self, payload: bytes) -> None:
            super().received(payload)
            self.link.close(NORMAL, "")

    harness.make = Impatient
    dialed, accepted = await harness.pair()

    for _ in range(10):
        dialed.link.send(b"one is enough")

    await accepted.loss()
    assert accepted.payloads == [b"one is enough"]


async def test_an_abort_cuts_a_close_short(harness: Harness) -> None:
    dialed, accepted = await harness.pair()
    dialed.link.pause_reading()

    accepted.link.close(SLOW, "patience")
    accepted.link.abort()

    assert await accepted.loss() == (SLOW, "patience")


async def test_a_lost_link_ignores_everything(harness: Harness) -> None:
    dialed, accepted = await harness.pair()
    accepted.link.close(NORMAL, "")
    await dialed.loss()
    await accepted.loss()

    for link in (dialed.link, accepted.link):
        link.send(b"anybody?")
        link.pause_reading()
        link.resume_reading()
        link.close(SLOW, "")
        link.abort()

    assert dialed.link.buffered_bytes == accepted.link.buffered_bytes == 0


async def test_a_peer_that_does_not_read_never_blocks_send_and_is_noticed(harness: Harness) -> None:
    dialed, accepted = await harness.pair()
    dialed.link.pause_reading()

    sent = fill(accepted)

    assert accepted.link.buffered_bytes > LIMITS.write_high_bytes
    assert accepted.congested_count == 1
    dialed.link.resume_reading()
    await accepted.until(lambda: accepted.drained_count == 1)
    assert await dialed.payload(len(sent)) == sent


async def test_an_abort_frees_what_a_peer_did_not_read(harness: Harness) -> None:
    dialed, accepted = await harness.pair()
    dialed.link.pause_reading()
    fill(accepted)

    accepted.link.abort()

    assert await accepted.loss() == (VANISHED, "")
    assert accepted.link.buffered_bytes == 0


async def test_a_mute_peer_is_not_lost_until_we_say_so(harness: Harness) -> None:
    dialed, accepted = await harness.pair()
    dialed.link.pause_reading()
    accepted.link.send(b"anybody?")
    await harness.fence()
    assert accepted.end is None

    accepted.link.abort()

    assert await accepted.loss() == (VANISHED, "")


async def test_paused_reading_holds_payloads_back_until_it_is_resumed(harness: Harness) -> None:
    dialed, accepted = await harness.pair()
    dialed.link.pause_reading()
    dialed.link.pause_reading()
    accepted.link.send(b"later")
    await harness.fence()
    assert dialed.payloads == []

    dialed.link.resume_reading()
    dialed.link.resume_reading()

    assert await dialed.payload() == [b"later"]


async def test_a_payload_above_the_limit_ends_the_link_and_is_not_delivered(harness: Harness) -> None:
    dialed, accepted = await harness.pair()
    dialed.link.send(b"small")
    await accepted.payload()

    dialed.link.send(bytes(LIMITS.payload_bytes_max + 1))
    dialed.link.send(b"behind it")

    assert (await accepted.loss())[0] == TOO_BIG
    assert (await dialed.loss())[0] == TOO_BIG
    assert accepted.payloads == [b"small"]


async def test_the_dialing_end_refuses_what_is_too_big_as_well(harness: Harness) -> None:
    dialed, accepted = await harness.pair()

    accepted.link.send(bytes(LIMITS.payload_bytes_max + 1))

    assert (await dialed.loss())[0] == TOO_BIG
    assert (await accepted.loss())[0] == TOO_BIG
    assert dialed.payloads == []


@pytest.mark.parametrize("method", ["opened", "received"])
async def test_a_receiver_that_raises_loses_its_link_and_nothing_else(
    harness: Harness, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Faulty(Recorder):
        def opened(self, transport: Transport) -> None:
            super().opened(transport)
            if method == "opened":
                raise RuntimeError("a secret of the server")

        def received(self, payload: bytes) -> None:
            raise RuntimeError("a secret of the server")

    listener = await harness.listen()
    other = await harness.dial(listener)
    other_accepted = await harness.accept()
    harness.make = Faulty

    dialed = await harness.dial(listener)
    dialed.link.send(b"one")
    dialed.link.send(b"two")

    assert await dialed.loss() == (INTERNAL, "")
    assert await (await harness.accept(2)).loss() == (INTERNAL, "")
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    other.link.send(b"unharmed")
    assert await other_accepted.payload() == [b"unharmed"]


async def test_an_accept_that_raises_closes_the_link_it_was_for(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse() -> Recorder:
        raise RuntimeError("a secret of the server")

    harness.make = refuse
    listener = await harness.listen()

    dialed = await harness.dial(listener)

    assert await dialed.loss() == (INTERNAL, "")
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_a_lost_that_raises_is_logged_and_harms_nobody(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    class Faulty(Recorder):
        def lost(self, code: int, reason: str) -> None:
            super().lost(code, reason)
            raise RuntimeError("too late to matter")

    harness.make = Faulty
    dialed, accepted = await harness.pair()

    dialed.link.close(NORMAL, "")

    assert await dialed.loss() == (NORMAL, "")
    assert await accepted.loss() == (NORMAL, "")
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


@every_case("turns", range(12))
async def test_a_dial_that_is_cancelled_leaves_no_open_link_behind(harness: Harness, turns: int) -> None:
    listener = await harness.listen()
    dialing = asyncio.create_task(harness.dial(listener))
    for _ in range(turns):
        await asyncio.sleep(0)

    is_cancelled = dialing.cancel()
    await asyncio.wait([dialing])

    await harness.fence()
    assert dialing.cancelled() == is_cancelled
    if is_cancelled:
        for recorder in harness.dialed + harness.accepted:
            assert recorder.transport is None or await recorder.loss() == (VANISHED, "")


def fill(recorder: Recorder) -> list[bytes]:
    """Send until the peer, which does not read, makes the buffer run over."""
    sent: list[bytes] = []
    while recorder.congested_count == 0:
        assert len(sent) < 2000, "a hundred megabytes, and still not congested"
        # By chance, so that it cannot be made smaller.
        sent.append(Random(len(sent)).randbytes(50_000))
        recorder.link.send(sent[-1])
    return sent


# What a link carries


async def test_a_link_counts_what_it_carried_both_ways(harness: Harness) -> None:
    dialed, accepted = await harness.pair()
    size = 50_000
    payload = Random(0).randbytes(size)
    ours, theirs = dialed.link.traffic, accepted.link.traffic

    dialed.link.send(payload)
    await accepted.payload()

    assert accepted.link.traffic.received - theirs.received >= size
    # The other system may acknowledge it a moment later.
    async with asyncio.timeout(DEADLINE_S):
        while dialed.link.traffic.taken - ours.taken < size:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)
    assert dialed.link.traffic.waiting == 0


async def test_a_link_is_up_until_its_end_is_certain(harness: Harness) -> None:
    ends = await harness.pair()
    before = [end.link.is_up for end in ends]

    ends[0].link.abort()
    ends[1].link.close(NORMAL, "")

    assert before == [True, True]
    assert [end.link.is_up for end in ends] == [False, False]


async def test_what_is_not_taken_yet_waits(harness: Harness) -> None:
    dialed, accepted = await harness.pair()
    accepted.link.pause_reading()

    payload = Random(0).randbytes(90_000)
    for _ in range(200):
        dialed.link.send(payload)

    assert dialed.link.traffic.waiting > 0
    accepted.link.resume_reading()
    await accepted.payload(200)
