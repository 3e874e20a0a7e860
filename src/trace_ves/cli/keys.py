"""`trace-ves keys`: API keys in a file that only you can read, or in the system keyring; never in a run."""

import os
import re
import sys

import click

from trace_ves.backbone.registry import account_variables, registrations
from trace_ves.backbone.secret import host_variable, read_stored_keys, store_key
from trace_ves.core.errors import InputError


@click.group("keys")
def keys_command() -> None:
    """Store API keys, so that you need not set them in every shell. Environment variables take precedence.

    NAME is a provider (gemini), an environment variable (GEMINI_API_KEY), or the address of your own server
    (gpu-box:8000).
    """


def _variable(name: str) -> str:
    """The environment variable for a provider, a variable or an address."""
    provider = registrations().get(name.lower())
    if provider is not None and not provider.variables:
        raise InputError(f"{name} needs no key.")
    address = re.sub(r"^\w+://|/.*", "", name)
    return provider.variables[0] if provider else name if re.fullmatch(r"[A-Z_0-9]+", name) else host_variable(address)


@keys_command.command("set")
@click.argument("name")
@click.option("--keyring", is_flag=True, help="Store it in the system keyring; needs the package keyring.")
def set_command(*, name: str, keyring: bool) -> None:
    """Store the key of NAME. You are prompted for it, or it is read from standard input."""
    variable = _variable(name)
    secret = click.prompt(variable, hide_input=True) if sys.stdin.isatty() else sys.stdin.readline()
    if not secret.strip():
        raise InputError(f"{variable}: the key is empty.")
    store_key(variable, secret.strip(), keyring=keyring)
    click.echo(f"{variable} is stored in {'the system keyring' if keyring else 'a file that only you can read'}.")


@keys_command.command("list")
def list_command() -> None:
    """List the keys that are set, and where. The keys themselves are never shown."""
    places = {variable: "file" if value else "keyring" for variable, value in read_stored_keys().items()}
    known = dict.fromkeys([*account_variables(), *places])
    places |= {variable: "environment" for variable in known if os.environ.get(variable, "").strip()}
    for variable in filter(places.get, known):
        click.echo(f"{variable}  {places[variable]}")
    if not places:
        click.echo("No key is set; `trace-ves keys set NAME` stores one.", err=True)


@keys_command.command("remove")
@click.argument("name")
def remove_command(*, name: str) -> None:
    """Remove the stored key of NAME."""
    variable = _variable(name)
    if variable not in read_stored_keys():
        raise InputError(f"{variable} is not stored; `trace-ves keys list` shows what is.")
    store_key(variable, None)
    click.echo(f"{variable} is removed.")
