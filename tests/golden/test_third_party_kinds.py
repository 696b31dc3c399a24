"""What is composed of other projects' kinds has only fields that their schemas know."""

from typing import Any

import pytest

from modelplane.compose.clouds.kinds import MANAGED
from support.goldens import GOLDENS
from support.third_party_crds import problems, schemas

ORIGINS = {
    "gateway.envoyproxy.io": "envoy-gateway",
    "gateway.networking.k8s.io": "gateway-api",
    "helm.m.crossplane.io": "provider-helm",
    "inference.networking.k8s.io": "gateway-api-inference-extension",
    "leaderworkerset.x-k8s.io": "lws",
    "serving.kserve.io": "kserve",
    **{
        kind.group: f"provider-upjet-{kind.group.split('.')[-4]}"
        for kinds in MANAGED.values()
        for kind in kinds
    },
}


def _composed() -> list[Any]:
    manifests = {}
    for case in GOLDENS.names():
        for child in GOLDENS.output(case).get("children", ()):
            manifest = child.get("manifest", {})
            if manifest.get("apiVersion", "").partition("/")[0] in ORIGINS:
                manifests[f"{case}: {manifest['kind']} {child['key']}"] = manifest
    return [pytest.param(manifest, id=name) for name, manifest in manifests.items()]


@pytest.mark.parametrize("manifest", _composed())
def test_the_schema_knows_all_of_it(manifest: dict[str, Any]) -> None:
    origin = ORIGINS[manifest["apiVersion"].partition("/")[0]]
    schema = schemas(origin)[manifest["apiVersion"], manifest["kind"]]
    assert list(problems(manifest, schema)) == []


def test_a_field_that_the_schema_does_not_know_is_found() -> None:
    schema = schemas("lws")["leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"]
    pod = {"spec": {"containers": [{"name": "engine", "sidecar": True}]}}
    spec = {"startupPolicy": "Never", "leaderWorkerTemplate": {"workerTemplate": pod}}
    assert sorted(problems({"spec": spec}, schema)) == [
        ".spec.leaderWorkerTemplate.workerTemplate.spec.containers[0].sidecar: unknown",
        ".spec.startupPolicy: 'Never' is none of ['LeaderCreated', 'LeaderReady']",
    ]
