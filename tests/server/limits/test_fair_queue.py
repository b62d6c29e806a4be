"""A client that sends much at once is read in portions, in order; nothing is lost."""

from holdfast import Reason
from holdfast.schemas.frames import Bye, Reply
from tests.server.durability.bench import in_virtual_time, until
from tests.server.limits.street import later, town

PORTIONS = {"fair_queue_frames_max": 8, "fair_queue_portion_max": 2}


@in_virtual_time
async def test_a_payload_with_many_messages_is_heard_in_portions_and_in_order() -> None:
    async with town(**PORTIONS) as server:
        ada = await server.seated()

        ada.say_at_once(50)
        await later(0.001)

        assert server.hall().heard == list(range(1, 9))
        await until(lambda: server.hall().heard == list(range(1, 51)))


@in_virtual_time
async def test_what_is_said_afterwards_comes_afterwards() -> None:
    async with town(**PORTIONS) as server:
        ada = await server.seated()

        ada.say_at_once(50)
        ada.say(3)
        ada.say_at_once(50)
        ada.client.ask("leave")
        await ada.client.hear(Reply)

        assert server.hall().heard == list(range(1, 104))


@in_virtual_time
async def test_what_was_said_before_a_link_broke_is_heard_before_anybody_hears_of_that() -> None:
    async with town(**PORTIONS) as server:
        ada = await server.seated()
        session = server.sessions.get(ada.welcome.session)
        assert session is not None

        ada.say_at_once(50)
        await later(0.001)
        (link,) = server.links
        link.cut()
        await later(0.001)

        assert session.status == "connected"
        await until(lambda: session.status == "disconnected")
        assert server.hall().heard == list(range(1, 51))


@in_virtual_time
async def test_who_says_much_and_goodbye_is_heard_to_the_end() -> None:
    async with town(**PORTIONS) as server:
        ada = await server.seated()
        hall = server.hall()

        ada.say_at_once(50)
        ada.client.say(Bye())
        await later(0.001)
        ada.client.cut()
        await until(lambda: len(server.sessions) == 0)

        assert hall.heard == list(range(1, 51))


@in_virtual_time
async def test_what_waits_of_a_connection_that_the_server_closes_is_not_heard() -> None:
    async with town(**PORTIONS) as server:
        ada = await server.seated()
        session = server.sessions.get(ada.welcome.session)
        assert session is not None
        ada.say_at_once(50)
        await later(0.001)

        server.machine.call(session.disconnect)

        assert (await ada.client.closed()).reason == Reason.DISCONNECTED
        await later(5.0)
        assert server.hall().heard == list(range(1, 9))
        assert len(server.parts.connections) == 0


@in_virtual_time
async def test_who_is_ahead_is_not_read_and_others_are() -> None:
    async with town(fair_queue_ahead_s=0.01) as server:
        ada, bob = await server.seated("ada"), await server.seated("bob")

        ada.say(500)
        bob.say(1)
        await later(0.002)

        assert ada.client.link.buffered_bytes > 0
        assert bob.client.link.buffered_bytes == 0
        await until(lambda: len(server.hall().heard) == 501)
        assert ada.client.link.buffered_bytes == 0
        assert server.told == []


@in_virtual_time
async def test_a_link_that_breaks_while_it_must_not_be_heard_is_forgotten() -> None:
    async with town(hellos_per_address_burst=1, hellos_per_address_per_s=0.01, hello_delay_s=1.0) as server:
        await server.guest("ada")
        late = [await server.call(f"late {number}") for number in range(5)]
        await later(0.1)

        for client in late:
            client.cut()
        await later(5.0)

        assert len(server.parts.connections) == 1
        assert len(server.links) == 1


@in_virtual_time
async def test_a_server_stops_in_order_while_somebody_waits() -> None:
    async with town(**PORTIONS) as server:
        ada = await server.seated()
        ada.say_at_once(50)
        await later(0.001)

        await server.stop()

        assert (await ada.client.closed()).reason == Reason.STOPPING
