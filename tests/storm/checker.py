"""The checker: reads the histories of a storm, and says which promises were broken.

    python -m tests.storm.checker <folder>

It believes nobody: what the clients were told is compared with what others were told, with what the store holds in the
end, and with what follows from the rules of the game.

lost       acknowledged, and not applied; or a gap in what a client received; or a timer or effect that never came
duplicated    applied, received, rung or counted twice
reordered  applied or received in another order
twins      two rooms with one name, or one idempotency key
overfull   more players in a room than it has seats
forked     two clients, or a client and the store, were told different stories
outcome    a player who had a seat came back, and was not told `resumed`
trail      the records of a room do not form one chain
stuck      something that must happen did not
log        the server logged an error of its own
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.storm.game import PAY_EVERY, RING_EVERY, Event, added
from tests.storm.history import Line, read
from tests.storm.log import errors_in
from tests.storm.streams import Room, Stay
from tests.storm.times import Return, times_to_return
from tests.storm.trail import check_trail


class Violation(NamedTuple):
    """A promise that was broken."""

    kind: str
    what: str


@dataclass
class Findings:
    """What was checked, and what was found."""

    violations: list[Violation] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    returns: list[Return] = field(default_factory=list)
    """After each kill, where nothing else came between."""

    def fail(self, kind: str, what: str) -> None:
        """A promise is broken."""
        self.violations.append(Violation(kind, what))
        self.counts[kind] += 1


@dataclass
class Client:
    """What one client has said of itself."""

    who: str
    sent: int = 0
    acked: int = 0
    is_finished: bool = False
    is_done: bool = False
    back_at: list[float] = field(default_factory=list)


class Checker:
    """Reads one history after the other: what the store holds first, then the clients'."""

    def __init__(self) -> None:
        self.findings = Findings()
        self.clients: dict[str, Client] = {}
        self._rooms: dict[str, Room] = {}
        self._stages: dict[str, str] = {}
        """By their names."""
        self._applied: dict[str, Counter[str]] = defaultdict(Counter)
        self._sums: dict[tuple[str, str], int] = defaultdict(int)

    # The store

    def read_final(self, lines: Iterable[Line]) -> None:
        """What the store holds."""
        for line in lines:
            match line:
                case "room", name, _, _, _, _, first, n, chain:
                    self._rooms[name] = Room(name, self.findings.fail, first=first)
                    self._rooms[name].end(n, chain)
                case "seats", room, seats_max:
                    self._rooms[room].seats_max = seats_max
                case "tally", room, who, count, total, wrong, rung, rung_sum:
                    self._applied[who].update(ops=count, rings=rung)
                    self._sums[who, "ops"] = (self._sums[who, "ops"] + total) % 2**48
                    self._sums[who, "rings"] = (self._sums[who, "rings"] + rung_sum) % 2**48
                    for seq in wrong:
                        self.findings.fail("reordered", f"{room} applied {who}'s {seq} after a later one, or again")
                case "rest", key:
                    self.findings.fail("stuck", f"{key} was never struck off")
                case _:
                    raise ValueError(f"no history has such a line: {line}")

    # Clients

    def read_client(self, who: str, lines: Iterable[Line]) -> None:
        """One client's history."""
        client = self.clients[who] = Client(who)
        stay: Stay | None = None
        for line in lines:
            match line:
                case "got", _, *event:
                    assert stay is not None, f"{who} received something before it joined"
                    self.findings.counts["down"] += 1
                    stay.got(Event(*event))
                case "joined", _, room:
                    stay = Stay(who, self._room(room))
                case "report", _, n:
                    assert stay is not None, f"{who} received something before it joined"
                    if stay.n < n:
                        self.findings.fail("lost", f"{who} got {stay.n} events of {stay.room.name}, which told {n}")
                case _:
                    self._lived(client, line)
        self.findings.counts["up"] += client.acked
        if not client.is_done:
            self.findings.fail("stuck", f"{who} was not done")

    def _lived(self, client: Client, line: Line) -> None:
        match line:
            case "sent", _, seq:
                client.sent = seq
            case "acked", _, seq:
                client.acked = max(client.acked, seq)
            case "outcome", at, kind, replayed, reason, was_seated:
                client.back_at.append(at)
                self.findings.counts.update(resumes=1, replayed=replayed)
                if was_seated and kind != "resumed":
                    self.findings.fail("outcome", f"{client.who} was told {kind} {reason}")
            case "strange", _, what:
                self.findings.fail("outcome", f"{client.who} was told {what}")
            case "finished", _:
                client.is_finished = True
            case "done", _:
                client.is_done = True
            case "stage", _, name, room, code:
                self.findings.counts["stages"] += bool(room)
                if room and self._stages.setdefault(name, room) != room:
                    self.findings.fail("twins", f"{name} is {room} for {client.who}, and {self._stages[name]}")
                if code not in {"", "name_taken", "throttled"}:
                    self.findings.fail("twins", f"{client.who} was told {code} when it asked for {name}")
            case "dropped" | "left" | "refused", *_:
                self.findings.counts[line[0]] += 1
            case _:
                raise ValueError(f"no history has such a line: {line}")

    def _room(self, name: str) -> Room:
        if name not in self._rooms:
            self._rooms[name] = Room(name, self.findings.fail)
        return self._rooms[name]

    # Both

    def check_operations(self) -> None:
        """What was acknowledged is applied; what is applied was sent; all of it once. Timers rang once."""
        for who, client in self.clients.items():
            count = self._applied[who]["ops"]
            if count < client.acked:
                self.findings.fail("lost", f"{who}: {client.acked} were acknowledged, {count} were applied")
            if count > client.sent:
                self.findings.fail("duplicated", f"{who}: {client.sent} were sent, {count} were applied")
            self._compare(who, "ops", range(1, count + 1))
            if client.is_finished:
                self._compare(who, "rings", range(RING_EVERY, count + 1, RING_EVERY))
                self.findings.counts["rings"] += count // RING_EVERY
        for who in self._applied.keys() - self.clients.keys():
            self.findings.fail("duplicated", f"{who} was never there, and yet something of theirs was applied")
        Room.check_events(self._rooms.values(), self.findings.fail)
        for room in self._rooms.values():
            room.check_seats()

    def _compare(self, who: str, what: str, expected: range) -> None:
        total = 0
        for seq in expected:
            total = added(total, who, seq)
        found = self._applied[who][what]
        if found != len(expected):
            kind = "lost" if found < len(expected) else "duplicated"
            self.findings.fail(kind, f"{who}: {found} {what} instead of {len(expected)}")
        elif total != self._sums[who, what]:
            self.findings.fail("lost", f"{who}: {found} {what}, but not the right ones: some lost, as many duplicated")

    def check_effects(self, lines: Iterable[Line]) -> None:
        """Each effect was carried out, and always under the same key, which no other has."""
        keys: dict[tuple[str, int], str] = {}
        paid: dict[str, tuple[str, int]] = {}
        for _, _, key, who, seq in lines:
            self.findings.counts["payments"] += 1
            if keys.setdefault((who, seq), key) != key:
                self.findings.fail("duplicated", f"{who}'s {seq} was paid as {keys[who, seq]} and as {key}")
            if paid.setdefault(key, (who, seq)) != (who, seq):
                self.findings.fail("forked", f"{key} paid {paid[key]} and {(who, seq)}")
        for who, client in self.clients.items():
            due = set(range(PAY_EVERY, self._applied[who]["ops"] + 1, PAY_EVERY))
            found = {seq for name, seq in keys if name == who}
            for seq in sorted(due - found) if client.is_finished else ():
                self.findings.fail("lost", f"{who}'s {seq} was never paid")
            for seq in sorted(found - due):
                self.findings.fail("duplicated", f"{who}'s {seq} was paid, and is not due")
        self.findings.counts["effects"] = len(paid)


def check(folder: Path) -> Findings:
    """All histories of a run."""
    checker = Checker()
    findings = checker.findings
    final = folder / "final.jsonl"
    final_lines = list(read(final)) if final.exists() else []
    if not final_lines:
        findings.fail("stuck", "there is no final.jsonl: the run did not come to its end")
    checker.read_final(final_lines)
    for file in sorted(folder.glob("client-*.jsonl")):
        checker.read_client(file.stem.removeprefix("client-"), read(file))
    checker.check_operations()
    checker.check_effects(read(folder / "effects.jsonl") if (folder / "effects.jsonl").exists() else [])
    trails = {int(file.stem.removeprefix("audit-")): read(file) for file in folder.glob("audit-*.jsonl")}
    check_trail(trails, final_lines, findings.fail, findings.counts)
    storm = list(read(folder / "storm.jsonl"))
    ready = {line[2] for line in storm if line[0] == "ready"}
    for line in storm:
        findings.counts[line[0]] += 1
        findings.counts["kill early"] += line[0] == "kill" and line[2] not in ready
        if line[0] == "fault":
            findings.fail("stuck", line[2])
    for error in errors_in(folder, storm):
        findings.fail("log", error)
    findings.returns = times_to_return(storm, [client.back_at for client in checker.clients.values()])
    return findings


if __name__ == "__main__":
    from tests.storm.summary import summary

    found = check(Path(sys.argv[1]))
    sys.stdout.write(summary(found) + "\n")
    sys.exit(bool(found.violations))
