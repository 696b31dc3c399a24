"""What holds for everything that a replica composes, whatever its author wrote."""

import re
from typing import Any

from hypothesis import given, settings, strategies as st

from modelplane.compose.composition import Desired
from support.replicas import composed, engine, member, replica

NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")

labels = st.one_of(
    st.sampled_from(("a", "epp", "pool", "qwen", "qwen-leader", "e" * 63)),
    st.from_regex(r"[a-z]([-a-z0-9]{0,10}[a-z0-9])?", fullmatch=True),
)
words = st.lists(
    st.sampled_from(
        (
            *("--port", "--port=8001", "--port=9100", "--block-size=32", "serve", "'", "$(A)", "--model=m"),
            "--pipeline-parallel-size=2",
        )
    ),
    max_size=4,
)
containers = st.fixed_dictionaries(
    {
        "args": words,
        "command": st.one_of(st.just([]), words.map(lambda script: ["sh", "-c", " ".join(script)])),
        "env": st.lists(
            st.fixed_dictionaries(
                {
                    "name": st.sampled_from(("A", "MODELPLANE_RANK", "VLLM_NIXL_SIDE_CHANNEL_PORT")),
                    "value": st.text("019", max_size=4),
                }
            ),
            max_size=3,
        ),
    }
)


@st.composite
def engines(draw: st.DrawFn, name: str) -> dict[str, Any]:
    roles = draw(st.sampled_from((("Standalone",), ("Leader", "Worker"), ("Worker", "Leader"))))
    members = [member(role, claims=draw(st.booleans()), **draw(containers)) for role in roles]
    return engine(name, *members, copies=draw(st.integers(1, 64)))


@st.composite
def replicas(draw: st.DrawFn) -> Any:
    divided = draw(st.booleans())
    names = draw(st.lists(labels, min_size=2 if divided else 1, max_size=2 if divided else 5, unique=True))
    shapes = [draw(engines(name)) for name in names]
    spec: dict[str, Any] = {"modelCacheRef": {"name": draw(labels)}} if draw(st.booleans()) else {}
    if draw(st.booleans()):
        spec["backend"] = "KServe"
    if divided:
        shapes = [
            {**shape, "phase": phase} for shape, phase in zip(shapes, ("Prefill", "Decode"), strict=True)
        ]
        spec["serving"] = {"mode": "PrefillDecode"}
    elif draw(st.booleans()):
        spec["serving"] = {"routing": "EndpointPicker"}
    return replica(*shapes, name=draw(labels), **spec)


def _cache(name: str) -> tuple[dict[str, Any], ...]:
    source = {"source": "HuggingFace", "huggingFace": {"repo": "m", "sizeGiB": 1}}
    status = {"clusters": [{"name": "east", "phase": "Ready"}]}
    kind = {"apiVersion": "modelplane.ai/v1alpha1", "kind": "ModelCache"}
    return ({**kind, "metadata": {"name": name}, "spec": source, "status": status},)


def _children(owner: Any) -> list[Desired]:
    reference = owner.spec.model_cache_ref
    said = composed(owner, **({"cache": _cache(reference.name)} if reference else {}))
    return [child for child in said.children if isinstance(child, Desired)]


def _pods(manifest: Any) -> list[dict[str, Any]]:
    if manifest["kind"] == "LLMInferenceService":
        parts = (manifest["spec"], manifest["spec"].get("prefill", {}))
        return [
            {"spec": part[key], "metadata": {"labels": part.get("labels", {})}}
            for part in parts
            for key in ("template", "worker")
            if key in part
        ]
    spec = manifest["spec"] if manifest["kind"] in ("Deployment", "LeaderWorkerSet") else {}
    group = spec.get("leaderWorkerTemplate", spec)
    return [group[key] for key in ("template", "leaderTemplate", "workerTemplate") if key in group]


@settings(max_examples=200, deadline=None)
@given(replicas())
def test_every_child_can_be_told_from_every_other_and_has_a_name_that_kubernetes_takes(owner: Any) -> None:
    children = _children(owner)
    identities = [(child.manifest["kind"], child.manifest["metadata"]["name"]) for child in children]
    assert len({child.key for child in children}) == len(children)
    assert len(set(identities)) == len(children)
    assert [name for _, name in identities if not NAME.fullmatch(name)] == []
    assert {child.manifest["metadata"]["namespace"] for child in children} <= {"ml-team"}
    assert _children(owner) == children


@settings(max_examples=200, deadline=None)
@given(replicas())
def test_no_pod_has_a_port_a_variable_or_a_volume_twice_and_mounts_only_what_it_has(owner: Any) -> None:
    for template in (pod for child in _children(owner) for pod in _pods(child.manifest)):
        spec = template["spec"]
        containers = [*spec["containers"], *spec.get("initContainers", ())]
        volumes = [volume["name"] for volume in spec.get("volumes", ())]
        mounted = [mount["name"] for each in containers for mount in each.get("volumeMounts", ())]
        ports = [port["containerPort"] for each in containers for port in each.get("ports", ())]
        names = [port["name"] for each in containers for port in each.get("ports", ()) if "name" in port]
        for each in (volumes, ports, names, *([v["name"] for v in c.get("env", ())] for c in containers)):
            assert len(set(each)) == len(each)
        assert set(mounted) == set(volumes)
        assert all(len(value) <= 63 for value in template["metadata"]["labels"].values())
