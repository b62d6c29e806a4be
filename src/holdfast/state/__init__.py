"""Shared state: what is noted of a room's values, what has changed, and the mirror that follows."""

from holdfast.state.areas import Area, AreaEncoder, AreaPlan, NotedAreas, area_plans
from holdfast.state.encoding import AS_JSON, AS_MSGPACK, Dialect, encode_json, encode_msgpack
from holdfast.state.errors import NotANode, OutOfSync, Unshareable
from holdfast.state.marked import is_seen, marked_paths
from holdfast.state.markers import F32, Areas, Hidden, Private
from holdfast.state.memento import CannotUndo, Memento, Mementos, Restore, path_to
from holdfast.state.mirror import Mirror
from holdfast.state.nodes import DEPTH_MAX, Changed, Node, apply
from holdfast.state.parts import Parts, fields_of, read_parts
from holdfast.state.plan import (
    Audience,
    Shadow,
    SharedPlan,
    Tracker,
    has_private,
    has_secrets,
    is_secret,
    secret_fields,
)
from holdfast.state.splitting import FORGET_FIRST, MORE_FOLLOWS, split_whole

__all__ = [
    "AS_JSON",
    "AS_MSGPACK",
    "DEPTH_MAX",
    "F32",
    "FORGET_FIRST",
    "MORE_FOLLOWS",
    "Area",
    "AreaEncoder",
    "AreaPlan",
    "Areas",
    "Audience",
    "CannotUndo",
    "Changed",
    "Dialect",
    "Hidden",
    "Memento",
    "Mementos",
    "Mirror",
    "Node",
    "NotANode",
    "NotedAreas",
    "OutOfSync",
    "Parts",
    "Private",
    "Restore",
    "Shadow",
    "SharedPlan",
    "Tracker",
    "Unshareable",
    "apply",
    "area_plans",
    "encode_json",
    "encode_msgpack",
    "fields_of",
    "has_private",
    "has_secrets",
    "is_secret",
    "is_seen",
    "marked_paths",
    "path_to",
    "read_parts",
    "secret_fields",
    "split_whole",
]
