"""What every transport promises, for transports of your own: each check is one claim about both ends of a link.

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    async def test_my_transport(check):
        ends = Ends(MyAdapter())
        await check(ends)
        await ends.finish()

An `Adapter` says how to listen and to dial. `finish` proves that each link was lost exactly once, and that the port's
contract was not broken on the way. See docs/guide/transports.md.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Protocol

from holdfast.core.limits import Limits
from holdfast.transports.port import (
    GOING_AWAY,
    NORMAL,
    TOO_BIG,
    VANISHED,
    Accept,
    DialError,
    Listener,
    Receiver,
    Subprotocol,
    Transport,
    TransportLimits,
)

DEADLINE_S = 60.0
"""For one thing that should happen at once: only used up by a check that fails."""

BINARY = Subprotocol("test.v1.binary", text=False)
TEXT = Subprotocol("test.v1.text", text=True)
LIMITS = replace(
    TransportLimits.of(Limits()),
    payload_bytes_max=100_000,
    handshake_s=DEADLINE_S,
    close_s=DEADLINE_S,
    fragments_max=100,
    proxy_header_bytes_max=536,
    unopened_per_address_max=1000,
    unopened_max=1000,
)
SLOW = 4008
IMPATIENT = replace(LIMITS, close_s=0.2)


class LinkRecorder:
    """What one end of a link was told; override a method to do something with it."""

    def __init__(self) -> None:
        self.transport: Transport | None = None
        self.payloads: list[bytes] = []
        self.datagrams: list[bytes] = []
        self.busy_count = 0
        self.congested_count = 0
        self.drained_count = 0
        self.end: tuple[int, str] | None = None
        self.violations: list[str] = []
        self._changed = asyncio.Event()

    @property
    def link(self) -> Transport:
        assert self.transport is not None, "opened was not called"
        return self.transport

    def opened(self, transport: Transport) -> None:
        if self.transport is not None:
            self.violations.append("opened twice")
        self.transport = transport
        self._changed.set()

    def received(self, payload: bytes) -> None:
        self._note("received")
        self.payloads.append(payload)

    def received_datagram(self, payload: bytes) -> None:
        self._note("a datagram received")
        self.datagrams.append(payload)

    def kept_busy(self) -> None:
        self._note("kept busy")
        self.busy_count += 1

    def congested(self) -> None:
        self._note("congested")
        self.congested_count += 1

    def drained(self) -> None:
        self._note("drained")
        self.drained_count += 1

    def lost(self, code: int, reason: str) -> None:
        self._note("lost")
        self.end = (code, reason)

    def _note(self, what: str) -> None:
        if self.transport is None:
            self.violations.append(f"{what} before opened")
        if self.end is not None:
            self.violations.append(f"{what} after lost")
        self._changed.set()

    async def until(self, claim: Callable[[], bool]) -> None:
        """Wait until the claim holds; it is looked at again whenever something was told."""
        async with asyncio.timeout(DEADLINE_S):
            while not claim():
                self._changed.clear()
                await self._changed.wait()

    async def opening(self) -> Transport:
        await self.until(lambda: self.transport is not None)
        return self.link

    async def payload(self, count: int = 1) -> list[bytes]:
        """The first payloads, as soon as there are so many."""
        await self.until(lambda: len(self.payloads) >= count)
        return self.payloads[:count]

    async def loss(self) -> tuple[int, str]:
        await self.until(lambda: self.end is not None)
        assert self.end is not None
        return self.end


class Adapter(Protocol):
    """One way to listen and to dial."""

    async def listen(
        self, accept: Accept, subprotocols: Sequence[Subprotocol], limits: TransportLimits
    ) -> Listener: ...

    async def dial(
        self, receiver: Receiver, listener: Listener, subprotocols: Sequence[Subprotocol], limits: TransportLimits
    ) -> Transport: ...


class Ends:
    """One listener, its accepted ends and the ends that dialed it."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self.accepted: list[LinkRecorder] = []
        self.dialed: list[LinkRecorder] = []
        self.make: Callable[[], LinkRecorder] = LinkRecorder
        self._listeners: list[Listener] = []
        self._has_accepted = asyncio.Event()

    async def listen(
        self, *, subprotocols: Sequence[Subprotocol] = (BINARY,), limits: TransportLimits = LIMITS
    ) -> Listener:
        listener = await self.adapter.listen(self._accept, subprotocols, limits)
        self._listeners.append(listener)
        return listener

    def _accept(self) -> LinkRecorder:
        recorder = self.make()
        self.accepted.append(recorder)
        self._has_accepted.set()
        return recorder

    async def dial(
        self,
        listener: Listener,
        *,
        subprotocols: Sequence[Subprotocol] = (BINARY,),
        limits: TransportLimits = LIMITS,
        recorder: LinkRecorder | None = None,
    ) -> LinkRecorder:
        recorder = recorder or LinkRecorder()
        self.dialed.append(recorder)
        await self.adapter.dial(recorder, listener, subprotocols, limits)
        return recorder

    async def refusal(self, listener: Listener, *, subprotocols: Sequence[Subprotocol] = (BINARY,)) -> DialError:
        """Why a dial fails, which must."""
        try:
            await self.adapter.dial(LinkRecorder(), listener, subprotocols, LIMITS)
        except DialError as error:
            return error
        raise AssertionError("the dial should have failed")

    async def accept(self, count: int = 1) -> LinkRecorder:
        """The end that was accepted last, once there are so many and it is open."""
        async with asyncio.timeout(DEADLINE_S):
            while len(self.accepted) < count:
                self._has_accepted.clear()
                await self._has_accepted.wait()
        recorder = self.accepted[count - 1]
        await recorder.opening()
        return recorder

    async def pair(
        self, *, subprotocol: Subprotocol = BINARY, limits: TransportLimits = LIMITS
    ) -> tuple[LinkRecorder, LinkRecorder]:
        """A link: the end that dialed, and the one that was accepted."""
        listener = await self.listen(subprotocols=[subprotocol], limits=limits)
        count = len(self.accepted)
        dialed = await self.dial(listener, subprotocols=[subprotocol], limits=limits)
        return dialed, await self.accept(count + 1)

    async def fence(self) -> None:
        """A link of its own, from dial to loss: what was about to happen on the others has happened."""
        there, back = LinkRecorder(), LinkRecorder()
        listener = await self.adapter.listen(lambda: back, [BINARY], LIMITS)
        await self.adapter.dial(there, listener, [BINARY], LIMITS)
        there.link.send(b"there")
        await back.payload()
        back.link.close(NORMAL, "back")
        assert await there.loss() == await back.loss() == (NORMAL, "back")
        await listener.close()

    async def finish(self) -> None:
        """End what is open; every link that was opened must be lost, and no contract broken on the way."""
        for listener in self._listeners:
            await listener.close()
        opened = [recorder for recorder in self.accepted + self.dialed if recorder.transport is not None]
        for recorder in opened:
            recorder.link.abort()
        for recorder in opened:
            await recorder.loss()
        assert [violation for recorder in opened for violation in recorder.violations] == []


Check = Callable[[Ends], Awaitable[None]]


def fill(recorder: LinkRecorder) -> list[bytes]:
    """Send until the peer, which does not read, makes the buffer run over."""
    sent: list[bytes] = []
    while recorder.congested_count == 0:
        assert len(sent) < 2000, "a hundred megabytes, and still not congested"
        # By chance, so that it cannot be made smaller.
        sent.append(Random(len(sent)).randbytes(50_000))
        recorder.link.send(sent[-1])
    return sent


async def an_open_link_is_announced_to_both_ends_before_dial_returns(ends: Ends) -> None:
    listener = await ends.listen()
    recorder = LinkRecorder()

    transport = await ends.adapter.dial(recorder, listener, [BINARY], LIMITS)

    ends.dialed.append(recorder)
    assert recorder.transport is transport
    accepted = await ends.accept()
    assert accepted.link.kind == transport.kind
    assert accepted.link.subprotocol == transport.subprotocol == BINARY
    assert accepted.link.is_encrypted == transport.is_encrypted
    assert accepted.link.is_compressed == transport.is_compressed
    assert accepted.link.peer
    assert transport.peer


async def a_payload_of_any_allowed_size_arrives_whole_in_both_directions(ends: Ends) -> None:
    dialed, accepted = await ends.pair()
    sizes = (0, 1, 125, 126, 8192, 8193, 65535, 65536, LIMITS.payload_bytes_max)
    payloads = [bytes(index % 251 for index in range(size)) for size in sizes]

    for payload in payloads:
        dialed.link.send(payload)
        accepted.link.send(payload)

    assert await accepted.payload(len(sizes)) == payloads
    assert await dialed.payload(len(sizes)) == payloads


async def payloads_arrive_in_the_order_in_which_they_were_sent(ends: Ends) -> None:
    dialed, accepted = await ends.pair()
    # Small and large ones take different ways through the adapters.
    sent = [bytes([index % 256]) * (20 if index % 2 else 9000 + index) for index in range(1000)]

    for payload in sent:
        accepted.link.send(payload)

    assert await dialed.payload(len(sent)) == sent


async def text_arrives_as_its_utf_8_bytes(ends: Ends) -> None:
    dialed, accepted = await ends.pair(subprotocol=TEXT)

    dialed.link.send("grüße 🎲".encode())

    assert await accepted.payload() == ["grüße 🎲".encode()]


async def received_is_never_called_from_inside_send(ends: Ends) -> None:
    class Echo(LinkRecorder):
        is_sending = False

        def received(self, payload: bytes) -> None:
            if self.is_sending:
                self.violations.append("received inside send")
            super().received(payload)
            self.is_sending = True
            self.link.send(payload)
            self.is_sending = False

    ends.make = Echo
    listener = await ends.listen()
    dialed = await ends.dial(listener, recorder=Echo())

    dialed.link.send(b"back and forth")

    await dialed.payload(50)


async def a_datagram_arrives_on_its_own_way_or_is_not_taken(ends: Ends) -> None:
    for is_dialed in (True, False):
        dialed, accepted = await ends.pair()
        sender, receiver = (dialed, accepted) if is_dialed else (accepted, dialed)
        size = sender.link.datagram_bytes_max

        taken = [sender.link.send_datagram(bytes(size)), sender.link.send_datagram(bytes(size + 1))]

        assert taken == [size > 0, False]
        if size:
            await receiver.until(lambda receiver=receiver: bool(receiver.datagrams))  # type: ignore[misc]  # bound now
            assert receiver.datagrams == [bytes(size)]
        sender.link.close(NORMAL, "")
        assert not sender.link.send_datagram(b"")
        assert receiver.payloads == []


async def the_dialers_first_choice_that_the_listener_speaks_is_agreed_on(ends: Ends) -> None:
    listener = await ends.listen(subprotocols=[BINARY, TEXT])

    dialed = await ends.dial(listener, subprotocols=[Subprotocol("test.v2", text=False), TEXT, BINARY])

    accepted = await ends.accept()
    assert dialed.link.subprotocol == accepted.link.subprotocol == TEXT


async def dialing_without_a_common_subprotocol_fails_for_good(ends: Ends) -> None:
    listener = await ends.listen(subprotocols=[BINARY])

    refusal = await ends.refusal(listener, subprotocols=[Subprotocol("test.v2", text=False)])

    assert not refusal.retry
    assert ends.accepted == []


async def dialing_where_nobody_listens_is_worth_another_try(ends: Ends) -> None:
    listener = await ends.listen()
    await listener.close()

    assert (await ends.refusal(listener)).retry


async def a_closed_listener_leaves_open_links_alone(ends: Ends) -> None:
    listener = await ends.listen()
    dialed = await ends.dial(listener)
    accepted = await ends.accept()

    await listener.close()
    await listener.close()

    dialed.link.send(b"still here")
    assert await accepted.payload() == [b"still here"]


async def two_listeners_do_not_share_links(ends: Ends) -> None:
    dialed, accepted = await ends.pair()

    await ends.fence()

    dialed.link.send(b"for the first")
    assert await accepted.payload() == [b"for the first"]
    assert len(ends.accepted) == 1


async def many_links_at_once_each_get_their_own(ends: Ends) -> None:
    listener = await ends.listen()
    dialed = await asyncio.gather(*(ends.dial(listener) for _ in range(20)))
    await ends.accept(20)

    for number, recorder in enumerate(dialed):
        recorder.link.send(b"%d" % number)

    told = [(await recorder.payload())[0] for recorder in ends.accepted]
    assert sorted(told) == sorted(b"%d" % number for number in range(20))


async def a_close_tells_both_ends_its_code_and_reason(ends: Ends) -> None:
    for code in (NORMAL, GOING_AWAY, SLOW, 4999):
        dialed, accepted = await ends.pair()

        accepted.link.close(code, "go now")

        assert await accepted.loss() == (code, "go now")
        assert await dialed.loss() == (code, "go now")


async def the_dialing_end_may_close_as_well(ends: Ends) -> None:
    dialed, accepted = await ends.pair()

    dialed.link.close(SLOW, "")

    assert await dialed.loss() == (SLOW, "")
    assert await accepted.loss() == (SLOW, "")


async def a_long_reason_reaches_the_peer_cut_between_two_characters(ends: Ends) -> None:
    dialed, accepted = await ends.pair()

    accepted.link.close(SLOW, "€" * 200)

    assert await dialed.loss() == (SLOW, "€" * 41)


async def a_close_delivers_first_what_was_sent_before_it(ends: Ends) -> None:
    dialed, accepted = await ends.pair()
    sent = [bytes([index]) * 50_000 for index in range(100)]
    dialed.link.pause_reading()
    for payload in sent:
        accepted.link.send(payload)

    accepted.link.close(NORMAL, "that was all")
    dialed.link.resume_reading()

    assert await dialed.loss() == (NORMAL, "that was all")
    assert dialed.payloads == sent


async def nothing_is_received_after_a_close_of_our_own(ends: Ends) -> None:
    dialed, accepted = await ends.pair()
    for _ in range(100):
        dialed.link.send(b"too late")

    accepted.link.close(NORMAL, "")
    received = len(accepted.payloads)

    await accepted.loss()
    assert len(accepted.payloads) == received


async def what_is_sent_after_a_close_is_dropped(ends: Ends) -> None:
    dialed, accepted = await ends.pair()
    accepted.link.send(b"before")

    accepted.link.close(NORMAL, "")
    accepted.link.send(b"after")

    await dialed.loss()
    assert dialed.payloads == [b"before"]


async def a_close_works_while_we_do_not_read(ends: Ends) -> None:
    dialed, accepted = await ends.pair()
    accepted.link.pause_reading()
    dialed.link.send(b"unread")

    accepted.link.close(NORMAL, "enough")

    assert await accepted.loss() == (NORMAL, "enough")
    assert await dialed.loss() == (NORMAL, "enough")


async def the_first_close_counts_and_further_ones_do_nothing(ends: Ends) -> None:
    dialed, accepted = await ends.pair()

    accepted.link.close(SLOW, "first")
    accepted.link.close(NORMAL, "second")

    assert await accepted.loss() == (SLOW, "first")
    assert await dialed.loss() == (SLOW, "first")


async def when_both_ends_close_at_once_each_is_told_once_with_its_own_code(ends: Ends) -> None:
    dialed, accepted = await ends.pair()

    dialed.link.close(4200, "bye")
    accepted.link.close(4012, "stopping")

    assert await dialed.loss() == (4200, "bye")
    assert await accepted.loss() == (4012, "stopping")


async def a_peer_that_does_not_answer_a_close_is_cut(ends: Ends) -> None:
    dialed, accepted = await ends.pair(limits=IMPATIENT)
    dialed.link.pause_reading()

    accepted.link.close(SLOW, "no answer")

    assert await accepted.loss() == (SLOW, "no answer")


async def a_close_does_not_wait_for_a_peer_that_does_not_read(ends: Ends) -> None:
    dialed, accepted = await ends.pair(limits=IMPATIENT)
    dialed.link.pause_reading()
    fill(accepted)

    accepted.link.close(SLOW, "too slow")

    assert await accepted.loss() == (SLOW, "too slow")
    assert accepted.link.buffered_bytes == 0


async def an_abort_ends_both_ends_without_a_word(ends: Ends) -> None:
    dialed, accepted = await ends.pair()

    accepted.link.abort()

    assert await accepted.loss() == (VANISHED, "")
    assert await dialed.loss() == (VANISHED, "")


async def what_is_sent_after_an_abort_is_dropped(ends: Ends) -> None:
    dialed, accepted = await ends.pair()

    accepted.link.abort()
    accepted.link.send(b"after")

    await dialed.loss()
    assert dialed.payloads == []


async def lost_is_not_told_from_inside_abort(ends: Ends) -> None:
    dialed, _ = await ends.pair()

    dialed.link.abort()

    assert dialed.end is None


async def an_abort_in_the_middle_of_a_read_stops_the_delivery(ends: Ends) -> None:
    class AbortingRecorder(LinkRecorder):
        def received(self, payload: bytes) -> None:
            super().received(payload)
            self.link.abort()

    ends.make = AbortingRecorder
    dialed, accepted = await ends.pair()

    for _ in range(10):
        dialed.link.send(b"one is enough")

    await accepted.loss()
    assert accepted.payloads == [b"one is enough"]


async def a_close_in_the_middle_of_a_read_stops_the_delivery(ends: Ends) -> None:
    class ClosingRecorder(LinkRecorder):
        def received(self, payload: bytes) -> None:
            super().received(payload)
            self.link.close(NORMAL, "")

    ends.make = ClosingRecorder
    dialed, accepted = await ends.pair()

    for _ in range(10):
        dialed.link.send(b"one is enough")

    await accepted.loss()
    assert accepted.payloads == [b"one is enough"]


async def an_abort_cuts_a_close_short(ends: Ends) -> None:
    dialed, accepted = await ends.pair()
    dialed.link.pause_reading()

    accepted.link.close(SLOW, "patience")
    accepted.link.abort()

    assert await accepted.loss() == (SLOW, "patience")


async def a_lost_link_ignores_everything(ends: Ends) -> None:
    dialed, accepted = await ends.pair()
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


async def a_peer_that_does_not_read_never_blocks_send_and_is_noticed(ends: Ends) -> None:
    dialed, accepted = await ends.pair()
    dialed.link.pause_reading()

    sent = fill(accepted)

    assert accepted.link.buffered_bytes > LIMITS.write_high_bytes
    assert accepted.congested_count == 1
    dialed.link.resume_reading()
    await accepted.until(lambda: accepted.drained_count == 1)
    assert await dialed.payload(len(sent)) == sent


async def an_abort_frees_what_a_peer_did_not_read(ends: Ends) -> None:
    dialed, accepted = await ends.pair()
    dialed.link.pause_reading()
    fill(accepted)

    accepted.link.abort()

    assert await accepted.loss() == (VANISHED, "")
    assert accepted.link.buffered_bytes == 0


async def a_mute_peer_is_not_lost_until_we_say_so(ends: Ends) -> None:
    dialed, accepted = await ends.pair()
    dialed.link.pause_reading()
    accepted.link.send(b"anybody?")
    await ends.fence()
    assert accepted.end is None

    accepted.link.abort()

    assert await accepted.loss() == (VANISHED, "")


async def paused_reading_holds_payloads_back_until_it_is_resumed(ends: Ends) -> None:
    dialed, accepted = await ends.pair()
    dialed.link.pause_reading()
    dialed.link.pause_reading()
    accepted.link.send(b"later")
    await ends.fence()
    assert dialed.payloads == []

    dialed.link.resume_reading()
    dialed.link.resume_reading()

    assert await dialed.payload() == [b"later"]


async def a_payload_above_the_limit_ends_the_link_and_is_not_delivered(ends: Ends) -> None:
    dialed, accepted = await ends.pair()
    dialed.link.send(b"small")
    await accepted.payload()

    dialed.link.send(bytes(LIMITS.payload_bytes_max + 1))
    dialed.link.send(b"behind it")

    assert (await accepted.loss())[0] == TOO_BIG
    assert (await dialed.loss())[0] == TOO_BIG
    assert accepted.payloads == [b"small"]


async def the_dialing_end_refuses_what_is_too_big_as_well(ends: Ends) -> None:
    dialed, accepted = await ends.pair()

    accepted.link.send(bytes(LIMITS.payload_bytes_max + 1))

    assert (await dialed.loss())[0] == TOO_BIG
    assert (await accepted.loss())[0] == TOO_BIG
    assert dialed.payloads == []


async def a_dial_that_is_cancelled_leaves_no_open_link_behind(ends: Ends) -> None:
    for turns in range(12):
        listener = await ends.listen()
        dialing = asyncio.create_task(ends.dial(listener))
        for _ in range(turns):
            await asyncio.sleep(0)

        is_cancelled = dialing.cancel()
        await asyncio.wait([dialing])

        await ends.fence()
        assert dialing.cancelled() == is_cancelled
        if is_cancelled:
            for recorder in ends.dialed + ends.accepted:
                assert recorder.transport is None or await recorder.loss() == (VANISHED, "")
        else:
            for recorder in (ends.dialed[-1], await ends.accept(len(ends.accepted))):
                recorder.link.abort()
                await recorder.loss()


async def a_link_counts_what_it_carried_both_ways(ends: Ends) -> None:
    dialed, accepted = await ends.pair()
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


async def a_link_is_up_until_its_end_is_certain(ends: Ends) -> None:
    both = await ends.pair()
    before = [end.link.is_up for end in both]

    both[0].link.abort()
    both[1].link.close(NORMAL, "")

    assert before == [True, True]
    assert [end.link.is_up for end in both] == [False, False]


async def what_is_not_taken_yet_waits(ends: Ends) -> None:
    dialed, accepted = await ends.pair()
    accepted.link.pause_reading()

    payload = Random(0).randbytes(90_000)
    for _ in range(200):
        dialed.link.send(payload)

    assert dialed.link.traffic.waiting > 0
    accepted.link.resume_reading()
    await accepted.payload(200)


CHECKS: tuple[Check, ...] = (
    an_open_link_is_announced_to_both_ends_before_dial_returns,
    a_payload_of_any_allowed_size_arrives_whole_in_both_directions,
    payloads_arrive_in_the_order_in_which_they_were_sent,
    text_arrives_as_its_utf_8_bytes,
    received_is_never_called_from_inside_send,
    a_datagram_arrives_on_its_own_way_or_is_not_taken,
    the_dialers_first_choice_that_the_listener_speaks_is_agreed_on,
    dialing_without_a_common_subprotocol_fails_for_good,
    dialing_where_nobody_listens_is_worth_another_try,
    a_closed_listener_leaves_open_links_alone,
    two_listeners_do_not_share_links,
    many_links_at_once_each_get_their_own,
    a_close_tells_both_ends_its_code_and_reason,
    the_dialing_end_may_close_as_well,
    a_long_reason_reaches_the_peer_cut_between_two_characters,
    a_close_delivers_first_what_was_sent_before_it,
    nothing_is_received_after_a_close_of_our_own,
    what_is_sent_after_a_close_is_dropped,
    a_close_works_while_we_do_not_read,
    the_first_close_counts_and_further_ones_do_nothing,
    when_both_ends_close_at_once_each_is_told_once_with_its_own_code,
    a_peer_that_does_not_answer_a_close_is_cut,
    a_close_does_not_wait_for_a_peer_that_does_not_read,
    an_abort_ends_both_ends_without_a_word,
    what_is_sent_after_an_abort_is_dropped,
    lost_is_not_told_from_inside_abort,
    an_abort_in_the_middle_of_a_read_stops_the_delivery,
    a_close_in_the_middle_of_a_read_stops_the_delivery,
    an_abort_cuts_a_close_short,
    a_lost_link_ignores_everything,
    a_peer_that_does_not_read_never_blocks_send_and_is_noticed,
    an_abort_frees_what_a_peer_did_not_read,
    a_mute_peer_is_not_lost_until_we_say_so,
    paused_reading_holds_payloads_back_until_it_is_resumed,
    a_payload_above_the_limit_ends_the_link_and_is_not_delivered,
    the_dialing_end_refuses_what_is_too_big_as_well,
    a_dial_that_is_cancelled_leaves_no_open_link_behind,
    a_link_counts_what_it_carried_both_ways,
    a_link_is_up_until_its_end_is_certain,
    what_is_not_taken_yet_waits,
)
"""All of them."""
