"""A cluster: which nodes live, which of them is next to own a room, and links between them for clients (`relay`)."""

from holdfast.cluster.heart import Heart
from holdfast.cluster.membership import ClusterMember, MemberChange, MemberList, MemberState
from holdfast.cluster.nats import NatsBus
from holdfast.cluster.port import Bus, BusError, NobodyThere, NoReply
from holdfast.cluster.watch import MemberWatch

__all__ = [
    "Bus",
    "BusError",
    "ClusterMember",
    "Heart",
    "MemberChange",
    "MemberList",
    "MemberState",
    "MemberWatch",
    "NatsBus",
    "NoReply",
    "NobodyThere",
]
