"""Lists of the objects of a kind, and watches from there (Kubernetes, "API Concepts")."""

import random
from dataclasses import dataclass

from modelplane.kube import errors, responses
from modelplane.kube.resources import Object, Resource

WATCH_SECONDS = 3600
"""Longest duration of a watch request; then it is opened again.

The duration is random, so that watches that began together do not end together.
"""

SILENCE_S = 90.0
"""Silence after which a watch over HTTP/1.1 is opened again: a server that is gone is silent too, and
bookmarks are not guaranteed."""


@dataclass(frozen=True, slots=True)
class ObjectList:
    """The objects of one list, and the resource version from which to watch."""

    items: tuple[Object, ...]
    resource_version: str
    rest: str = ""
    """Token to continue from; empty if the list is complete."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change: ``ADDED``, ``MODIFIED``, ``DELETED`` or ``BOOKMARK``."""

    type: str
    object: Object


def decode_list(answer: Object, resource: Resource) -> ObjectList:
    """Return the list that a server answered."""
    # The items of a list carry neither kind nor apiVersion; a reader should not have to know.
    # An empty list of partial metadata is null.
    items = answer.get("items") or ()
    for item in items:
        item["apiVersion"], item["kind"] = resource.api_version, resource.kind
    metadata = answer["metadata"]
    return ObjectList(tuple(items), metadata["resourceVersion"], metadata.get("continue") or "")


def build_watch_parameters(resource_version: str) -> dict[str, str]:
    """Return the parameters of a watch after a resource version."""
    return {
        "watch": "true",
        "resourceVersion": resource_version,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(random.randint(WATCH_SECONDS // 2, WATCH_SECONDS)),  # noqa: S311 - jitter
    }


def build_page_parameters(limit: int, resource_version: str, rest: str) -> dict[str, str]:
    """Return the parameters of one page of a list, as of a resource version if one is given."""
    params = {"limit": str(limit)}
    if rest:
        return params | {"continue": rest}
    if resource_version:
        params |= {"resourceVersion": resource_version, "resourceVersionMatch": "Exact"}
    return params


def decode_event(line: bytes, resource: Resource) -> WatchEvent:
    """Return the change in a line of a watch; raise an error that the line has instead."""
    event: Object = responses.decode(line)
    content: Object = event["object"]
    if event["type"] == "ERROR":
        raise errors.from_status(
            content.get("code", 500), content.get("reason", ""), content.get("message", "")
        )
    content["apiVersion"], content["kind"] = resource.api_version, resource.kind
    return WatchEvent(event["type"], content)


def choose_media_type(metadata_only: bool, suffix: str) -> str:
    """Return the media type of whole objects, or of their metadata only."""
    if not metadata_only:
        return "application/json"
    return f"application/json;as=PartialObjectMetadata{suffix};v=v1;g=meta.k8s.io"


def build_selectors(labels: str, fields: str) -> dict[str, str]:
    """Return the parameters of a label selector and of a field selector."""
    params = {"labelSelector": labels, "fieldSelector": fields}
    return {key: value for key, value in params.items() if value}
