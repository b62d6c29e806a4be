"""Ids as arguments: one in 64 begins with a dash, and must not be taken for an option."""

import re

import click

# Of rooms and placements, and of sessions.
_WITH_A_DASH = re.compile(r"-(?:[\w-]{11}|[\w-]{15})", re.ASCII)


class TakesIds(click.Command):
    """A command whose last arguments are ids."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put those that look like options where they cannot be mistaken."""
        options = {option for parameter in self.params for option in parameter.opts}
        ids = [each for each in args if _WITH_A_DASH.fullmatch(each) and each not in options]
        if ids and "--" not in args:
            args = [*(each for each in args if each not in ids), "--", *ids]
        return super().parse_args(ctx, args)
