"""Three real NATS servers that are one cluster: what is acknowledged is on the disks of two of them."""

import json
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.deadlines import DEADLINE_S
from tests.nats_server import NatsServer
from tests.ports import free_ports

SIZE = 3
_LOOK_S = 0.05
_ROUTES = """
server_name: {name}
cluster {{ name: storm, listen: "{host}:{port}", routes: [{routes}] }}
"""


class Place(NamedTuple):
    """Where one of them runs."""

    host: str = "127.0.0.1"
    inner: str = "127.0.0.1"
    """Where the other two reach it."""
    prefix: Sequence[str] = ()


class NatsCluster:
    """The servers, by their places 0, 1 and 2; each can be killed, and started again on the same ports."""

    def __init__(self, folder: Path, places: Sequence[Place] = (Place(),) * SIZE) -> None:
        ports = free_ports(3 * SIZE)
        routes = ", ".join(f'"nats://{place.inner}:{port}"' for place, port in zip(places, ports, strict=False))
        self.servers = []
        for n, place in enumerate(places):
            own = folder / f"nats-{n}"
            own.mkdir(parents=True)
            more = _ROUTES.format(name=f"n{n}", host=place.inner, port=ports[n], routes=routes)
            server = NatsServer(own, host=place.host, prefix=place.prefix, more=more)
            server.port, server.http = ports[SIZE + n], ports[2 * SIZE + n]
            self.servers.append(server)

    def start(self) -> None:
        """Start all of them, and wait until they can make a stream."""
        for server in self.servers:
            server.start()
        deadline = time.monotonic() + DEADLINE_S
        while not any(self._jsz(server).get("meta_cluster", {}).get("leader") for server in self.servers):
            if time.monotonic() > deadline:
                raise RuntimeError("the NATS servers find no leader")
            time.sleep(_LOOK_S)

    def url(self, name: str) -> str:
        """The address of a store or a cluster with this name."""
        places = ",".join(server.url.removeprefix("nats://") for server in self.servers)
        return f"nats://{places}/{name}?insecure=yes&monitor={','.join(server.monitor for server in self.servers)}"

    def leader(self) -> int | None:
        """Which of them leads the only stream, as far as one of them knows."""
        for server in self.servers:
            for account in self._jsz(server, "?streams=true").get("account_details", ()):
                for stream in account.get("stream_detail", ()):
                    if name := stream.get("cluster", {}).get("leader"):
                        return int(name.removeprefix("n"))
        return None

    def stop(self) -> None:
        """Nothing on them is needed any more."""
        for server in self.servers:
            server.kill()

    @staticmethod
    def _jsz(server: NatsServer, query: str = "") -> dict:  # type: ignore[type-arg]  # as JSON has it
        if not server.is_running:
            return {}
        try:
            with urllib.request.urlopen(f"{server.monitor}/jsz{query}", timeout=1.0) as answer:  # noqa: S310 - our own server
                found: dict = json.load(answer)  # type: ignore[type-arg]  # as above
        except OSError:
            return {}
        return found
