"""The verdict of the soak can fail: what grows is found, what only wavers is not."""

from random import Random

from tests.soak.verdict import READINGS_MIN, Row, findings

MIB = 1024 * 1024
FLAT = Row(0.0, 60.0 * MIB, 4.0 * MIB, 40, 5, 1.0, 1.0)


def grown(rows: list[Row]) -> list[str]:
    return [each.name for each in findings(rows) if not each.is_flat]


def test_what_stays_is_flat() -> None:
    rows = [FLAT._replace(minute=float(number)) for number in range(40)]

    assert len(findings(rows)) == 6
    assert grown(rows) == []


def test_what_grows_only_while_it_warms_up_is_flat() -> None:
    rows = [FLAT._replace(memory_bytes=min(60.0, 30.0 + 2 * number) * MIB) for number in range(40)]

    assert grown(rows) == []


def test_what_wavers_is_flat() -> None:
    random = Random(1)
    rows = [FLAT._replace(cpu_commit=1.0 + random.uniform(-0.2, 0.2)) for _ in range(40)]
    # As a machine that eight others use has measured it.
    measured = [1.21, 1.06, 0.95, 1.07, 0.99, 1.08, 1.00, 0.81, 0.95, 1.04, 1.05, 1.14, 0.91]

    assert grown(rows) == []
    assert grown([FLAT._replace(cpu_memory=ratio) for ratio in measured]) == []


def test_a_leak_of_each_kind_is_found() -> None:
    def rows_of(field: str, each: float) -> list[Row]:
        return [FLAT._replace(**{field: getattr(FLAT, field) + number * each}) for number in range(40)]

    assert grown(rows_of("memory_bytes", 0.8 * MIB)) == ["memory"]
    assert grown(rows_of("store_bytes", 0.1 * MIB)) == ["store"]
    assert grown(rows_of("descriptors", 0.5)) == ["descriptors"]
    assert grown(rows_of("tasks", 0.3)) == ["tasks"]
    assert grown(rows_of("cpu_memory", 0.02)) == ["CPU per message, memory"]
    assert grown(rows_of("cpu_commit", 0.02)) == ["CPU per message, commit"]


def test_a_short_run_has_no_verdict() -> None:
    assert findings([FLAT] * (READINGS_MIN - 1)) == []
    assert len(findings([FLAT] * READINGS_MIN)) == 6
