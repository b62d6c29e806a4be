"""Links between two nodes, for clients whose connection is on one and whose session is on the other."""

from holdfast.cluster.relay.link import Caller, RelayedLink
from holdfast.cluster.relay.relay import ClientRelay, RelayListener
from holdfast.cluster.relay.splice import splice

__all__ = ["Caller", "ClientRelay", "RelayListener", "RelayedLink", "splice"]
