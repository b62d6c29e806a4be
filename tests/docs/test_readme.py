"""The README's game and client, as printed there, play with each other."""

import asyncio
import re
import textwrap
from pathlib import Path
from typing import Any

import holdfast

README = (Path(__file__).parents[2] / "README.md").read_text()


def block(label: str) -> str:
    found = re.search(rf"^```{label}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert found is not None, label
    return found[1]


async def test_the_client_of_the_readme_plays_the_game_of_the_readme() -> None:
    printed: list[Any] = []
    names: dict[str, Any] = {"holdfast": holdfast, "print": lambda player, hero: printed.append((hero.x, hero.y))}
    exec(block("python"), names)  # noqa: S102 - the page is ours
    async with holdfast.Server([names["Arena"]], listen=[holdfast.WebSocket(port=0)]) as server:
        client = block("python client").replace("ws://127.0.0.1:7777", server.url)
        source = "async def play():\n" + textwrap.indent(client, "    ")
        exec(source, names)  # noqa: S102 - the page is ours

        await asyncio.wait_for(names["play"](), 30)

    assert printed[-1] == (1, 2)


def test_the_game_of_the_readme_is_about_twenty_lines() -> None:
    lines = [line for line in block("python").splitlines() if line.strip()]

    assert len(lines) <= 20
