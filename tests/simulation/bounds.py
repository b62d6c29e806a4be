"""I9: everything that piles up, measured against its limit."""

from typing import TYPE_CHECKING

from holdfast.core.room import context_of

if TYPE_CHECKING:
    from tests.simulation.world import World


def sample(world: "World") -> None:
    """Look at everything that could grow."""
    checker, limits = world.checker, world.options.limits
    checker.count("samples")
    for session in [session for server in world.running for session in server.sessions]:
        for channel in session.channels():
            in_flight = channel.sent - channel.acked
            checker.expect("I9", channel.kept <= limits.kept_messages_max, f"{channel.kept} messages kept by {session}")
            checker.expect(
                "I9", channel.kept_bytes <= limits.kept_bytes_max, f"{channel.kept_bytes} B kept by {session}"
            )
            checker.expect(
                "I9", in_flight <= limits.window_messages_max, f"{in_flight} messages in flight to {session}"
            )
        checker.expect("I9", len(session.closing) <= limits.closing_channels_max, f"{session} closes {session.closing}")
        checker.expect("I9", len(session.replies) <= limits.replies_kept_max, f"{session} keeps {len(session.replies)}")
    for room in world.rooms():
        checker.expect(
            "I9", context_of(room).seats.used <= room.max_players, f"{room} has {context_of(room).seats.used} seats"
        )
        checker.expect("I9", len(room.spectators) <= room.max_spectators, f"{room} has {room.spectators}")
    for link in world.network.links:
        for side in ("client", "server"):
            waiting = link.buffered_bytes(side)
            most = limits.write_buffer_bytes_max + 2 * limits.window_bytes_max + limits.payload_bytes_max
            checker.expect("I9", waiting <= most, f"{waiting} B wait on a link of the {side}")
    for process in world.processes:
        for sitting in process.sittings() if not process.is_over else ():
            awaiting = process.session.protocol.unacked(sitting.room.channel)
            checker.expect("I9", awaiting <= limits.window_messages_max, f"{process.label} keeps {awaiting}")
