"""``modelplane package``: build, inspect and push the packages that Crossplane installs."""

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelplane import __version__
from modelplane.cli.errors import UserError
from modelplane.cli.manifest_files import add_output_option
from modelplane.cli.options import ListedArgument

if TYPE_CHECKING:
    from modelplane.crossplane.package.images.inspection import Inspection
    from modelplane.crossplane.package.images.oci import Descriptor
    from modelplane.crossplane.package.registry.accounts import Account

_FILE = click.Path(exists=True, path_type=Path)


@click.group()
def package() -> None:
    """Build, inspect and push the packages that Crossplane installs."""


_ALL = "all"


def _names() -> list[str]:
    from modelplane.crossplane.package import package_contents
    from modelplane.crossplane.package.package_addresses import Registry, Version

    return [_ALL, *(bundle.repository for bundle in package_contents.packages(Registry(), Version("0.0.0")))]


def _known(_context: click.Context, _parameter: click.Parameter, name: str) -> str:
    if name not in _names():
        raise click.BadParameter(f'"{name}" is none of {", ".join(_names())}')
    return name


@package.command()
@click.argument("what", cls=ListedArgument, values=_names, callback=_known, default=_ALL)
@click.option(
    "--output",
    "-o",
    "folder",
    default=".",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    help="Directory for the packages.",
)
@click.option(
    "--version", "version_text", default=__version__, metavar="VERSION", help="Version of the packages."
)
@click.option(
    "--registry",
    "prefix",
    metavar="PREFIX",
    help="Registry to publish to: its host and a path.",
)
@click.option(
    "--runtime-image",
    type=_FILE,
    metavar="PATH",
    help="Image of the function, built elsewhere: an OCI layout or a Docker archive.",
)
def build(what: str, folder: Path, version_text: str, prefix: str | None, runtime_image: Path | None) -> None:
    """Write packages to files, without a container runtime.

    The function's image holds this Python and its dependencies, for this machine's architecture.
    """
    from modelplane.crossplane.package import building, package_contents
    from modelplane.crossplane.package.metadata import PackageKind
    from modelplane.crossplane.package.package_addresses import Registry, Version
    from modelplane.crossplane.package.python.runtime import from_this_python

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


@package.command()
@click.argument("file", metavar="FILE", type=_FILE)
@add_output_option("text", "Lines to read, or a JSON document.")
def inspect(file: Path, output: str) -> None:
    """Verify every digest in the package FILE, and print its contents."""
    from modelplane.crossplane.package.images import inspection

    report = inspection.inspect(file)
    if output == "json":
        click.echo(json.dumps(report.json(), indent=2))
    else:
        click.echo("\n".join(_lines(report)))


@package.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=_FILE)
@click.argument("address", metavar="ADDRESS[:TAG]")
@click.option("--username", metavar="NAME", help="Name of the account, instead of a stored one.")
@click.option("--password-stdin", is_flag=True, help="Read its password or token from standard input.")
@click.option("--replace", is_flag=True, help="Move a tag that has other content.")
def push(
    files: tuple[Path, ...], address: str, username: str | None, password_stdin: bool, replace: bool
) -> None:
    """Push a package to a registry, or several files of one package, one for each platform.

    By default the tag is the one in the FILE. The account is the one that `docker login` or `podman login`
    stored. A registry on this machine (localhost, 127.0.0.1) is reached by HTTP, every other one by HTTPS.
    """
    from modelplane.crossplane.package.package_addresses import Target
    from modelplane.crossplane.package.registry import accounts, publishing, repository

    if bool(username) != password_stdin:
        raise click.UsageError("--username and --password-stdin go together")
    try:
        target = Target.parse(address)
        account = _given(username) if username else accounts.stored(target.host)
        with repository.opened(target, account) as opened:
            pushed = publishing.push(files, target, opened, _say_blob, replace=replace)
    except OSError as error:
        raise UserError(f"cannot read a package: {error.filename}: {error.strerror}") from error
    done = f"pushed, {_size(pushed.uploaded)} uploaded" if pushed.is_new else "there already"
    click.echo(f"{target.address}:{pushed.tag}: {done}")
    click.echo(f"  {pushed.digest}")


def _given(username: str) -> "Account":
    from modelplane.crossplane.package.registry.accounts import Account

    password = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    if not password:
        raise UserError("standard input has no password: pipe it in, as in `--password-stdin < FILE`")
    return Account(username, password)


def _say_blob(blob: "Descriptor", is_uploaded: bool) -> None:
    click.echo(f"  {blob.digest}  {_size(blob.size):>9}  {'uploaded' if is_uploaded else 'there already'}")


@package.command()
def prerequisites() -> None:
    """Print the manifests to apply before the packages, for `kubectl apply -f -`."""
    from modelplane.crossplane.package.prerequisites import manifest

    click.echo(manifest(), nl=False)


def _lines(report: "Inspection") -> list[str]:
    lines = [f"{report.kind} {report.name} {report.version}".rstrip()]
    if report.digest:
        lines.append(f"  digest      {report.digest}")
    lines.append(f"  Crossplane  {report.crossplane or 'any version'}")
    lines += [
        f"  needs       {dependency.kind} {dependency.address} {dependency.versions}"
        for dependency in report.dependencies
    ]
    if report.runs:
        command = [*report.config.get("Entrypoint", ()), *(report.config.get("Cmd") or ())]
        lines.append(f"  runs        {' '.join(command)}")
        lines.append(f"  as user     {report.config.get('User') or 'root'}")
        lines.append(f"  on          {report.platform} only")
    lines += [f"  {kind} {name}" for kind, name in report.objects]
    for number, layer in enumerate(report.layers, 1):
        lines.append(f"  layer {number}     {_size(layer.size):>9}  {layer.digest}")
    return lines


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"
