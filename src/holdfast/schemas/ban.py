"""Bans as data: the same fields in an answer and in the store."""

from msgspec import Struct


class BanInfo(Struct, frozen=True, omit_defaults=True):
    """The ban of "player:ann" or "address:203.0.113.0/24". An `until` of 0 means permanent."""

    subject: str
    why: str = ""
    until: float = 0.0
    since: float = 0.0


class BanRecord(BanInfo, frozen=True, array_like=True):
    """A ban as it is saved. Times are on the wall clock."""


class BanPage(Struct, frozen=True, omit_defaults=True):
    """One page of the bans, by subject; the cursor fetches the next page, and is empty on the last."""

    bans: list[BanInfo]
    cursor: str = ""
