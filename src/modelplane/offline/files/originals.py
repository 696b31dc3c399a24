"""Secrets and ConfigMaps that pods name, and definitions of providers: assumed to exist, because files rarely
have them.

The controllers compose no pods without them. Their content is not assumed: the copies are empty.
"""

from typing import Final

from modelplane.api.meta import Object
from modelplane.compose.clouds.flow import DEFINITION_KEY
from modelplane.compose.composition import Requirement
from modelplane.compose.replica.backends.workload import reference_key

_ASSUMED_UID: Final = "assumed:original"


def make_original(requirement: Requirement) -> tuple[Object, ...]:
    """Return the object that pods name, or a definition of a provider, if a requirement is for one."""
    names_definition = requirement.key.startswith(DEFINITION_KEY)
    if not names_definition and requirement.key != reference_key(requirement.kind, requirement.name):
        return ()
    metadata = {"name": requirement.name, "namespace": requirement.namespace, "uid": _ASSUMED_UID}
    return ({"apiVersion": requirement.api_version, "kind": requirement.kind, "metadata": metadata},)


def is_assumed_original(item: Object) -> bool:
    """Return True if an object is not from a file."""
    return bool(item["metadata"].get("uid") == _ASSUMED_UID)
