"""``modelplane mcp``: serve the documentation and a fleet to AI assistants (Model Context Protocol)."""

import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from modelplane.cli.options import format_example
from modelplane.cli.target import Target, add_target_options
from modelplane.user_error import UserError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer


_DEFAULT: Final = "127.0.0.1:8791"
_SHORTEST_TOKEN: Final = 20


@click.command(epilog=format_example("modelplane mcp --http 127.0.0.1:8791"))
@click.option(
    "--http",
    "address",
    is_flag=False,
    flag_value=_DEFAULT,
    metavar="[HOST:PORT]",
    help=f"Serve streamable HTTP instead of stdio. Port 0 chooses a free port. Default: {_DEFAULT}.",
)
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help=(
        "Additional host name that clients can use. You can repeat the option. Default: only loopback names."
    ),
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File that contains the token for HTTP clients. Default: a new token at each start.",
)
@click.option("--docs-only", is_flag=True, help="Serve only the documentation, without access to a fleet.")
@add_target_options
def mcp(
    *, address: str | None, hosts: tuple[str, ...], token_file: Path | None, docs_only: bool, target: Target
) -> None:
    """Serve the documentation and the fleet to AI assistants (MCP), over stdio or HTTP.

    All tools are read-only, and use the permissions of the kubeconfig.
    """
    if address is None and (hosts or token_file):
        raise click.UsageError("--allow-host and --token-file require --http")
    if docs_only and token_file:
        raise click.UsageError("--docs-only serves public pages without a token: omit --token-file")
    if address is None:
        if sys.stdin.isatty():
            click.echo(
                "Serving MCP on stdio, for a client that starts this command. Press Ctrl-C to stop", err=True
            )
        _server(target, docs_only=docs_only).run()
        return
    _serve_http(target, address, hosts, token_file, docs_only=docs_only)


def _serve_http(
    target: Target, address: str, hosts: tuple[str, ...], token_file: Path | None, *, docs_only: bool
) -> None:
    import asyncio

    from modelplane.mcp import http

    host, port = _parsed(address)
    if http.must_name_hosts(host) and not hosts:
        raise click.UsageError(
            f"{host} is not a loopback address: set --allow-host to the host name that clients use"
        )
    token = None if docs_only else _token(token_file)
    served = _server(target, docs_only=docs_only)
    with http.bind(host, port) as listening:
        port = listening.getsockname()[1]
        click.echo(f"Serving MCP at http://{f'[{host}]' if ':' in host else host}:{port}{http.PATH}")
        if token and token_file is None:
            click.echo(f"Clients send the header Authorization: Bearer {token}")
        asyncio.run(http.serve(http.build_application(served, port, hosts, token), listening))


def _parsed(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise click.UsageError(f'--http "{address}" is not HOST:PORT')
    return host.strip("[]"), int(port)


def _token(file: Path | None) -> str:
    if file is None:
        return secrets.token_urlsafe(24)
    if file.stat().st_mode & 0o077:
        raise UserError(f"other users can read {file}: run `chmod 600 {file}`")
    token = file.read_text(encoding="utf-8").strip()
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UserError(
            f"{file} doesn't contain a token of at least {_SHORTEST_TOKEN} letters and digits: create one "
            "with `openssl rand -hex 24`"
        )
    return token


def _server(target: Target, *, docs_only: bool) -> "MCPServer":
    from modelplane.mcp import documentation_tools
    from modelplane.mcp.documentation_tools import DocumentationTools
    from modelplane.mcp.fleet import Fleet
    from modelplane.mcp.fleet_tools import FleetTools, SizeTool
    from modelplane.mcp.server import build_server

    documentation = DocumentationTools(documentation_tools.load_pages(), documentation_tools.WEIGHTS)
    if docs_only:
        return build_server(documentation, documentation_tools.load_skills(), None, None)
    fleet = Fleet(target.open_client)
    return build_server(documentation, documentation_tools.load_skills(), FleetTools(fleet), SizeTool(fleet))
