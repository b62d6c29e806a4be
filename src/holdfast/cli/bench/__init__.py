"""`holdfast bench`: the load for a game of one's own, and what a bot of it gets."""

from holdfast.cli.bench.bot import BotSession

__all__ = ["BotSession"]
