"""Where the nodes and the NATS servers run: all on loopback, or each in a network namespace whose links can be cut.

There are three networks, and each process has an interface in those that it needs:

    front    clients — nodes
    back     nodes — NATS servers
    inner    NATS servers — NATS servers

A network is a bridge in the namespace of this process, which was made for it (`enter_namespace`) and goes with it.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from tests.nats_cluster import SIZE, Place

NODES = 3
Link = Literal["front", "back", "inner"]
_NETWORKS: dict[Link, str] = {"front": "10.81.0", "back": "10.82.0", "inner": "10.83.0"}
_NAMES = Path("/run/netns")


def why_no_namespaces() -> str | None:
    """What is missing to have network namespaces here; None if nothing is."""
    if sys.platform != "linux":
        return "only Linux has network namespaces"
    if os.geteuid():
        return "network namespaces need root"
    return None if shutil.which("ip") else "there is no `ip` command (iproute2)"


class Loopback:
    """All on 127.0.0.1; nothing can be cut."""

    can_cut = False

    def prefix(self, node: int) -> Sequence[str]:
        """What stands before the command of a node."""
        return ()

    def host(self, node: int) -> str:
        """Where clients reach a node."""
        return "127.0.0.1"

    def places(self) -> list[Place]:
        """Of the NATS servers."""
        return [Place()] * SIZE


class Namespaces:
    """Each process in a namespace of its own."""

    can_cut = True

    def __init__(self) -> None:
        _NAMES.mkdir(exist_ok=True)
        # In the mount namespace of this process: nobody else sees the names.
        _run("mount", "-t", "tmpfs", "tmpfs", str(_NAMES))
        _ip("link set lo up")
        for name, network in _NETWORKS.items():
            _ip(f"link add {name} type bridge")
            _ip(f"addr add {network}.1/24 dev {name}")
            _ip(f"link set {name} up")
        for node in range(NODES):
            self._make(f"node{node}", {"front": 10 + node, "back": 10 + node})
        for server in range(SIZE):
            self._make(f"nats{server}", {"back": 20 + server, "inner": 20 + server})

    def _make(self, name: str, hosts: dict[Link, int]) -> None:
        _ip(f"netns add {name}")
        _ip(f"-n {name} link set lo up")
        for network, host in hosts.items():
            _ip(f"link add {name}-{network} type veth peer name {network} netns {name}")
            _ip(f"link set {name}-{network} master {network} up")
            _ip(f"-n {name} addr add {_NETWORKS[network]}.{host}/24 dev {network}")
            _ip(f"-n {name} link set {network} up")

    def prefix(self, node: int) -> Sequence[str]:
        return ("ip", "netns", "exec", f"node{node}")

    def host(self, node: int) -> str:
        return f"{_NETWORKS['front']}.{10 + node}"

    def places(self) -> list[Place]:
        back, inner = _NETWORKS["back"], _NETWORKS["inner"]
        return [
            Place(f"{back}.{20 + n}", f"{inner}.{20 + n}", ("ip", "netns", "exec", f"nats{n}")) for n in range(SIZE)
        ]

    def cut(self, name: str, link: Link) -> None:
        """Take a link of "node0" or "nats0" down: nothing arrives, and nobody is told."""
        _ip(f"link set {name}-{link} down")

    def mend(self, name: str, link: Link) -> None:
        """Bring it up again."""
        _ip(f"link set {name}-{link} up")


def _ip(words: str) -> None:
    _run("ip", *words.split())


def _run(*words: str) -> None:
    subprocess.run(words, check=True)
