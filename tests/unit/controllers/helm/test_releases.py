"""Releases of owners: what is asked for, kept and dropped, before anything is carried out."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from modelplane.api import labels
from modelplane.compose.composition import Composition, Desired, Keep
from modelplane.compose.readiness import condition_of, is_ready
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.helm.cluster_releases import _marks
from modelplane.controllers.helm.helm_storage import histories
from modelplane.controllers.helm.instruction import Instruction
from modelplane.controllers.helm.release_control import Releases
from support.helm import no_releases

OWNER: dict[str, Any] = {
    "kind": "ServingStack",
    "metadata": {
        "name": "stack",
        "uid": "u",
        "annotations": {labels.HELM_RELEASES: "east/default/lws,east/default/nfd"},
    },
}


@pytest.fixture
async def releases(clusters: Clusters) -> AsyncIterator[Releases]:
    begun = no_releases(clusters)
    yield begun
    await begun.close()


def _release(key: str, repository: str = "oci://r.example.com") -> Desired:
    chart = {"name": key, "repository": repository, "version": "1"}
    manifest = {
        "apiVersion": "helm.m.crossplane.io/v1beta1",
        "kind": "Release",
        "metadata": {"name": key, "namespace": "modelplane-system"},
        "spec": {"forProvider": {"chart": chart}},
    }
    return Desired(key, manifest, is_ready, "east")


async def test_what_is_kept_goes_on_and_what_is_dropped_does_not(releases: Releases) -> None:
    for key in ("lws", "nfd"):
        releases.want(OWNER, _release(key))
    releases.prune(OWNER, Composition((Keep("lws"),)))
    assert releases.observed(OWNER).keys() == {"lws"}, "a run that is interrupted would not be repaired"


async def test_an_owner_waits_for_the_first_look_and_not_for_a_cluster_that_cannot_be_read(
    releases: Releases, clusters: Clusters
) -> None:
    clusters.report("east", "the Secret is gone")
    assert releases.loading(OWNER)
    releases.want(OWNER, _release("lws"))
    async with asyncio.timeout(30):
        while releases.loading(OWNER):
            await asyncio.sleep(0)
    seen = releases.observed(OWNER)["lws"]
    cause = 'cannot read Helm\'s records on cluster "east": the Secret is gone'
    assert condition_of(seen, "Ready") == {
        "type": "Ready",
        "status": "Unknown",
        "reason": "Unreadable",
        "message": cause,
    }
    assert condition_of(seen, "Synced")["message"] == cause
    assert not releases.loading({"metadata": {"uid": "other"}}), "an owner without releases waits for none"


async def test_a_release_that_is_refused_says_so_and_has_no_place(releases: Releases) -> None:
    releases.want(OWNER, _release("lws", "file:///etc"))
    said = condition_of(releases.observed(OWNER)["lws"], "Synced")
    assert (said["status"], said["reason"]) == ("False", "ReconcileError")
    assert "is not an oci:// or https:// address: 'file:///etc'" in said["message"]


@pytest.mark.parametrize(
    ("stack", "adopted"),
    [
        pytest.param("stack", True, id="restored"),
        pytest.param("other", False, id="a former uid that belongs to another name"),
    ],
)
async def test_the_release_of_a_restored_owner_is_its_own_and_helm_need_not_run(
    releases: Releases, stack: str, adopted: bool
) -> None:
    metadata = {**OWNER["metadata"], "annotations": dict(OWNER["metadata"]["annotations"])}
    before = {**OWNER, "metadata": metadata}
    releases.want(before, _release("lws"))
    on_east = releases._get_or_start("east")
    [wanted] = on_east._wanted.values()
    assert isinstance(wanted.instruction, Instruction)
    digest = wanted.instruction.digest({}, "u")
    marks = {"name": "lws", "version": "1", "status": "deployed", **_marks(wanted, digest)}
    secret = {"metadata": {"name": "s", "namespace": "default", "labels": marks}}
    metadata = {**metadata, "uid": "v", "name": stack}
    metadata["annotations"] = {**metadata["annotations"], labels.FORMER_UIDS: "u"}
    restored = {**OWNER, "metadata": metadata}
    on_east._wanted.clear()
    on_east._stored = histories([secret])
    assert releases.observed(restored).keys() == ({"lws"} if adopted else set())
    assert bool(releases.uninstall_all(restored, "east")) == adopted, "it would be uninstalled with its owner"
    if adopted:
        releases.want(restored, _release("lws"))
        assert on_east._next() is None
