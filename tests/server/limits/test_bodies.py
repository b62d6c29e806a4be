"""Bodies that are made to hurt whoever reads them."""

from itertools import islice, product

import pytest
from msgspec import Raw

from holdfast import MessageRefused, Reason
from holdfast.core.codec import JSON, MSGPACK, Codec
from holdfast.schemas.frames import Data, Reply, Request
from tests.server.durability.bench import in_virtual_time, until
from tests.server.limits.street import nested, request_body, town

# Depth


@pytest.mark.parametrize("codec", [MSGPACK, JSON], ids=lambda codec: str(codec.name))
@in_virtual_time
async def test_a_body_that_is_nested_too_deep_is_refused_and_the_connection_lives(codec: Codec) -> None:
    async with town() as server:
        ada = await server.seated(codec=codec)

        for seq, depth in enumerate([31, 32, 100, 900], start=1):
            ada.client.say(Data(1, seq, 0, "wish", request_body(codec, nested(depth))))
        await until(lambda: len(ada.client.all_heard(Data)) == 3)

        decoder = codec.body_decoder(MessageRefused)
        refused_ones = [decoder.decode(frame.body) for frame in ada.client.all_heard(Data)]
        # The message itself is one level.
        assert [(each.seq, each.code) for each in refused_ones] == [(2, "invalid"), (3, "invalid"), (4, "invalid")]
        assert len(server.hall().wished) == 1
        assert server.counters.internal_errors == 0


@pytest.mark.parametrize("codec", [MSGPACK, JSON], ids=lambda codec: str(codec.name))
@in_virtual_time
async def test_ten_thousand_levels_close_the_connection_and_harm_nothing_else(codec: Codec) -> None:
    async with town() as server:
        ada = await server.seated(codec=codec)
        deep = b"[" * 10_000 + b"]" * 10_000 if codec.text else b"\x91" * 10_000 + b"\xc0"
        head = codec.encode([["data", 1, 1, 0, "wish", None]])

        ada.client.link.send(head.replace(b"null" if codec.text else b"\xc0", deep, 1))

        assert (await ada.client.closed()).reason == Reason.PROTOCOL
        assert server.counters.internal_errors == 0


@in_virtual_time
async def test_the_arguments_of_a_request_may_not_be_nested_too_deep_either() -> None:
    async with town() as server:
        ada = await server.guest()

        reply = await ada.client.request("create", kind="hall", properties={"deep": nested(40)})

        assert reply.problem is not None
        assert (reply.problem.code, "nested" in reply.problem.message) == ("invalid", True)


# Keys that collide


def colliding_keys(count: int) -> bytes:
    """A map of MessagePack whose keys are arrays that all have the same hash, as tuples: -1 and -2 have."""
    keys = islice(product(b"\xff\xfe", repeat=12), count)
    return b"\xde" + count.to_bytes(2, "big") + b"".join(b"\x9c" + bytes(key) + b"\x01" for key in keys)


@in_virtual_time
async def test_a_body_whose_keys_collide_is_refused_and_never_becomes_a_dict() -> None:
    async with town() as server:
        ada = await server.seated()

        ada.client.say(Data(1, 1, 0, "wish", Raw(b"\x81\xa4what" + colliding_keys(4_000))))
        await until(lambda: ada.client.all_heard(Data))

        refused = MSGPACK.body_decoder(MessageRefused).decode(ada.client.all_heard(Data)[0].body)
        assert (refused.seq, refused.code) == (1, "invalid")
        assert "a key of a map" in refused.message
        assert server.hall().wished == []


@in_virtual_time
async def test_the_arguments_of_a_request_whose_keys_collide_are_refused_too() -> None:
    async with town() as server:
        ada = await server.guest()
        arguments = b"\x82\xa4kind\xa4hall\xaaproperties\x81\xa1x" + colliding_keys(4_000)

        ada.client.say(Request(1, "create", Raw(arguments)))
        reply = await ada.client.hear(Reply)

        assert reply.problem is not None
        assert (reply.problem.code, "a key of a map" in reply.problem.message) == ("invalid", True)
        assert len(server.rooms) == 0
