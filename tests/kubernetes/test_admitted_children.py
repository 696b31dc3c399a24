"""What is composed for a cluster is admitted there: with the fleet's identity, under its policies.

Every child of the golden cases, and every child that the examples render, with the labels and annotations
that the controllers add.
"""

import asyncio
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from examples.planned import applied, composed
from examples.rows import ROWS
from modelplane.api.meta import CERTIFICATE_NAMESPACE, SYSTEM_NAMESPACE
from modelplane.compose import workload_kinds
from modelplane.compose.composition import Desired
from modelplane.compose.workload_kinds import Place
from modelplane.controllers import fleet_resources
from modelplane.controllers.children.ownership import stamp
from modelplane.kube.client import Client
from support.cluster_identity import OURS, limited, prepare, refusal
from support.goldens import GOLDENS
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

TEAMS = ("ml-team", "batch", "serving")
NAMESPACES = {
    **dict.fromkeys((*TEAMS, CERTIFICATE_NAMESPACE, "dra-driver-nvidia-gpu"), OURS),
    SYSTEM_NAMESPACE: {},
}


def _golden(case: str) -> list[dict[str, Any]]:
    """Return the children of a case on clusters, as the controllers apply them."""
    owner = GOLDENS.input(case)["owner"]
    return [
        _stamped(owner, each["key"], each["manifest"], each["cluster"])
        for each in GOLDENS.output(case).get("children", ())
        if "manifest" in each and each.get("cluster") and not workload_kinds.is_release(each["manifest"])
    ]


def _stamped(owner: Mapping[str, Any], key: str, manifest: Mapping[str, Any], cluster: str) -> dict[str, Any]:
    owned = {**owner, "metadata": {**owner["metadata"], "uid": "uid"}}
    return dict(stamp(owned, Desired(key, manifest, lambda _: True, cluster)))


OWNERS = ("model_cache", "model_replica", "serving_stack")
"""Kinds, as golden cases name them, that have children on clusters."""


@cache
def _children(owner: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the children of the golden cases of a kind, and for each its case; equal ones once."""
    children: dict[str, tuple[str, dict[str, Any]]] = {}
    for case in GOLDENS.names(owner):
        for manifest in _golden(case):
            children.setdefault(json.dumps(manifest, sort_keys=True), (case, manifest))
    return list(children.values())


@pytest.fixture(scope="module")
def registered(control_plane):
    async def install():
        async with Client.from_kubeconfig(
            str(control_plane.kubeconfig), known=fleet_resources.find_known, timeout_s=PATIENCE_S
        ) as administrator:
            await prepare(administrator, NAMESPACES)

    asyncio.run(install())
    return control_plane


@pytest.fixture
async def identity(registered, tmp_path):
    async with limited(registered, tmp_path, [*TEAMS, CERTIFICATE_NAMESPACE]) as client:
        yield client


@pytest.mark.parametrize("owner", OWNERS)
async def test_every_child_is_admitted(identity, owner):
    for case, manifest in _children(owner):
        # A RoleBinding is admitted only once its Role is stored.
        dry_run = manifest["kind"] != "Role"
        assert await refusal(identity, manifest, dry_run=dry_run) == "", (case, manifest)


def test_no_other_kind_has_children_on_clusters():
    owners = {case.partition("/")[0] for case in GOLDENS.names()}
    assert {owner for owner in owners if _children(owner)} == set(OWNERS)


async def test_what_the_examples_render_is_admitted(identity):
    for row in ROWS:
        if not row.planned:
            continue
        state = applied(row.steps)
        for item in (*state.objects, *state.of_kind_now("ModelReplica")):
            for each in composed(item, state).children:
                if (
                    isinstance(each, Desired)
                    and each.cluster
                    and not workload_kinds.is_release(each.manifest)
                ):
                    manifest = _stamped(item, each.key, each.manifest, each.cluster)
                    dry_run = manifest["kind"] != "Role"
                    assert await refusal(identity, manifest, dry_run=dry_run) == "", (row.name, manifest)


def test_a_case_has_each_kind_that_is_written():
    # Its definition is not published with a schema; test_cluster_identity.py writes one that is composed.
    apart = {workload_kinds.NIC_CLUSTER_POLICY.kind}
    written = {row.kind for row in workload_kinds.rows(Place.CLUSTERS)} - apart
    assert {manifest["kind"] for owner in OWNERS for _, manifest in _children(owner)} == written
