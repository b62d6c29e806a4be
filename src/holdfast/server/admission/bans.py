"""The bans of a node: players and ranges of addresses, each until it is lifted or ends."""

import asyncio
import hashlib
import heapq
from datetime import UTC, datetime
from math import inf

from holdfast.core.addresses import Range, RangeTable, read_range
from holdfast.core.errors import Invalid, NotFound, Throttled
from holdfast.core.records import Unreadable, decode_ban, encode
from holdfast.core.tokens import printable
from holdfast.logs import get_logger
from holdfast.schemas.ban import BanInfo, BanPage, BanRecord
from holdfast.schemas.events import BanLifted, Banned
from holdfast.schemas.player import PLAYER_CHARS_MAX
from holdfast.schemas.projection import project
from holdfast.schemas.requests import BAN_UNTIL_MAX, WHY_CHARS_MAX, Ban
from holdfast.server.admission.access_records import AccessRecords
from holdfast.server.context import Context, page_of

log = get_logger("holdfast.server")

_PLAYER, _ADDRESS = "player:", "address:"
# The wall clock may be adjusted: check for ended bans at least this often.
_LOOK_S = 3600.0


def ban_message(ban: BanInfo) -> str:
    """The message to a banned client."""
    until = f" until {datetime.fromtimestamp(ban.until, UTC):%Y-%m-%d %H:%M} UTC" if ban.until else ""
    return f"banned{until}: {ban.why}" if ban.why else f"banned{until}"


def subject_of(player: str, address: str) -> str:
    """The name of a ban's subject; `Invalid` unless exactly one of player and address is given."""
    if bool(player) == bool(address):
        raise Invalid("give either a player or an address")
    if address:
        return f"{_ADDRESS}{banned_range(address)}"
    check_player_id(player)
    return f"{_PLAYER}{player}"


def check_player_id(player_id: str) -> None:
    """Refuse an impossible player id."""
    if not 0 < len(player_id) <= PLAYER_CHARS_MAX:
        raise Invalid(f"player: an id must have 1 to {PLAYER_CHARS_MAX} characters; got {len(player_id)}")
    if player_id in {".", ".."}:
        raise Invalid(f"player: {player_id!r} cannot be a player id")
    try:
        player_id.encode()
    except UnicodeEncodeError:
        raise Invalid("player: not valid Unicode") from None


def banned_range(address: str) -> Range:
    """The range of addresses in a request, or `Invalid`."""
    try:
        return read_range(address)
    except ValueError:
        raise Invalid(
            f"address: {address[:64]!r} is not a range of addresses; use the form 203.0.113.0/24 or 2001:db8::/32"
        ) from None


def key_for(prefix: str, text: str) -> str:
    """The key of a record: short, and valid whatever the player's id is."""
    return f"{prefix}{printable(hashlib.sha256(text.encode()).digest())}"


class Bans:
    """The bans in force."""

    def __init__(self, context: Context, records: AccessRecords) -> None:
        self._clock = context.clock
        self._limits = context.limits
        self._publish = context.publish
        self._records = records
        self._bans: dict[str, BanInfo] = {}
        self._ranges: RangeTable[BanInfo] = RangeTable()
        # Ends of bans, next first; those lifted or replaced meanwhile are skipped.
        self._ends: list[tuple[float, str]] = []
        self._next_look: asyncio.TimerHandle | None = None

    async def load(self) -> None:
        """Load the bans from the store."""
        for entry in await self._records.read("ban"):
            try:
                self._add(project(decode_ban(entry.value), BanInfo))
            except (Unreadable, Invalid) as error:
                log.error("invalid record ignored", key=entry.key, why=error)  # noqa: TRY400 - the message is enough
        self._bans = {ban.subject: ban for ban in sorted(self._bans.values(), key=lambda ban: ban.since)}
        self._watch_ends()

    def stop(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()

    def of(self, player_id: str, address: str) -> BanInfo | None:
        """The ban that applies to a player or an address, the longest if there are several; None if there is none."""
        found = [*self._ranges.around(address)]
        if (of_player := self._bans.get(f"{_PLAYER}{player_id}")) is not None:
            found.append(of_player)
        ban = max(found, key=_end_of, default=None)
        return ban if ban is not None and _end_of(ban) > self._clock.wall_clock() else None

    def all(self) -> list[BanInfo]:
        """The bans in force, oldest first."""
        now = self._clock.wall_clock()
        return [ban for ban in self._bans.values() if _end_of(ban) > now]

    def page(self, limit: int, cursor: str) -> BanPage:
        """A page of them, by subject."""
        now = self._clock.wall_clock()
        page, more = page_of((ban.subject for ban in self._bans.values() if _end_of(ban) > now), limit, cursor)
        return BanPage([self._bans[subject] for subject in page], more)

    def put(self, request: Ban) -> BanInfo:
        """Put a ban in force; it is saved in the background."""
        ban = self._checked(request)
        self._remove(ban.subject)
        self._add(ban)
        self._records.want(key_for("ban/", ban.subject), encode(project(ban, BanRecord)), ban.subject)
        self._watch_ends()
        self._publish(project(ban, Banned))
        return ban

    def lift(self, subject: str) -> None:
        """Lift the ban of "player:ann" or "address:203.0.113.0/24"; `NotFound` if there is none."""
        if subject.startswith(_ADDRESS):
            subject = subject_of("", subject.removeprefix(_ADDRESS))
        if subject not in self._bans:
            raise NotFound(f"there is no ban of {subject[:128]!r}; name it player:ID or address:RANGE")
        self._remove(subject)
        self._records.want(key_for("ban/", subject), None, subject)
        self._publish(BanLifted(subject=subject))

    def heard(self, subject: str, record: BanRecord | None) -> BanInfo | None:
        """Another node has put this ban in force, or lifted it; returns the ban if it is new here."""
        known = self._bans.get(subject)
        ban = project(record, BanInfo) if record is not None else None
        if ban == known:
            return None
        self._remove(subject)
        if ban is not None:
            self._add(ban)
            self._watch_ends()
        return ban

    def _checked(self, request: Ban) -> BanInfo:
        subject = subject_of(request.player, request.address)
        now = self._clock.wall_clock()
        if request.for_s is not None and request.until:
            raise Invalid("give either until or for_s")
        until = request.until if request.for_s is None else now + request.for_s
        if until and not now < until <= BAN_UNTIL_MAX:
            raise Invalid("until: must be in the future and before the year 10000; 0 bans permanently")
        if len(request.why) > WHY_CHARS_MAX:
            raise Invalid(f"why: at most {WHY_CHARS_MAX} characters; got {len(request.why)}")
        most = self._limits.bans_max
        if subject not in self._bans and len(self._bans) >= most:
            raise Throttled(f"{most} bans are in force, which is the limit: lift some, or ban a wider range")
        return BanInfo(subject, request.why, until, now)

    def _add(self, ban: BanInfo) -> None:
        if ban.subject.startswith(_ADDRESS):
            self._ranges.put(banned_range(ban.subject.removeprefix(_ADDRESS)), ban)
        self._bans[ban.subject] = ban
        if ban.until:
            heapq.heappush(self._ends, (ban.until, ban.subject))

    def _remove(self, subject: str) -> None:
        if self._bans.pop(subject, None) is not None and subject.startswith(_ADDRESS):
            self._ranges.remove(banned_range(subject.removeprefix(_ADDRESS)))

    def _ended(self, subject: str) -> None:
        self._remove(subject)
        self._records.drop(key_for("ban/", subject))
        self._publish(BanLifted(subject=subject))

    # Ends of bans

    def _watch_ends(self) -> None:
        self.stop()
        if len(self._ends) > 2 * self._limits.bans_max:
            # Bans that are replaced again and again must not accumulate.
            self._ends = [(ban.until, ban.subject) for ban in self._bans.values() if ban.until]
            heapq.heapify(self._ends)
        if self._ends:
            wait_s = min(max(self._ends[0][0] - self._clock.wall_clock(), 0.0), _LOOK_S)
            self._next_look = self._clock.loop.call_later(wait_s, self._look)

    def _look(self) -> None:
        while self._ends and self._ends[0][0] <= self._clock.wall_clock():
            until, subject = heapq.heappop(self._ends)
            ban = self._bans.get(subject)
            if ban is not None and ban.until == until:
                self._ended(subject)
        self._watch_ends()


def _end_of(ban: BanInfo) -> float:
    return ban.until or inf
