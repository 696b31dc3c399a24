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
from modelplane.install.steps.found import Found
from modelplane.kube.resources import Object

_MOST_PROBLEMS = 10

Check = Callable[[Sequence[Object]], Sequence[str]]
"""Returns the problems of stored objects with the kinds of this version, a sentence each."""


def refuse_install(found: Found, *, upgrade: bool) -> str:
    """Return why this version must not replace the installed one; empty if it may."""
    if rejected := owned_by_other(found.definitions):
        return rejected.message
    return (
        refuse_other_tool(found)
        or _of_version(found.version, upgrade=upgrade)
        or _of_stored_versions(found.definitions)
    )


def refuse_other_tool(found: Found) -> str:
    """Return why an installation belongs to another tool; empty if it does not."""
    if found.manager == MANAGER:
        return ""
    return f"Modelplane was installed there by {found.manager}: use that to change it"


def _of_version(installed: str, *, upgrade: bool) -> str:
    if not installed:
        return "Modelplane is not installed there: leave out --upgrade" if upgrade else ""
    if not upgrade:
        return f"Modelplane {installed} is installed there: say --upgrade to bring it to {__version__}"
    if installed == __version__:
        return ""
    try:
        newer = parse(installed) > parse(__version__)
    except SemverError as error:
        return f"cannot tell whether the version that is installed is older than {__version__}: {error}"
    if newer:
        return f"Modelplane {installed} is installed there, and this is {__version__}: use the newer one"
    return ""


def _of_stored_versions(definitions: Iterable[Object]) -> str:
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
    return f"objects may be stored as {listing(lost)}, which this version does not have" if lost else ""


def refuse_objects(problems: Sequence[str]) -> str:
    """Return why stored objects block new kinds; empty if they do not."""
    if not problems:
        return ""
    shown = problems[:_MOST_PROBLEMS]
    more = [f"and {len(problems) - len(shown)} more"] if len(problems) > len(shown) else []
    lines = "".join(f"\n  {problem}" for problem in (*shown, *more))
    return f"objects do not fit the kinds of {__version__}: change these first{lines}"
