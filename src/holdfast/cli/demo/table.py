"""What the demo shows: a table with a row per session, lines where there is no terminal, and the last word."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from holdfast.cli.demo.bots import Contestant, Npc
from holdfast.cli.demo.show import Show

# From this width on there is room for what a player keeps: the ship and the coins.
_WIDE_COLUMNS = 108
# Lines of the screen around the rows: a title, a head, two rules, the totals, an explanation, the cursor.
_FRAME_LINES = 9

_EXPLANATION = (
    "Each drop is a socket that was cut. The seat is held, the session resumes; both\n"
    "ends number their messages and count what comes: lost and doubled must stay 0."
)
_STATUS_STYLES = {"connected": "green", "disconnected": "yellow", "ended": "red"}
_SEAT_STYLES = {"taken": "green", "held": "yellow", "freed": "red"}


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums over all sessions."""

    sessions: int
    away: int
    drops: int
    resumes: int
    sent: int
    received: int
    replayed: int
    lost: int
    doubled: int
    refused: int
    ended: int
    latency_ms: float

    @classmethod
    def of(cls, contestants: Sequence[Contestant]) -> "Totals":
        """Add up."""
        sessions = [each.player.session for each in contestants]
        latencies = [session.latency_ms for session in sessions if session.latency.samples]
        return cls(
            sessions=len(sessions),
            away=sum(session.status == "disconnected" for session in sessions),
            drops=sum(session.drops for session in sessions),
            resumes=sum(session.resumes for session in sessions),
            sent=sum(each.brain.sent for each in contestants),
            received=sum(each.brain.received for each in contestants),
            replayed=sum(session.replayed for session in sessions),
            lost=sum(each.lost for each in contestants),
            doubled=sum(each.doubled for each in contestants),
            refused=sum(each.brain.refused for each in contestants),
            ended=sum(each.error is not None for each in contestants),
            latency_ms=sum(latencies) / len(latencies) if latencies else 0.0,
        )

    @property
    def is_whole(self) -> bool:
        """Whether all promises were kept."""
        return not (self.lost or self.doubled or self.refused or self.ended)


def picture(show: Show, console: Console) -> RenderableType:
    """Everything at a glance, cut to what fits in the terminal."""
    contestants = show.contestants
    rows_max = max(console.height - _FRAME_LINES, 3) if console.is_terminal else len(contestants)
    hidden = max(len(contestants) - rows_max, 0)
    shown = contestants[: len(contestants) - hidden]
    table = _table(shown, Totals.of(contestants), is_wide=console.width >= _WIDE_COLUMNS, hidden=hidden)
    return Group(_title(show), table, Text(_EXPLANATION, style="dim"))


def line(show: Show) -> str:
    """One moment in one line."""
    total = Totals.of(show.contestants)
    return (
        f"{show.elapsed_s:5.1f} s  {total.sessions} sessions, {total.away} away · drops {total.drops}"
        f" · sent {total.sent} · received {total.received} · replayed {total.replayed}"
        f" · lost {total.lost} · doubled {total.doubled}"
    )


def verdict(show: Show) -> Text:
    """The last word."""
    total = Totals.of(show.contestants)
    text = Text(
        f"{show.elapsed_s:.0f} s: {total.drops:,} drops, {total.resumes:,} resumes, {total.sent:,} messages sent,"
        f" {total.received:,} received, {total.replayed:,} replayed.\n"
    )
    text.append(
        f"{total.lost:,} lost, {total.doubled:,} doubled.", style="bold green" if total.is_whole else "bold red"
    )
    if total.refused:
        text.append(f" {total.refused:,} refused or not understood.", style="bold red")
    for each in show.contestants:
        if each.error is not None:
            text.append(f"\n{each.name}: {each.error}", style="red")
    return text


def _title(show: Show) -> Text:
    settings = show.settings
    cuts = f"a link is cut every {settings.cut_every_s:g} s" if settings.cut_every_s else "no link is cut"
    text = f" · {settings.bots} bots · {cuts} · {show.elapsed_s:.0f} s · {show.phase}"
    return Text.assemble(("Holdfast demo", "bold"), text)


def _table(contestants: Sequence[Contestant], total: Totals, *, is_wide: bool, hidden: int) -> Table:
    gap = 1 if is_wide else 0
    table = Table(box=box.SIMPLE, show_footer=True, show_edge=False, pad_edge=False, padding=(0, gap, 0, 0))
    held = sum(each.player.seat.value == "held" for each in contestants)
    table.add_column("player", Text(f"all {total.sessions}"), no_wrap=True)
    table.add_column("status", Text(f"{total.away} away"), min_width=len("disconnected"))
    table.add_column("seat", Text(f"{held} held" if not hidden else ""), min_width=6)
    for heading, footer in (
        ("drops", str(total.drops)),
        ("ms", f"{total.latency_ms:.1f}"),
        ("sent", str(total.sent)),
        ("received", str(total.received)),
        ("replayed", str(total.replayed)),
        ("lost", _count(total.lost)),
        ("doubled", _count(total.doubled)),
    ):
        table.add_column(heading, footer, justify="right", no_wrap=True)
    if is_wide:
        table.add_column("owns", no_wrap=True)
        table.add_column("coins", justify="right")
    for each in contestants:
        table.add_row(*_row(each, is_wide=is_wide))
    if hidden:
        table.add_row(Text(f"+{hidden} more", style="dim"))
    return table


def _row(contestant: Contestant, *, is_wide: bool) -> list[RenderableType]:
    player, brain = contestant.player, contestant.brain
    session = player.session
    name = Text(contestant.name)
    if isinstance(contestant, Npc):
        name.append(" npc", style="dim")
    cells: list[RenderableType] = [
        name,
        Text(session.status, style=_STATUS_STYLES.get(session.status, "")),
        Text(player.seat.value, style=_SEAT_STYLES.get(player.seat.value, "")),
        str(session.drops),
        f"{session.latency_ms:.1f}" if session.latency.samples else Text("–", style="dim"),
        str(brain.sent),
        str(brain.received),
        str(session.replayed),
        _count(contestant.lost),
        _count(contestant.doubled),
    ]
    if is_wide:
        cells += [", ".join(sorted(player.owned)), str(player.data.coins)]
    return cells


def _count(wrong: int) -> Text:
    return Text(str(wrong), style="bold red" if wrong else "green")
