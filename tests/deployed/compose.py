"""The services of a Compose file as processes, each with a network, a host name and a root directory of its own.

What the file says is used as it is: command, environment, volumes, addresses, health checks, the time to stop. What an
image would bring comes from this machine: its file system, seen through an overlay that keeps what is written.
"""

import asyncio
import itertools
import os
import re
import resource
import shlex
import signal
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml  # type: ignore[import-untyped]  # has no types of its own

FILES_MAX = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
"""How many files a process may open here."""
_BRIDGE = "cluster"
_RESTART_S = 0.1
_NAME_SERVER = "127.0.0.11"
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")

_START = """
set -e
cd {place}
mount -t tmpfs tmpfs written
mkdir written/upper written/work
mount -t overlay overlay -o lowerdir=/,upperdir={place}/written/upper,workdir={place}/written/work root
cp hosts root/etc/hosts
{mounts}
for each in proc dev; do mount --rbind /$each {place}/root/$each; done
hostname {name}
exec {limits} chroot {place}/root /usr/bin/env -i {environment} setpriv --reuid={user} --regid={user} --clear-groups \
    /bin/sh -c 'cd "$0" && exec "$@"' {folder} {command}
"""


class Image(NamedTuple):
    """What an image brings besides its files."""

    entrypoint: tuple[str, ...]
    command: tuple[str, ...] = ()
    user: int = 0
    folder: str = "/"


class Services:
    """The services of one file, in the network namespace of this process."""

    def __init__(self, file: Path, work: Path, environment: Mapping[str, str], images: Mapping[str, Image]) -> None:
        """`images` are found by how their names begin; the empty one is that of services that are built."""
        self._file = file
        self._work = work
        self._images = images
        content = yaml.safe_load(substituted(file.read_text("utf-8"), environment))
        self.all: dict[str, dict[str, Any]] = content["services"]
        [network] = content["networks"].values()
        self._subnet = network["ipam"]["config"][0]["subnet"].rpartition(".")[0]
        self.addresses = self._addresses()
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        self._wanted: set[str] = set()
        self._watching: dict[str, asyncio.Task[None]] = {}
        self._helpers: list[asyncio.subprocess.Process] = []

    def _addresses(self) -> dict[str, str]:
        fixed = {
            name: each["ipv4_address"]
            for name, service in self.all.items()
            if isinstance(service["networks"], dict)
            for each in service["networks"].values()
        }
        free = (f"{self._subnet}.{n}" for n in itertools.count(10) if f"{self._subnet}.{n}" not in fixed.values())
        return {name: fixed.get(name) or next(free) for name in self.all}

    async def open(self) -> None:
        """Make the network, with this process at its first address."""
        await run("mkdir", "-p", "/run/netns")
        # In the mount namespace of this process: nobody else sees the names.
        await run("mount", "-t", "tmpfs", "tmpfs", "/run/netns")
        await ip("link set lo up")
        await ip(f"link add {_BRIDGE} type bridge")
        await ip(f"addr add {self._subnet}.1/24 dev {_BRIDGE}")
        await ip(f"link set {_BRIDGE} up")
        for number, (name, address) in enumerate(self.addresses.items()):
            await ip(f"netns add {name}")
            await ip(f"-n {name} link set lo up")
            await ip(f"link add veth{number} type veth peer name eth0 netns {name}")
            await ip(f"link set veth{number} master {_BRIDGE} up")
            await ip(f"-n {name} addr add {address}/24 dev eth0")
            await ip(f"-n {name} link set eth0 up")
            known = [f"{each}={where}" for each, where in self.addresses.items()]
            words = ("ip", "netns", "exec", name, sys.executable, "-m", "tests.deployed.names", _NAME_SERVER)
            self._helpers.append(await asyncio.create_subprocess_exec(*words, *known))

    async def start(self, *names: str) -> None:
        """Start services as `docker compose up` does: after those that they depend on, once these are healthy."""
        for name in names or self.all:
            needs = self.all[name].get("depends_on", {})
            await self.start_if_down(needs)
            for each in needs:
                if isinstance(needs, dict) and needs[each].get("condition") == "service_healthy":
                    await self.healthy(each)
            await self.start_if_down([name])

    async def start_if_down(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._wanted:
                self._wanted.add(name)
                await self._start(name)

    async def _start(self, name: str) -> None:
        script = self._script(name)
        process = self.processes[name] = await asyncio.create_subprocess_exec(
            *("ip", "netns", "exec", name, "unshare", "--mount", "--uts", "/bin/sh", "-c", script),
            stdout=(self._work / f"{name}.log").open("ab"),
            stderr=asyncio.subprocess.STDOUT,
        )
        self._watching[name] = asyncio.create_task(self._watch(name, process))

    async def _watch(self, name: str, process: asyncio.subprocess.Process) -> None:
        """`restart: unless-stopped`."""
        await process.wait()
        if name in self._wanted and self.all[name]["restart"] == "unless-stopped":
            await asyncio.sleep(_RESTART_S)
            await self._start(name)

    def _script(self, name: str) -> str:
        service, place = self.all[name], self._work / "containers" / name
        image = next(each for key, each in self._images.items() if service.get("image", "").startswith(key))
        for folder in ("written", "root"):
            (place / folder).mkdir(parents=True, exist_ok=True)
        hosts = [f"127.0.0.1 localhost\n{self.addresses[name]} {name}\n"]
        hosts += [f"{address} {other}\n" for other, address in self.addresses.items()]
        (place / "hosts").write_text("".join(hosts))
        entrypoint = service.get("entrypoint", image.entrypoint)
        command = service.get("command", image.command)
        environment = {"PATH": os.environ["PATH"], "HOME": image.folder, **service.get("environment", {})}
        return _START.format(
            place=shlex.quote(str(place)),
            name=service.get("hostname", name),
            mounts="\n".join(self._mounts(service, place / "root", image.user)),
            environment=shlex.join(f"{key}={value}" for key, value in environment.items()),
            user=image.user,
            folder=image.folder,
            limits=self._limits(service),
            command=shlex.join([*entrypoint, *command]),
        )

    @staticmethod
    def _limits(service: dict[str, Any]) -> str:
        wanted = service.get("ulimits", {}).get("nofile")
        # Whoever may not raise the limit has what there is.
        files = min(wanted, FILES_MAX) if wanted else FILES_MAX
        return f"prlimit --nofile={files}:{files}"

    def _mounts(self, service: dict[str, Any], root: Path, user: int) -> Iterable[str]:
        for volume in service.get("volumes", ()):
            source, target, *options = volume.split(":")
            if source.startswith((".", "/")):
                what = (self._file.parent / source).resolve()
            else:
                what = self._work / "volumes" / source
                what.mkdir(parents=True, exist_ok=True)
                os.chown(what, user, user)
            inside = root / target.removeprefix("/")
            made = f"mkdir -p {inside}" if what.is_dir() else f"mkdir -p {inside.parent} && touch {inside}"
            yield f"{made} && mount --bind {what} {inside}"
            if options == ["ro"]:
                yield f"mount -o remount,ro,bind {inside}"

    async def healthy(self, name: str) -> None:
        """Wait until the health check of a service succeeds; `RuntimeError` if it has failed too often."""
        check = self.all[name]["healthcheck"]
        kind, *words = check["test"]
        assert kind == "CMD"
        for _ in range(check["retries"]):
            if await returned("ip", "netns", "exec", name, *words) == 0:
                return
            await asyncio.sleep(float(check["interval"].removesuffix("s")))
        raise RuntimeError(f"{name} is not healthy after {check['retries']} tries")

    def kill(self, name: str) -> None:
        """`kill -9`: it is started again."""
        self.processes[name].kill()

    async def stop(self, name: str) -> float:
        """`docker compose stop`: SIGTERM, and how long it took; `RuntimeError` if it has to be killed."""
        self._wanted.discard(name)
        process, loop = self.processes[name], asyncio.get_running_loop()
        began_at = loop.time()
        process.send_signal(signal.SIGTERM)
        grace_s = float(self.all[name].get("stop_grace_period", "10s").removesuffix("s"))
        try:
            async with asyncio.timeout(grace_s):
                await process.wait()
        except TimeoutError:
            raise RuntimeError(f"{name} would be killed after {grace_s:g} s") from None
        return loop.time() - began_at

    async def close(self) -> None:
        """Kill what is left."""
        self._wanted.clear()
        for process in (*self.processes.values(), *self._helpers):
            if process.returncode is None:
                process.kill()
            await process.wait()
        for task in self._watching.values():
            task.cancel()


def substituted(text: str, environment: Mapping[str, str]) -> str:
    """A Compose file with its variables replaced; `ValueError` with its own words if one is missing."""

    def value(found: re.Match[str]) -> str:
        name, operator, other = found.groups()
        if given := environment.get(name):
            return given
        if operator == "-":
            return str(other)
        raise ValueError(f"{name}: {other or 'it is not set'}")

    return _VARIABLE.sub(value, text)


async def ip(words: str) -> None:
    await run("ip", *words.split())


async def run(*words: str, cwd: Path | None = None) -> None:
    """Run a command to its end; `RuntimeError` with what it said if it fails."""
    process = await asyncio.create_subprocess_exec(
        *words, cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{shlex.join(words)} failed: {said.decode()}")


async def returned(*words: str) -> int:
    """The exit code of a command."""
    process = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    return await process.wait()
