"""Reasons to leave an installation unchanged: another installer, a newer version, models that do not fit.

In doubt nothing is changed. Every refusal is a sentence with the remedy.
"""

from collections.abc import Callable, Iterable, Sequence

from modelplane import __version__
from modelplane.api.listing import listing
from modelplane.api.rejected import Rejected
from modelplane.cel.value_types.semver import SemverError, parse
from modelplane.compose.definition_owner import owned_by_other
from modelplane.install.installation_names import MANAGER
from modelplane.install.manifests import build_definitions
from modelplane.install.steps.found import Found
from modelplane.kube.resources import Object

_MOST_PROBLEMS = 10

Check = Callable[[Sequence[Object]], Sequence[str]]
"""Returns the problems of stored objects with the kinds of this version, a sentence each."""


def check_install(found: Found, *, upgrade: bool) -> Rejected | None:
    """Return why this version must not replace the installed one; None if it may."""
    return (
        owned_by_other(found.definitions)
        or check_tool(found)
        or _check_version(found.version, upgrade=upgrade)
        or _check_stored_versions(found.definitions)
    )


def check_tool(found: Found) -> Rejected | None:
    """Return why an installation belongs to another tool; None if it does not."""
    if found.manager == MANAGER:
        return None
    return Rejected(
        subject="Modelplane",
        detail=f"was installed there by {found.manager}",
        remedy="use that to change it",
    )


def _check_version(installed: str, *, upgrade: bool) -> Rejected | None:
    if not installed:
        missing = Rejected(
            subject="Modelplane", detail="is not installed there", remedy="leave out --upgrade"
        )
        return missing if upgrade else None
    if not upgrade:
        return Rejected(
            subject=f"Modelplane {installed}",
            detail="is installed there",
            remedy=f"say --upgrade to bring it to {__version__}",
        )
    try:
        newer = installed != __version__ and parse(installed) > parse(__version__)
    except SemverError as error:
        return Rejected(
            detail=f"cannot tell whether the version that is installed is older than {__version__}: {error}"
        )
    if newer:
        return Rejected(
            subject=f"Modelplane {installed}",
            detail=f"is installed there, and this is {__version__}",
            remedy="use the newer one",
        )
    return None


def _check_stored_versions(definitions: Iterable[Object]) -> Rejected | None:
    """Return which kinds have objects of a version that this one does not know."""
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
    if not lost:
        return None
    return Rejected(
        subject="objects", detail=f"may be stored as {listing(lost)}, which this version does not have"
    )


def check_objects(problems: Sequence[str]) -> Rejected | None:
    """Return why stored objects block new kinds; None if they do not."""
    if not problems:
        return None
    shown = problems[:_MOST_PROBLEMS]
    more = [f"and {len(problems) - len(shown)} more"] if len(problems) > len(shown) else []
    lines = "".join(f"\n  {problem}" for problem in (*shown, *more))
    return Rejected(
        subject="objects",
        detail=f"do not fit the kinds of {__version__}",
        remedy=f"change these first{lines}",
    )
