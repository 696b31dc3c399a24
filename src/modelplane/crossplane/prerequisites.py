"""What a person applies before the packages, because no package may hold it.

One rule: no permission that Crossplane has from elsewhere. A kind that is composed has all seven verbs, since
Crossplane asks for each, and warns of one that is missing although it never updates.
"""

from itertools import groupby

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.crossplane.documents import Document, stream, to_yaml
from modelplane.crossplane.touched import COMPOSED, REQUIRED, Grant, Touched

READ = ("get", "list", "watch")
WRITE = (*READ, "create", "update", "patch", "delete")

AGGREGATE = "rbac.crossplane.io/aggregate-to-crossplane"


_MISSING = [each for each in (*COMPOSED, *REQUIRED) if each.grant is Grant.PREREQUISITES]


def prerequisites() -> tuple[Document, ...]:
    """Return the namespace of what belongs to no team, and the permissions that Crossplane lacks."""
    return (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "modelplane:aggregate-to-crossplane", "labels": {AGGREGATE: "true"}},
            "rules": [
                {
                    "apiGroups": [group],
                    "resources": sorted(each.plural for each in kinds),
                    "verbs": list(READ if read_only else WRITE),
                }
                for (group, read_only), kinds in groupby(sorted(_MISSING, key=_rule), key=_rule)
            ],
        },
    )


def manifest() -> str:
    """Return the prerequisites as YAML, with the reason for each permission."""
    namespace, role = prerequisites()
    rules = role.pop("rules")
    return "".join(
        [stream((namespace, role)), "rules:\n", *(_reasons(rule) + to_yaml([rule]) for rule in rules)]
    )


def _reasons(rule: Document) -> str:
    why = {(each.group, each.plural): each.why for each in _MISSING}
    [group] = rule["apiGroups"]
    return "".join(f"# {plural}: {why[group, plural]}\n" for plural in rule["resources"])


def _rule(touched: Touched) -> tuple[str, bool]:
    return touched.group, touched.read_only
