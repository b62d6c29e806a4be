"""The client's end of datagrams: what it makes of the terms that a server offers."""

from base64 import urlsafe_b64encode
from typing import Any, NoReturn

import pytest
from msgspec.structs import replace

from holdfast.core.limits import Limits
from holdfast.schemas.frames import Datagrams
from holdfast.testing import run
from holdfast.transports.port import TransportLimits
from holdfast.transports.udp.client import ClientPath

SECRET = urlsafe_b64encode(bytes(32)).rstrip(b"=").decode()
OFFER = Datagrams(id="01" * 8, secret=SECRET, port=7781, bytes_max=1100, ping_s=1.0, silence_s=3.0)


async def never(*_: Any) -> NoReturn:
    raise OSError("no UDP here")


def path(offer: Datagrams) -> None:
    async def main() -> None:
        made = ClientPath(offer, "127.0.0.1", never, lambda _: None, TransportLimits.of(Limits()))
        assert not made.is_open
        assert not made.send(b"x")

    run(main())


def test_a_good_offer_is_taken_and_until_it_is_proven_the_stream_is_used() -> None:
    path(OFFER)


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "01"},
        {"id": "no hex"},
        {"secret": ""},
        {"secret": "*" * 43},
        {"secret": SECRET[:-2]},
        {"port": 0},
        {"port": 65_536},
        {"ping_s": 0.0},
        {"ping_s": float("nan")},
        {"ping_s": 3.0},
        {"silence_s": float("nan")},
        {"silence_s": float("inf")},
    ],
)
def test_an_offer_that_makes_no_sense_or_would_make_the_client_flood_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="datagrams"):
        path(replace(OFFER, **changes))
