"""What makes a server a node of a cluster: where the nodes meet, and the store that they share."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import urlsplit

from holdfast.cluster.nats import NatsBus
from holdfast.cluster.port import Bus
from holdfast.core.limits import NatsLimits
from holdfast.stores.nats import NatsStore
from holdfast.stores.nats.address import SCHEMES, parse_address
from holdfast.stores.port import Store

_DIALED = frozenset({"ws", "wss", "tcp", "tcps"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster, as one of its nodes has it."""

    place: str
    """Where it is, without secrets."""
    store: Store
    make_bus: Callable[[], Bus]
    has_threads: bool = True
    """Whether the node beats from a thread of its own. Virtual time knows no threads."""
    address: str = ""
    """Where clients reach this node and no other; empty if there is no such address."""
    links: int | None = None
    """The descriptor of a folder in which nodes of this machine have sockets for each other; only they may open it."""


def _check_address(url: str) -> None:
    """The address that a node advertises; `ValueError` for what no client could dial."""
    try:
        parts = urlsplit(url)
        is_dialed = parts.scheme in _DIALED and bool(parts.hostname) and parts.port != 0
        is_more = "@" in parts.netloc or bool(parts.query or parts.fragment)
    except ValueError:
        is_dialed, is_more = False, False
    if not is_dialed or is_more:
        raise ValueError(f"advertise={url!r}: clients need an address such as wss://node-a.example")


def open_cluster(url: str | Cluster, limits: NatsLimits | None = None, *, address: str = "") -> Cluster:
    """The cluster of a setting, as in "nats://10.0.0.1,10.0.0.2,10.0.0.3/arena"; nothing is opened yet. `address` is
    where clients reach this node alone."""
    if address:
        _check_address(address)
    if not isinstance(url, str):
        return replace(url, address=address or url.address)
    if url.partition("://")[0] not in SCHEMES:
        raise ValueError(
            f"cluster={url!r}: a cluster needs the address of a NATS server, as in nats://127.0.0.1:4222/arena"
        )
    return Cluster(
        place=str(parse_address(url)),
        store=NatsStore(url, limits=limits),
        make_bus=partial(NatsBus, url, limits=limits),
        address=address,
    )
