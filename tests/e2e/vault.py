"""A game that is given every kind of secret, and fails with them in its hands. Served by test_secrets.py."""

import base64
import logging
import os
from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from holdfast import Message, Player, PlayerData, Room, Server, Tcp, WebSocket, on
from holdfast.http.api import ApiKey, HttpApi
from holdfast.identity import Approach, Argon2Settings, Guest, Hook, Password, Tickets
from holdfast.observability.tracing import Tracing


class Unlock(Message):
    """What a player says to open the vault; it fails."""

    password: str


class Knock(Message):
    """What a player says to be heard."""


class Vault(Room[PlayerData]):
    """A room whose code has secrets in its variables when it fails."""

    durability = "commit"

    @on(Unlock)
    def try_to_open(self, player: Player[PlayerData], unlock: Unlock) -> None:
        """Fail, with the password in a variable."""
        tried = unlock.password
        if os.environ.get("VAULT_LEAKS"):
            # As somebody writes it who means well: it cannot be read like that, can it?
            logging.getLogger("vault").warning("tried %s", base64.b64encode(f"password={tried}".encode()).decode())
        raise RuntimeError("the vault is stuck")

    @on(Knock)
    def knock(self, player: Player[PlayerData], knock: Knock) -> None:
        """Answer."""
        player.send(knock)


async def approve(credential: str, approach: Approach) -> str:
    """Fail, with the credential in a variable and in what the failure says."""
    row = {"credential": credential}
    raise LookupError(f"no row {row!r} for {approach.address}")


def _tracing() -> Tracing:
    provider = TracerProvider()
    spans = Path("spans.txt").open("w", encoding="utf-8")  # noqa: SIM115 - open until the process ends
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=spans)))
    return Tracing(tracer_provider=provider, sample=1.0)


server = Server(
    [Vault],
    listen=[WebSocket(port=0), Tcp(port=0)],
    auth=[Guest(), Password(settings=Argon2Settings(memory_kib=64, passes=1)), Tickets(), Hook(approve)],
    secret=os.environ["VAULT_SECRET"].encode(),
    store="sqlite:vault.db",
    http=HttpApi(port=0, keys=[ApiKey(os.environ["VAULT_API_KEY"], ["admin"])]),
    tracing=_tracing(),
)
