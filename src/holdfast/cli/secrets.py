"""Secrets that `holdfast serve` is given: by files and by the environment, not by options, which others can see."""

import os
from pathlib import Path

import click

from holdfast.core.tokens import TOKEN_BYTES
from holdfast.http.keys import ApiKey, Scope

SECRET_VARIABLE = "HOLDFAST_SECRET"  # noqa: S105 - where it is, not what it is
API_KEY_VARIABLE = "HOLDFAST_API_KEY"
_SECRET_RECIPE = 'python -c "import secrets; print(secrets.token_hex())"'  # noqa: S105 - how to make one


def read_secret(file: Path | None) -> bytes | None:
    """The key that proves who a guest is: of the file, or else of the environment, if it has one."""
    if file is not None:
        try:
            secret = file.read_bytes().strip()
        except OSError as error:
            raise click.ClickException(f"The secret file {file} cannot be read: {error.strerror}.") from None
        where = str(file)
    else:
        secret = os.environ.get(SECRET_VARIABLE, "").strip().encode()
        where = f"${SECRET_VARIABLE}"
        if not secret:
            return None
    if len(secret) < TOKEN_BYTES:
        raise click.ClickException(
            f"The secret in {where} has {len(secret)} bytes and needs {TOKEN_BYTES}; make one with: {_SECRET_RECIPE}"
        )
    return secret


def read_api_keys() -> list[ApiKey]:
    """The key that opens everything, if the environment has one."""
    key = os.environ.get(API_KEY_VARIABLE, "").strip()
    try:
        return [ApiKey(key, [Scope.ADMIN])] if key else []
    except ValueError as error:
        raise click.ClickException(f"${API_KEY_VARIABLE}: {error}") from None
