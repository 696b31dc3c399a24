"""Reasons to leave an installation unchanged: another installer, a newer version, models that do not fit.

In doubt nothing is changed. Every refusal is a sentence with the remedy.
"""

from collections.abc import Callable, Iterable, Sequence

from modelplane import __version__
from modelplane.api.listing import listing
from modelplane.cel.value_types.semver import SemverError, parse
from modelplane.compose.definition_owner import owned_by_other
from modelplane.install.installation_names import MANAGER
from modelplane.install.manifests import build_definitions
from modelplane.install.steps.existing_installation import Installation
from modelplane.kube.resources import Object
from modelplane.user_error import UserError

_MOST_PROBLEMS = 10

Check = Callable[[Sequence[Object]], Sequence[str]]
"""Returns the problems of stored objects with the kinds of this version, a sentence each."""


def check_install(installation: Installation, *, upgrade: bool) -> None:
    """Raise ``UserError`` if this version must not replace the installed one."""
    if rejected := owned_by_other(installation.definitions):
        raise UserError(rejected.message)
    check_tool(installation)
    _check_version(installation.version, upgrade=upgrade)
    _check_stored_versions(installation.definitions)


def check_tool(installation: Installation) -> None:
    """Raise ``UserError`` if an installation belongs to another tool."""
    if installation.manager != MANAGER:
        raise UserError(f"Modelplane was installed there by {installation.manager}: use that to change it")


def _check_version(installed: str, *, upgrade: bool) -> None:
    if not installed:
        if upgrade:
            raise UserError("Modelplane is not installed there: leave out --upgrade")
        return
    if not upgrade:
        raise UserError(
            f"Modelplane {installed} is installed there: say --upgrade to bring it to {__version__}"
        )
    if installed == __version__:
        return
    try:
        is_newer = parse(installed) > parse(__version__)
    except SemverError as error:
        raise UserError(
            f"cannot tell whether the version that is installed is older than {__version__}: {error}"
        ) from error
    if is_newer:
        raise UserError(
            f"Modelplane {installed} is installed there, and this is {__version__}: use the newer one"
        )


def _check_stored_versions(definitions: Iterable[Object]) -> None:
    """Raise ``UserError`` if kinds have objects of a version that this one does not have."""
    versions = {
        definition["metadata"]["name"]: {version["name"] for version in definition["spec"]["versions"]}
        for definition in build_definitions()
    }
    lost = [
        f"{version} of {definition['metadata']['name']}"
        for definition in definitions
        for version in definition.get("status", {}).get("storedVersions") or ()
        if version not in versions[definition["metadata"]["name"]]
    ]
    if lost:
        raise UserError(f"objects may be stored as {listing(lost)}, which this version does not have")


def check_stored_objects(problems: Sequence[str]) -> None:
    """Raise ``UserError`` if there are problems of stored objects with the kinds of this version."""
    if not problems:
        return
    shown = problems[:_MOST_PROBLEMS]
    more = [f"and {len(problems) - len(shown)} more"] if len(problems) > len(shown) else []
    lines = "".join(f"\n  {problem}" for problem in (*shown, *more))
    raise UserError(f"objects do not fit the kinds of {__version__}: change these first{lines}")
