"""Crossplane's CompositeResourceDefinitions, generated from the types.

Crossplane makes the CustomResourceDefinition of a kind from one of these. What it
adds is left out here: ``metadata``, ``status.conditions`` and the columns that every
kind has; ``spec.crossplane`` and ``status.crossplane`` are its own. It has kept the
rules over a whole object, such as those over a name, since its version 2.2.
"""

from modelplane.api.kinds import Kind
from modelplane.api.schema.crd import Schema, build_names, build_printer_columns, build_schema, scale_paths

CATEGORY = "crossplane"
"""``kubectl get crossplane`` lists everything that Crossplane serves."""


def build_xrd(kind: Kind) -> Schema:
    """Return the CompositeResourceDefinition of a kind, as it is applied."""
    whole = build_schema(kind)
    version: Schema = {
        "name": kind.version,
        "served": True,
        "referenceable": True,
        "additionalPrinterColumns": build_printer_columns(kind.own_columns),
        "schema": {
            "openAPIV3Schema": whole
            | {
                "properties": {
                    "spec": whole["properties"]["spec"],
                    "status": _without_conditions(whole["properties"]["status"]),
                }
            }
        },
    }
    if kind.scale is not None:
        version["subresources"] = {"scale": scale_paths(kind.scale)}
    return {
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "CompositeResourceDefinition",
        "metadata": {"name": kind.definition},
        "spec": {
            "group": kind.group,
            "names": build_names(kind, CATEGORY),
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [version],
        },
    }


def _without_conditions(status: Schema) -> Schema:
    properties = {name: value for name, value in status["properties"].items() if name != "conditions"}
    return status | {"properties": properties}
