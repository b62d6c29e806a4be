"""The counting game and its client notice what the other tests claim does not happen."""

import pytest

import holdfast
from holdfast import Server, WebSocket
from tests.e2e.counter import Counter
from tests.e2e.counting import Ask, Counting, Report, Up


@pytest.mark.parametrize(
    "numbers", [[1, 3], [1, 2], [1, 2, 2, 3], [1, 3, 2]], ids=["lost", "short", "duplicated", "reordered"]
)
def test_a_client_notices_a_stream_that_is_not_whole(numbers: list[int]) -> None:
    counter = Counter(messages=3, numbers=numbers, report=Report(received=3, wrong=[], drops=0, rejoins=0))

    with pytest.raises(AssertionError):
        counter.check()


@pytest.mark.parametrize(("received", "wrong"), [(2, []), (4, []), (3, [3])])
def test_a_client_notices_a_ledger_that_is_not_right(received: int, wrong: list[int]) -> None:
    counter = Counter(messages=3, numbers=[1, 2, 3], report=Report(received, wrong, drops=0, rejoins=0))

    with pytest.raises(AssertionError):
        counter.check()


async def test_the_room_notices_numbers_that_are_missing_doubled_or_out_of_order() -> None:
    async with Server([Counting], listen=[WebSocket(port=0)]) as server:
        host, port = server.addresses["websocket"]
        async with holdfast.connect(f"ws://{host}:{port}", messages=[Report]) as session:
            room = await session.join_or_create("counting")
            for number in (1, 3, 3, 2):
                await room.send(Up(number))
            await room.send(Ask())

            report = await room.receive()

    assert report == Report(received=4, wrong=[3, 3, 2], drops=0, rejoins=0)
