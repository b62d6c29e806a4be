"""Which setting names which store."""

from pathlib import Path

import pytest

from holdfast.core.limits import Limits
from holdfast.stores import ABSENT, MemoryStore, NatsStore, SqliteStore, open_store
from holdfast.stores.opening import shown_store
from tests.cases import every_case


async def test_memory_is_a_store_of_its_own() -> None:
    one, two = open_store("memory:"), open_store("memory:")
    await one.open()
    await two.open()

    await one.put("k", b"", ABSENT)

    assert isinstance(one, MemoryStore)
    assert await two.get("k") is None


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def test_sqlite_names_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    for url in ("sqlite:game.db", f"sqlite:{tmp_path / 'absolute'}", "sqlite:odd name?mode=ro&#.db"):
        store = open_store(url)
        assert isinstance(store, SqliteStore)
        await store.open()
        await store.close()

    assert names_in(tmp_path) == {"game.db", "absolute", "odd name?mode=ro&#.db"}


def test_nats_names_servers_and_a_store_and_is_shown_without_secrets() -> None:
    url = "tls://ada:secret@a:4222,b/arena?replicas=3"

    store = open_store(url, Limits(nats_answer_s=1.0))

    assert isinstance(store, NatsStore)
    assert (shown_store(url), shown_store("sqlite:game.db")) == ("tls://a:4222,b/arena", "sqlite:game.db")


def test_a_store_is_taken_as_it_is() -> None:
    store = MemoryStore()

    assert open_store(store) is store


@every_case("url", ["", "game.db", "sqlite", "sqlite:", "memory", "memory:x", "redis://localhost", "nats:", "nats:a"])
def test_anything_else_is_refused_with_a_list_of_what_there_is(url: str) -> None:
    with pytest.raises(ValueError, match=r'"memory:".*"sqlite:game\.db".*"nats://127\.0\.0\.1:4222"'):
        open_store(url)
