"""``modelplane completion``: print the script that completes commands and options in a shell."""

import click

from modelplane.cli.options import format_example


@click.command(epilog=format_example("source <(modelplane completion bash)"))
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes commands and options in a shell.

    Evaluate the script in the shell, for example in ~/.bashrc.
    """
    from click.shell_completion import get_completion_class

    from modelplane.cli.main import main

    completion_class = get_completion_class(shell)
    if completion_class is None:
        raise TypeError(f"click completes nothing in {shell}")
    click.echo(completion_class(main, {}, "modelplane", "_MODELPLANE_COMPLETE").source())
