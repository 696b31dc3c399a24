"""What an identity may do, as its API server says, in a table for people."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from modelplane.kube.client import Client
from modelplane.kube.resources import Object

ALL = "all"
HEADER = ("namespace", "group", "resources", "names", "verbs")


async def rules_in(client: Client, namespace: str) -> set[tuple[str, str, str, str]]:
    """Return group, resource, name and verb of everything that a client may do in a namespace."""
    review: Object = {"metadata": {}, "spec": {"namespace": namespace}}
    review |= {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview"}
    status = (await client.create(review))["status"]
    assert not status["incomplete"]
    return {
        (group or "core", resource, name, verb)
        for rule in status["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames") or (ALL,)
        for verb in rule["verbs"]
    }


def table(origin: str, allowed: Mapping[str, Iterable[tuple[str, str, str, str]]]) -> str:
    """Return a table of the rules in each namespace; what holds in each of them is listed once."""
    sets = {namespace: set(rules) for namespace, rules in allowed.items()}
    common = set.intersection(*sets.values())
    own = {namespace: rules - common for namespace, rules in sets.items()}
    rows = [row for namespace, rules in ({ALL: common} | own).items() for row in _rows(namespace, rules)]
    lines = [HEADER, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
    text = "\n".join(
        "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
    return f"# {origin}\n\n{text}\n"


def _rows(namespace: str, rules: set[tuple[str, str, str, str]]) -> Iterable[tuple[str, ...]]:
    verbs: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
    for group, resource, name, verb in rules:
        verbs[group, resource, name].add(verb)
    resources: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    for (group, resource, name), several in verbs.items():
        resources[group, name, ", ".join(sorted(several))].append(resource)
    for (group, name, named), listed in sorted(resources.items()):
        yield namespace, group, ", ".join(sorted(listed)), name, named
