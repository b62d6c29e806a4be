"""Limits for tests and load generators, which send more from one address than any player would."""

from dataclasses import replace

from holdfast.core.limits import Limits

# More than any test uses, and still a number to calculate with.
_PLENTY = 10**12


def generous(limits: Limits | None = None) -> Limits:
    """The same limits, without those on how often and how much a client, an address or a player may do something.

    Limits on memory stay: windows, queues, payloads. So do graces and timeouts.
    """
    return replace(
        limits or Limits(),
        address_share=1.0,
        resume_reserve=0.0,
        unauthenticated_per_address_max=_PLENTY,
        unauthenticated_max=_PLENTY,
        hellos_per_address_burst=_PLENTY,
        hellos_per_address_per_s=_PLENTY,
        failures_per_address_burst=_PLENTY,
        failures_per_address_per_s=_PLENTY,
        guesses_per_address_burst=_PLENTY,
        guesses_per_address_per_s=_PLENTY,
        guesses_per_room_burst=_PLENTY,
        guesses_per_room_per_s=_PLENTY,
        resumes_per_s=_PLENTY,
        sign_ins_per_s=_PLENTY,
        messages_burst=_PLENTY,
        messages_per_s=_PLENTY,
        latest_burst=_PLENTY,
        latest_per_s=_PLENTY,
        requests_burst=_PLENTY,
        requests_per_s=_PLENTY,
        bytes_burst=_PLENTY,
        bytes_per_s=_PLENTY,
        fair_queue_frames_max=_PLENTY,
        rooms_per_player_max=_PLENTY,
    )


UNLIMITED = generous()
"""No rate limits: for tests, benchmarks and simulations, never for a public server."""
