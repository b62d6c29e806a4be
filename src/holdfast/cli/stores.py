"""Stores on the command line: what is wrong with one, said in a sentence."""

import click

from holdfast.stores.port import Broken, StoreError


class StoreBroken(click.ClickException):
    """The store cannot be trusted. The exit code is that of a server whose store breaks while it runs."""

    exit_code = 74


def store_failed(url: str, error: StoreError) -> click.ClickException:
    """The store at this URL does not do what it is for."""
    words = f"The store {url}: {error}."
    if isinstance(error, Broken):
        return StoreBroken(f"{words} If it never was a store, name another file; if it was, put back a copy of it.")
    return click.ClickException(words)
