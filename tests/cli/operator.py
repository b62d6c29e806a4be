"""Run the commands that operate a node, against one that runs in the test."""

import asyncio
import json
from typing import Any

from click.testing import CliRunner, Result

from holdfast import Server
from holdfast.cli.main import main


class Operator:
    """Somebody with the command line and, perhaps, an API key."""

    def __init__(self, server: Server, key: str = "") -> None:
        host, port = server.addresses["http"]
        self.server = server
        self._environment = {"HOLDFAST_URL": f"http://{host}:{port}", "HOLDFAST_API_KEY": key}

    async def run(self, *words: str) -> Result:
        """Run a command, in a thread: the node answers on this loop."""
        return await asyncio.to_thread(CliRunner().invoke, main, words, env=self._environment)

    async def output(self, *words: str) -> str:
        """What a command prints that succeeds."""
        result = await self.run(*words)
        assert result.exit_code == 0, result.output
        return result.stdout.strip()

    async def json(self, *words: str) -> Any:
        """What a command prints for programs."""
        return json.loads(await self.output(*words, "--json"))
