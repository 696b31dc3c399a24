"""Events about an object, shown by ``kubectl describe`` (``events.k8s.io/v1``, "Event")."""

import time
from collections.abc import Mapping
from typing import Any

from modelplane.kube.resources import Object

_LONGEST_NAME = 180
_LONGEST_NOTE = 1024


def build_event(
    regarding: Mapping[str, Any],
    *,
    at: str,
    warning: bool,
    reason: str,
    action: str,
    note: str,
    controller: str,
    instance: str,
) -> Object:
    """Return an Event about the object that a reference (core/v1 ``ObjectReference``) names.

    ``at`` is a time with microseconds. A note that is too long is cut. What has no namespace has its
    events in ``default``.
    """
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"{regarding['name'][:_LONGEST_NAME]}.{time.time_ns():x}",
            "namespace": regarding.get("namespace") or "default",
        },
        "eventTime": at,
        "type": "Warning" if warning else "Normal",
        "reason": reason,
        "action": action,
        "note": note[:_LONGEST_NOTE],
        "reportingController": controller,
        "reportingInstance": instance,
        "regarding": dict(regarding),
    }
