"""Whatever the ModelKeys and grants: the order changes nothing, and no key has more than its grant."""

import random
from typing import Any

from hypothesis import given, strategies as st

from modelplane.api.inference_gateway import KeyGrant
from modelplane.gateway.module_files.keys import KeyTable, build_key_table

NAMESPACES = ("ml", "research", "kube-system")
HASHES = tuple(f"{number:064x}" for number in range(6))


@st.composite
def _keys(draw: st.DrawFn) -> list[dict[str, Any]]:
    names = draw(st.lists(st.tuples(st.sampled_from(NAMESPACES), st.sampled_from("abcd")), unique=True))
    return [
        {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "creationTimestamp": f"2026-01-01T00:00:0{draw(st.integers(0, 2))}Z",
            },
            "spec": {
                "hashes": [{"sha256": each} for each in draw(st.sets(st.sampled_from(HASHES), min_size=1))],
                "services": draw(st.lists(st.sampled_from(("ml/*", "ml/qwen", "research/r1")))),
                "streams": draw(st.sampled_from((None, 1, 7, "many"))),
            },
        }
        for namespace, name in names
    ]


_GRANTS = st.lists(
    st.builds(
        KeyGrant,
        namespace=st.sampled_from((*NAMESPACES, "*")),
        services=st.sampled_from(((), ("ml/*",), ("shared/a", "ml/qwen"))),
        max_keys=st.integers(1, 3),
    ),
    unique_by=lambda grant: grant.namespace,
)


@given(keys=_keys(), before=_keys(), grants=_GRANTS, seed=st.integers())
def test_order_changes_nothing_and_nothing_is_beyond_the_grants(
    keys: list[dict[str, Any]], before: list[dict[str, Any]], grants: list[KeyGrant], seed: int
) -> None:
    former = build_key_table(before, grants, KeyTable())
    made = build_key_table(keys, grants, former)
    shuffle = random.Random(seed).sample  # noqa: S311  an order, not a secret
    again = build_key_table(shuffle(keys, len(keys)), shuffle(grants, len(grants)), former)
    assert (again.file.encode(), again.problems) == (made.file.encode(), made.problems)

    entries, namespaces = made.file.keys, made.file.namespaces
    assert len({each.sha256 for each in entries}) == len(entries)
    assert {each.namespace for each in entries} == set(namespaces) <= {"ml", "research"}
    assert {each.id for each in entries} <= {
        f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in keys
    }
    by_namespace = {grant.namespace: grant for grant in grants}
    for namespace, limits in namespaces.items():
        grant = by_namespace.get(namespace) or by_namespace["*"]
        assert set(limits.services) == set(grant.services or (f"{namespace}/*",))
        assert len({each.id for each in entries if each.namespace == namespace}) <= grant.max_keys
