"""Compose deployments with the code of the checkout that this program is started with.

The first line of the output is the condition by which a replica reports its endpoint. Then each line of the
input is a request, and each line of the output its composition, as JSON. Only what every version has is
imported.
"""

import datetime as dt
import json
import sys
from typing import Any

import msgspec

from modelplane.api.conditions.reasons import ModelReplicaCondition
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import convert, decode_as
from modelplane.compose.composition import Composition, Desired, Request
from modelplane.compose.deployment import model_deployment
from modelplane.compose.kinds import COMPOSERS


def compose(asked: dict[str, Any]) -> dict[str, Any]:
    """Return a composition as data."""
    facts: Any = convert(asked["facts"], type(COMPOSERS["ModelDeployment"].facts()))
    request = Request(
        decode_as(ModelDeployment, asked["owner"]),
        asked["observed"],
        {key: tuple(items) for key, items in asked["required"].items()},
        facts,
        dt.datetime.fromisoformat(asked["now"]),
    )
    composed = model_deployment.compose(request)
    assert isinstance(composed, Composition), composed
    children = [
        {"key": child.key, "manifest": child.manifest if isinstance(child, Desired) else None}
        for child in composed.children
    ]
    return {"children": children, "status": composed.status, "conditions": composed.conditions}


def main() -> None:
    """Answer until the input ends."""
    # Up to 0.9.0, the condition had a name of its own.
    [name] = {"Announced", "RoutingReady"} & {*map(str, ModelReplicaCondition)}
    sys.stdout.write(f"{name}\n")
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(msgspec.json.encode(compose(json.loads(line))).decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
