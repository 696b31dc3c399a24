"""Permissions of a fleet's identity on a cluster of which capacity is observed."""

from typing import Final

from modelplane.install.permissions.roles import Rule

_WHY = (
    "What new replicas may use of the declared capacity: nodes that are ready, devices that are published "
    "and not tainted, and those that other pods hold. Notices that nodes are taken back."
)
_UNSEEN = "only an InferenceCluster with capacitySource Observed or a spot pool asks"

READ: Final = (
    Rule("", ("nodes",), ("list", "watch"), _WHY, unseen=_UNSEEN),
    Rule(
        "resource.k8s.io",
        ("devicetaintrules", "resourceclaims", "resourceslices"),
        ("list", "watch"),
        _WHY,
        unseen=_UNSEEN,
    ),
)
