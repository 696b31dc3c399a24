"""``modelplane package``: build the packages that Crossplane installs."""

import time
from pathlib import Path

import click

from modelplane import __version__
from modelplane.cli.options import ListedArgument, format_example
from modelplane.user_error import UserError


@click.group(epilog=format_example("modelplane package build --dir packages/"))
def package() -> None:
    """Build packages for Crossplane."""


_ALL = "all"


def _names() -> list[str]:
    from modelplane.crossplane.package import package_contents
    from modelplane.crossplane.package.metadata import Registry, Version

    return [_ALL, *(bundle.repository for bundle in package_contents.packages(Registry(), Version("0.0.0")))]


def _known(_context: click.Context, _parameter: click.Parameter, name: str) -> str:
    if name not in _names():
        raise click.BadParameter(f'"{name}" is not one of {", ".join(_names())}')
    return name


@package.command(epilog=format_example("modelplane package build --dir packages/"))
@click.argument("what", cls=ListedArgument, values=_names, callback=_known, default=_ALL)
@click.option(
    "--dir",
    "folder",
    default=".",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    help="Directory for the packages. Default: the current directory.",
)
@click.option("--version", "version_text", default=__version__, metavar="VERSION", help="Package version.")
@click.option(
    "--registry",
    "prefix",
    metavar="PREFIX",
    help="Registry to publish to, as host and path.",
)
@click.option(
    "--runtime-image",
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help="Existing function image: an OCI image layout, as a tar file or a folder.",
)
def build(what: str, folder: Path, version_text: str, prefix: str | None, runtime_image: Path | None) -> None:
    """Build packages as files, without a container runtime.

    The function's image contains this Python installation, for this machine's architecture. Push
    the files with skopeo, crane, or the crossplane CLI.
    """
    from modelplane.crossplane.package import building, package_contents
    from modelplane.crossplane.package.metadata import PackageKind, Registry, Version
    from modelplane.crossplane.package.runtime import from_this_python

    try:
        version = Version.parse(version_text)
        registry = Registry.parse(prefix) if prefix is not None else Registry()
        runtime = building.runtime_from(runtime_image) if runtime_image else from_this_python
        chosen = [
            bundle
            for bundle in package_contents.packages(registry, version)
            if what in (_ALL, bundle.repository)
        ]
        # First what needs the runtime image: if it is refused, no package is written.
        for bundle in sorted(chosen, key=lambda bundle: bundle.kind is not PackageKind.FUNCTION):
            started = time.monotonic()
            built = building.build(bundle, registry, version, folder, runtime)
            took = time.monotonic() - started
            click.echo(f"{built.path}: {built.address}:{version.tag}, {_size(built.size)}, {took:.1f} s")
            click.echo(f"  {built.digest}")
    except OSError as error:
        raise UserError(f"cannot build a package: {error.filename or folder}: {error.strerror}") from error


@package.command(epilog=format_example("modelplane package prerequisites | kubectl apply -f -"))
def prerequisites() -> None:
    """Print the manifests to apply before the packages, for `kubectl apply -f -`."""
    from modelplane.crossplane.package.prerequisites import render_prerequisites

    click.echo(render_prerequisites(), nl=False)


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"
