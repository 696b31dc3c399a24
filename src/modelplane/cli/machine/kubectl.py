"""``modelplane kubectl``: the kubectl of the fleet's own binary, with the fleet's kubeconfig.

Every argument is kubectl's; the home comes from ``MODELPLANE_HOME``.
"""

import os

import click

from modelplane.user_error import UserError


class _PassThrough(click.Command):
    """A command that parses none of its arguments, not even ``--help`` and ``--``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.params["arguments"] = tuple(args)
        return []


@click.command(cls=_PassThrough, add_help_option=False)
def kubectl(arguments: tuple[str, ...]) -> None:
    """Run kubectl against the fleet on this machine."""
    from modelplane.cli.machine.running import require_running
    from modelplane.local import binary
    from modelplane.local.home import choose_home

    home = choose_home(None)
    program = binary.find()
    require_running(home)
    if program is None:
        raise UserError(
            "the control plane's binary, which contains kubectl, is missing: `modelplane up` builds it"
        )
    environment = os.environ | {
        "KUBECONFIG": str(home.kubeconfig),
        "KUBECACHEDIR": str(home.kubectl_cache),
    }
    os.execve(program, binary.build_kubectl_argv(program, arguments), environment)  # noqa: S606 - no shell is wanted
