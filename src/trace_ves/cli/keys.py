"""`trace-ves keys`: API keys in a file for its owner alone, or in the system keyring. They are never part of a run."""

from __future__ import annotations

import os
import re
import sys

import click

from trace_ves.core.errors import InputError


@click.group("keys")
def keys_command() -> None:
    """Store API keys, so that you need not set them in every shell. The environment goes before what is stored.

    NAME is a provider (gemini), an environment variable (GEMINI_API_KEY), or the address of your own server
    (gpu-box:8000).
    """


def _variable(name: str) -> str:
    """The environment variable that a name means."""
    from trace_ves.backbone.registry import registrations
    from trace_ves.backbone.secret import host_variable

    known = registrations().get(name.lower())
    if known is not None and not known.variables:
        raise InputError(f"{name} needs no key.")
    address = re.sub(r"^\w+://|/.*", "", name)
    return known.variables[0] if known else name if re.fullmatch(r"[A-Z_0-9]+", name) else host_variable(address)


@keys_command.command("set")
@click.argument("name")
@click.option("--keyring", is_flag=True, help="Store it in the system keyring; needs the package keyring.")
def set_command(*, name: str, keyring: bool) -> None:
    """Store the key of NAME. It is asked for, or read from standard input."""
    from trace_ves.backbone.secret import store_key

    variable = _variable(name)
    terminal = sys.stdin.isatty()
    secret = str(click.prompt(f"{variable}", hide_input=True) if terminal else sys.stdin.readline()).strip()
    if not secret:
        raise InputError(f"{variable}: the key is empty.")
    store_key(variable, secret, keyring=keyring)
    click.echo(f"{variable} is stored in {'the system keyring' if keyring else 'a file that only you can read'}.")


@keys_command.command("list")
def list_command() -> None:
    """List the keys that are set, and where. Nothing of a key itself is shown."""
    from trace_ves.backbone.registry import account_variables
    from trace_ves.backbone.secret import stored_keys

    stored = stored_keys()
    for variable in dict.fromkeys([*account_variables(), *stored]):
        if os.environ.get(variable, "").strip() or variable in stored:
            place = "file" if stored.get(variable) else "keyring"
            click.echo(f"{variable}  {'environment' if os.environ.get(variable, '').strip() else place}")


@keys_command.command("remove")
@click.argument("name")
def remove_command(*, name: str) -> None:
    """Remove the stored key of NAME."""
    from trace_ves.backbone.secret import store_key, stored_keys

    variable = _variable(name)
    if variable not in stored_keys():
        raise InputError(f"{variable} is not stored; `trace-ves keys list` shows what is.")
    store_key(variable, None)
    click.echo(f"{variable} is removed.")
