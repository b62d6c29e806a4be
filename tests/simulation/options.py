"""What a seed decides before anything happens: how many players, how bad the network, how tight the limits."""

from dataclasses import dataclass
from random import Random

from holdfast import Limits
from holdfast.core.limits import KIB

STEPS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One simulated world. Everything else that is left to chance follows from its seed too."""

    seed: int
    # What each player does before the world heals.
    steps: int = STEPS
    players: int
    # Each payload takes this long, and up to the jitter more.
    latency_s: float
    jitter_s: float
    # The mean time between two faults, somewhere.
    fault_s: float
    grace_s: float
    # How long a handler of a slow room takes at most.
    handler_s: float
    tick_hz: float
    limits: Limits

    @classmethod
    def drawn(cls, seed: int, steps: int = STEPS) -> "Options":
        """The world of this seed."""
        random = Random(f"{seed}/options")
        window = random.choice([8, 16, 32])
        return cls(
            seed=seed,
            steps=steps,
            players=random.randint(3, 5),
            latency_s=random.choice([0.001, 0.02, 0.08]),
            jitter_s=random.choice([0.0, 0.01, 0.1]),
            fault_s=random.choice([0.3, 0.6, 1.2]),
            grace_s=random.choice([5.0, 8.0]),
            handler_s=random.choice([0.05, 0.2]),
            tick_hz=random.choice([2.0, 5.0]),
            limits=Limits(
                payload_bytes_max=random.choice([2 * KIB, 64 * KIB]),
                hello_s=1.5,
                auth_s=2.0,
                close_s=0.5,
                window_messages_max=window,
                window_bytes_max=random.choice([2 * KIB, 256 * KIB]),
                kept_messages_max=2 * window + random.choice([0, 32]),
                kept_bytes_max=random.choice([16 * KIB, 1024 * KIB]),
                closing_channels_max=3,
                ack_messages=random.choice([1, 4, 32]),
                ack_s=0.05,
                ping_s=1.0,
                silence_s=3.2,
                write_buffer_bytes_max=16 * KIB,
                requests_in_flight_max=4,
                replies_kept_max=6,
                sessions_per_player_max=4,
                admit_s=2.0,
                turn_s=5.0,
                unjoined_s=10.0,
            ),
        )
