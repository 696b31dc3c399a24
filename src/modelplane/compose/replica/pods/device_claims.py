"""Devices that a member's pods claim: a ResourceClaimTemplate, from which each pod gets its claim."""

import hashlib

import msgspec

from modelplane.api.meta import Object
from modelplane.api.model_replica import PlacedMember
from modelplane.api.names import child_name
from modelplane.compose.replica.backends.workload import Workload


def claim_template(workload: Workload, member: PlacedMember) -> Object | None:
    """Return the ResourceClaimTemplate of a member's pods; None if it claims nothing.

    A template is immutable, so its name ends in a hash of its content and a change is a new template.
    """
    if not member.device_requests:
        return None
    spec = {
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": request.name,
                        "exactly": {
                            "deviceClassName": request.device_class_name,
                            "count": request.count,
                            "selectors": [
                                {"cel": {"expression": selector.cel}} for selector in request.selectors
                            ],
                        },
                    }
                    for request in member.device_requests
                ]
            }
        }
    }
    role = member.role.lower()
    name = child_name(
        workload.replica.metadata.name, workload.engine.name, role, "devices", content_hash(spec)
    )
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": workload.namespace},
        "spec": spec,
    }


def content_hash(content: object) -> str:
    """Return a hash of some content, the suffix of the name of an immutable object."""
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:8]
