"""What makes a server a node of a cluster: where the nodes meet, and the store that they share."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from holdfast.cluster.nats import NatsBus
from holdfast.cluster.port import Bus
from holdfast.core.limits import NatsLimits
from holdfast.stores.nats import NatsStore
from holdfast.stores.nats.address import SCHEMES, parse_address
from holdfast.stores.port import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster, as one of its nodes has it."""

    place: str
    """Where it is, without secrets."""
    store: Store
    make_bus: Callable[[], Bus]
    has_threads: bool = True
    """Whether the node beats from a thread of its own. Virtual time knows no threads."""
    links: int | None = None
    """The descriptor of a folder in which nodes of this machine have sockets for each other; only they may open it."""


def open_cluster(url: str | Cluster, limits: NatsLimits | None = None) -> Cluster:
    """The cluster of a setting, as in "nats://10.0.0.1,10.0.0.2,10.0.0.3/arena"; nothing is opened yet."""
    if not isinstance(url, str):
        return url
    if url.partition("://")[0] not in SCHEMES:
        raise ValueError(
            f"cluster={url!r}: a cluster needs the address of a NATS server, as in nats://127.0.0.1:4222/arena"
        )
    return Cluster(
        place=str(parse_address(url)),
        store=NatsStore(url, limits=limits),
        make_bus=partial(NatsBus, url, limits=limits),
    )
