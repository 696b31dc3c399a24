"""What registration proposes for a cluster, from what the cluster shows of itself."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from modelplane.api.fields.cluster.stack_components import ServingProfile
from modelplane.api.schema.decode import decode, encode
from modelplane.catalogue.catalogue_files import load_catalogue
from modelplane.install.registration.observed import (
    DeviceClass,
    Observed,
    parse_version,
    read_device_classes,
    read_gateway,
    read_nodes,
    read_uid,
)
from modelplane.install.registration.registration_proposal import (
    Choices,
    Proposal,
    build_preview,
    find_gained,
    find_kept,
    propose,
)
from modelplane.install.registration.stack import GATEWAY_DEFINITION

Object = dict[str, Any]

NVIDIA = DeviceClass(
    "gpu.nvidia.com",
    ("device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'",),
)
MIG = DeviceClass(
    "mig.nvidia.com",
    ("device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'",),
)
ANY = DeviceClass("any", ())
CHOICES = Choices("gpu-1", {})
H100 = {
    "type": {"string": "gpu"},
    "productName": {"string": "NVIDIA H100 80GB HBM3"},
    "architecture": {"string": "Hopper"},
    "cudaComputeCapability": {"version": "9.0.0"},
    "driverVersion": {"version": "580.65.6"},
}
INSTANCE = H100 | {"type": {"string": "mig"}, "profile": {"string": "1g.10gb"}}


def node(
    name: str, allocatable: Mapping[str, str] | None = None, labels: Mapping[str, str] | None = None
) -> Object:
    return {
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {},
        "status": {
            "allocatable": dict(allocatable or {}),
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def slice_of(
    where: str,
    attributes: Object,
    memory: str,
    count: int,
    generation: int = 1,
    driver: str = "gpu.nvidia.com",
) -> Object:
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {
                **attributes,
                "uuid": {"string": f"GPU-{where}-{index}"},
                "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{index:02}"},
            },
            "capacity": {"memory": {"value": memory}},
        }
        for index in range(count)
    ]
    return {
        "spec": {
            "driver": driver,
            "nodeName": where,
            "pool": {"name": where, "generation": generation},
            "devices": devices,
        }
    }


def seen(nodes: list[Object], slices: list[Object] | None = None, **fields: Any) -> Observed:
    found, skipped = read_nodes(nodes, slices or [])
    return replace(
        Observed(
            "3a8df9b1-c462-47d1-bbdb-c896a85cfef2",
            "v1.34.1",
            found,
            (NVIDIA, MIG),
            ("v1",),
            skipped=skipped,
        ),
        **fields,
    )


def proposed(observed: Observed, choices: Choices = CHOICES) -> Proposal:
    return propose(choices, observed, load_catalogue())


def pools(proposal: Proposal) -> list[tuple[str, str, int]]:
    return [(each.name, each.class_name, len(each.nodes)) for each in proposal.hardware.pools]


def devices(proposal: Proposal) -> list[Object]:
    [made] = proposal.build_classes()
    found: list[Object] = made["spec"]["devices"]
    return found


def test_nodes_of_a_known_card_get_the_class_of_the_catalogue() -> None:
    names = ("a", "b")
    slices = [slice_of(name, H100, "81559Mi", 8) for name in names]
    proposal = proposed(seen([node(name) for name in names], slices))
    assert (pools(proposal), proposal.problems) == ([("h100-8x", "h100-8x", 2)], ())
    assert [each["metadata"]["name"] for each in proposal.build_node_labels()] == ["a", "b"]
    assert proposal.build_node_labels()[0]["metadata"]["labels"] == {"modelplane.ai/pool": "h100-8x"}


def test_the_machine_type_of_a_cloud_is_preferred() -> None:
    machine = {
        "node.kubernetes.io/instance-type": "a3-highgpu-8g",
        "topology.kubernetes.io/region": "us-east4",
    }
    proposal = proposed(seen([node("a", labels=machine)], [slice_of("a", H100, "81559Mi", 8)]))
    assert pools(proposal) == [("gke-h100-8x-a3", "gke-h100-8x-a3", 1)]
    assert proposal.build_cluster()["metadata"]["labels"] == {"modelplane.ai/region": "us-east4"}


def test_a_card_that_publishes_less_than_the_catalogue_says_gets_its_own_figure() -> None:
    proposal = proposed(seen([node("a")], [slice_of("a", H100, "81079Mi", 8)]))
    assert pools(proposal) == [("nvidia-h100-80gb-hbm3-8x", "gpu-1-nvidia-h100-80gb-hbm3-8x", 1)]
    assert devices(proposal) == [
        {
            "name": "gpu",
            "claim": "DRA",
            "driver": "gpu.nvidia.com",
            "deviceClassName": "gpu.nvidia.com",
            "count": 8,
            "attributes": {key: value for key, value in H100.items() if key != "driverVersion"},
            "capacity": {"memory": {"value": "81079Mi"}},
        }
    ]


def test_an_attribute_in_which_devices_differ_is_not_declared() -> None:
    other = H100 | {"brand": {"string": "Tesla"}, "architecture": {"string": "Hopper+"}}
    slices = [slice_of("a", H100, "81079Mi", 8), slice_of("b", other, "81079Mi", 8)]
    proposal = proposed(seen([node("a"), node("b")], slices))
    assert [len(each.nodes) for each in proposal.hardware.pools] == [2]
    [device] = devices(proposal)
    assert sorted(device["attributes"]) == ["cudaComputeCapability", "productName", "type"]


def test_mig_instances_are_claimed_through_their_own_device_class() -> None:
    slices = [slice_of("a", INSTANCE, "9984Mi", 56), slice_of("b", INSTANCE, "4864Mi", 7)]
    proposal = proposed(seen([node("a"), node("b")], slices))
    assert [(name, count) for name, _, count in pools(proposal)] == [
        ("h100-8x-mig-1g-10gb", 1),
        ("nvidia-h100-80gb-hbm3-1g-10gb-7x", 1),
    ]
    made = proposal.build_classes()[1]["spec"]["devices"][0]
    assert (made["name"], made["deviceClassName"], made["count"]) == ("mig-1g-10gb", "mig.nvidia.com", 7)


def test_a_node_with_two_kinds_of_cards_is_one_pool_of_one_class_with_both() -> None:
    l4 = H100 | {"productName": {"string": "NVIDIA L4"}, "architecture": {"string": "Ada Lovelace"}}
    slices = [slice_of("a", H100, "81559Mi", 2)]
    slices[0]["spec"]["devices"] += slice_of("a", l4, "23034Mi", 1)["spec"]["devices"]
    proposal = proposed(seen([node("a")], slices))
    assert [(each["name"], each["count"]) for each in devices(proposal)] == [("gpu", 2), ("gpu-1", 1)]


def test_nodes_of_two_cards_are_two_pools() -> None:
    l4 = {"type": {"string": "gpu"}, "productName": {"string": "NVIDIA L4"}}
    l4 |= {"architecture": {"string": "Ada Lovelace"}, "cudaComputeCapability": {"version": "8.9.0"}}
    slices = [slice_of("a", H100, "81559Mi", 8), slice_of("b", l4, "23034Mi", 1)]
    proposal = proposed(seen([node("a"), node("b"), node("cpu")], slices))
    assert pools(proposal) == [("h100-8x", "h100-8x", 1), ("l4-1x", "l4-1x", 1)]


def test_only_the_latest_generation_of_a_pool_of_devices_counts() -> None:
    slices = [slice_of("a", H100, "81559Mi", 4, 1), slice_of("a", H100, "81559Mi", 8, 2)]
    assert pools(proposed(seen([node("a")], slices))) == [("h100-8x", "h100-8x", 1)]


def test_without_dra_devices_the_labels_of_feature_discovery_tell_the_card() -> None:
    found = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}
    proposal = proposed(seen([node("a", {"nvidia.com/gpu": "8"}, found)], device_classes=()))
    assert pools(proposal) == [("h100-8x", "h100-8x", 1)]
    assert proposal.stack.settings.profile is ServingProfile.STANDARD
    assert any(each.startswith("dra-driver: ") for each in proposal.stack.installs)
    [doubt] = [each for each in proposal.notes if "from labels" in each]
    assert 'InferenceClass "h100-8x" was created from labels' in doubt


def test_labels_with_less_memory_than_the_catalogue_make_a_class_of_their_own() -> None:
    found = {
        "nvidia.com/gpu.product": "NVIDIA-A10-MIG-1g.5gb",
        "nvidia.com/gpu.memory": "4864",
        "nvidia.com/gpu.compute.major": "8",
        "nvidia.com/gpu.compute.minor": "6",
    }
    proposal = proposed(seen([node("a", {"nvidia.com/gpu": "7"}, found)]))
    [device] = devices(proposal)
    assert (device["deviceClassName"], device["count"]) == ("mig.nvidia.com", 7)
    assert device["capacity"] == {"memory": {"value": "4864Mi"}}
    assert device["attributes"]["profile"] == {"string": "1g.5gb"}


def test_gpus_of_unknown_memory_are_left_out_and_said() -> None:
    proposal = proposed(seen([node("a", {"amd.com/gpu": "8"})]))
    assert not proposal.hardware.pools
    [note] = [each for each in proposal.hardware.notes if "left out" in each]
    assert note.startswith("no driver publishes the GPUs of 1 node, and no label describes the GPUs")
    assert proposal.problems[0].startswith("none of 1 node publishes devices")


def test_nodes_whose_gpus_two_allocators_give_out_are_said() -> None:
    proposal = proposed(seen([node("a", {"nvidia.com/gpu": "8"})], [slice_of("a", H100, "81559Mi", 8)]))
    assert [each for each in proposal.notes if "a device plugin also offers" in each]


def test_a_cluster_without_gpus_is_refused_with_the_remedy() -> None:
    proposal = proposed(seen([node("a"), node("b")]))
    [problem] = proposal.problems
    assert problem.startswith("none of 2 nodes publishes devices that models can claim")
    assert problem.endswith("install your GPUs' driver and DRA driver, and register the cluster again")


def test_an_old_kubernetes_is_refused_with_the_remedy() -> None:
    found = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}
    old = seen([node("a", {"nvidia.com/gpu": "8"}, found)], version="v1.31.4", dra_versions=("v1alpha3",))
    [problem] = proposed(old).problems
    assert problem == (
        "Kubernetes v1.31.4 serves v1alpha3 of resource.k8s.io, and models require resource.k8s.io/v1: "
        "upgrade the cluster to Kubernetes 1.34 or later"
    )


def test_labeled_nodes_stay_in_their_pool_and_two_kinds_in_one_are_refused() -> None:
    labeled = {"modelplane.ai/pool": "mine"}
    slices = [slice_of("a", H100, "81559Mi", 8), slice_of("b", H100, "81559Mi", 8)]
    proposal = proposed(seen([node("a", labels=labeled), node("b", labels=labeled)], slices))
    assert (pools(proposal), proposal.build_node_labels()) == ([("mine", "h100-8x", 2)], [])
    slices[1] = slice_of("b", H100, "81559Mi", 4)
    [problem] = proposed(seen([node("a", labels=labeled), node("b", labels=labeled)], slices)).problems
    assert problem == (
        'nodes with label modelplane.ai/pool=mine have different devices: "a" and "b": give one of them '
        "another pool, with `kubectl label node b modelplane.ai/pool=NAME --overwrite`"
    )


def test_a_new_node_joins_the_pool_of_nodes_that_are_alike() -> None:
    slices = [slice_of(name, H100, "81559Mi", 8) for name in ("a", "b", "c")]
    nodes = [node("a"), node("b", labels={"modelplane.ai/pool": "mine"}), node("c")]
    nodes[2]["spec"]["taints"] = [{"key": "team", "value": "ml", "effect": "NoSchedule"}]
    proposal = proposed(seen(nodes, slices))
    assert pools(proposal) == [("mine", "h100-8x", 2), ("h100-8x", "h100-8x", 1)]
    labeled = {each["metadata"]["name"]: each["metadata"]["labels"] for each in proposal.build_node_labels()}
    assert labeled == {"a": {"modelplane.ai/pool": "mine"}, "c": {"modelplane.ai/pool": "h100-8x"}}


def test_taints_of_nodes_are_listed_in_their_pool() -> None:
    tainted = node("a")
    tainted["spec"]["taints"] = [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
        {"key": "team", "value": "ml", "effect": "NoSchedule"},
    ]
    proposal = proposed(seen([tainted], [slice_of("a", H100, "81559Mi", 8)]))
    [pool] = proposal.build_cluster()["spec"]["nodePools"]
    assert pool["taints"] == [{"key": "team", "value": "ml", "effect": "NoSchedule"}]


def test_more_kinds_than_a_cluster_has_pools_are_said_and_the_smallest_left_out() -> None:
    names = [f"n{count}" for count in range(1, 11)]
    slices = [slice_of(name, H100, "81000Mi", count) for count, name in enumerate(names, 1)]
    proposal = proposed(seen([node(name) for name in names], slices))
    assert len(proposal.hardware.pools) == 8
    assert any("are of 10 kinds" in each for each in proposal.notes)


GATEWAY: Object = {
    "metadata": {"name": "inference-gateway", "namespace": "modelplane-system"},
    "spec": {
        "listeners": [
            {"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}}}
        ]
    },
    "status": {"addresses": [{"value": "10.0.0.1"}]},
}


def gateway(namespaces: Object | None) -> Object:
    listener = GATEWAY["spec"]["listeners"][0] | {
        "allowedRoutes": {"namespaces": namespaces} if namespaces else {}
    }
    return {**GATEWAY, "spec": {"listeners": [listener]}}


@pytest.mark.parametrize(
    ("namespaces", "admits"),
    [
        pytest.param({"from": "All"}, True, id="all"),
        pytest.param(None, False, id="its own, which is the default"),
        pytest.param({"from": "Same"}, False, id="its own"),
        pytest.param(
            {"from": "Selector", "selector": {"matchLabels": {"modelplane.ai/managed-by": "modelplane"}}},
            True,
            id="those that Modelplane makes",
        ),
        pytest.param(
            {"from": "Selector", "selector": {"matchLabels": {"team": "a"}}}, False, id="those of a team"
        ),
    ],
)
def test_a_gateway_has_to_admit_routes_from_all_namespaces(namespaces: Object | None, admits: bool) -> None:
    observed = seen(
        [node("a")], [slice_of("a", H100, "81559Mi", 8)], gateway=read_gateway(gateway(namespaces))
    )
    problems = proposed(observed).problems
    assert bool(problems) is not admits
    assert admits or problems[0].endswith("set allowedRoutes.namespaces.from of that listener to All")


def test_nothing_is_installed_beside_a_gateway_that_is_there_but_the_driver_of_devices() -> None:
    both = seen([node("a")], [slice_of("a", H100, "81559Mi", 8)], gateway=read_gateway(GATEWAY))
    assert (proposed(both).stack.settings.profile, proposed(both).stack.installs) == (ServingProfile.NONE, ())
    found = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}
    without = seen([node("a", {"nvidia.com/gpu": "8"}, found)], gateway=read_gateway(GATEWAY))
    stack = proposed(without).stack
    assert (stack.settings.profile, [each.partition(":")[0] for each in stack.installs]) == (
        ServingProfile.NONE,
        ["node-feature-discovery", "dra-driver"],
    )


def test_a_chosen_profile_installs_no_more_than_it_says() -> None:
    found = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}
    without = seen([node("a", {"nvidia.com/gpu": "8"}, found)], gateway=read_gateway(GATEWAY))
    none = proposed(without, replace(CHOICES, profile=ServingProfile.NONE)).stack
    assert (none.installs, none.settings.components) == ((), ())
    standard = proposed(without, replace(CHOICES, profile=ServingProfile.STANDARD)).stack
    assert standard.installs == ()
    assert standard.notes[0].startswith(
        "profile Standard installs nothing, because the cluster already has Gateway"
    )


def test_network_cards_are_no_gpus() -> None:
    found = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}
    cards = slice_of("a", {"rdma": {"boolean": True}}, "1", 8, driver="dra.net")
    stack = proposed(seen([node("a", {"nvidia.com/gpu": "8"}, found)], [cards])).stack
    assert any(each.startswith("dra-driver: ") for each in stack.installs)
    assert "devices of a DRA driver" not in stack.found


def test_what_is_there_is_not_installed_again() -> None:
    there = frozenset({"certificates.cert-manager.io", "leaderworkersets.leaderworkerset.x-k8s.io"})
    observed = seen([node("a")], [slice_of("a", H100, "81559Mi", 8)], definitions=there)
    stack = proposed(observed).stack
    assert stack.settings.profile is ServingProfile.STANDARD
    off = {str(each.name) for each in stack.settings.components if each.enabled is False}
    assert off == {"cert-manager", "node-feature-discovery", "dra-driver"}
    pools_too = there | {"inferencepools.inference.networking.k8s.io", GATEWAY_DEFINITION}
    assert proposed(replace(observed, definitions=pools_too)).stack.settings.profile is ServingProfile.MINIMAL


def test_envoy_gateway_is_not_installed_beside_one_that_is_there() -> None:
    own = frozenset({"gateway.envoyproxy.io/gatewayclass-controller"})
    observed = seen([node("a")], [slice_of("a", H100, "81559Mi", 8)], gateway_controllers=own)
    installs = [each.partition(":")[0] for each in proposed(observed).stack.installs]
    assert installs == ["cert-manager", "gateway", "leader-worker-set", "prometheus"]


def test_an_installer_is_named_only_where_charts_are_installed() -> None:
    bare = seen([node("a")], [slice_of("a", H100, "81559Mi", 8)])
    existing = proposed(bare).build_cluster()["spec"]["cluster"]["existing"]
    assert existing["installerSecretRef"]["name"] == "gpu-1-installer"
    chosen = proposed(bare, replace(CHOICES, profile=ServingProfile.NONE))
    assert "installerSecretRef" not in chosen.build_cluster()["spec"]["cluster"]["existing"]
    kinds = [each["kind"] for each in chosen.build_identity(installer=chosen.stack.needs_installer)]
    assert kinds.count("ServiceAccount") == 1


def test_the_objects_are_valid_and_the_preview_has_each_of_them() -> None:
    proposal = proposed(seen([node("a")], [slice_of("a", H100, "81079Mi", 8)]))
    for manifest in (*proposal.build_classes(), proposal.build_cluster()):
        assert encode(decode(manifest)) == manifest
    shown = [
        each for section in build_preview(proposal, "https://10.0.0.1", "720h") for each in section.objects
    ]
    wanted = (
        *proposal.build_identity(installer=True),
        *proposal.build_node_labels(),
        *proposal.build_classes(),
        proposal.build_cluster(),
    )
    assert [each for each in shown if each["kind"] != "Secret"] == [*wanted]
    secrets = [each for each in shown if each["kind"] == "Secret"]
    assert [each["metadata"]["name"] for each in secrets] == ["gpu-1-kubeconfig", "gpu-1-installer"]


def known(*pool: Object, **annotations: str) -> Object:
    return {"metadata": {"name": "gpu-1", "annotations": annotations}, "spec": {"nodePools": [*pool]}}


def test_a_registered_cluster_gains_nodes_and_pools_and_never_loses_any() -> None:
    proposal = proposed(seen([node("a")], [slice_of("a", H100, "81559Mi", 8)]))
    same = {"modelplane.ai/cluster-uid": proposal.observed.uid}
    manifest = proposal.build_cluster()
    mine = {"name": "h100-8x", "className": "mine", "nodeCount": 4, "accounting": "Devices"}
    gone = {"name": "gone", "className": "l4-1x", "nodeCount": 2}
    assert find_gained(known(mine, gone, **same), manifest) == {}
    assert find_gained(known(mine | {"nodeCount": 0}, gone, **same), manifest) == {
        "spec": {"nodePools": [mine | {"nodeCount": 1}, gone]}
    }
    [found] = manifest["spec"]["nodePools"]
    assert find_gained(known(gone), manifest) == {
        "metadata": {"annotations": same},
        "spec": {"nodePools": [gone, found]},
    }


def test_what_a_registered_cluster_keeps_is_said() -> None:
    proposal = proposed(seen([node("a")], [slice_of("a", H100, "81559Mi", 8)]))
    mine = known({"name": "h100-8x", "className": "mine", "nodeCount": 1})
    said = [
        *find_kept(mine, proposal.build_cluster(), Choices("gpu-1", {"team": "a"}, ServingProfile.STANDARD))
    ]
    assert said == [
        'pool "h100-8x" keeps InferenceClass "mine", although the nodes match "h100-8x"',
        "profile and labels were not changed: to change them, edit the InferenceCluster",
    ]
    mine["metadata"]["labels"] = {"team": "a", "region": "x"}
    mine["spec"]["nodePools"][0]["className"] = "h100-8x"
    assert [
        *find_kept(mine, proposal.build_cluster(), Choices("gpu-1", {"team": "a"}, ServingProfile.STANDARD))
    ] == []


@pytest.mark.parametrize("text", ["v1.34\n---\nkind: Secret", "latest", "v" + "1" * 100, 7, None])
def test_a_version_that_is_none_is_not_repeated(text: object) -> None:
    assert parse_version(text) == ""


def test_what_the_cluster_invents_is_left_out_and_counted() -> None:
    bad = [
        node("../etc"),
        node("a", labels={"modelplane.ai/pool": "x\n---", "nvidia.com/gpu.product": "y" * 64}),
    ]
    slices = [
        slice_of("a", H100 | {"type\n": {"string": "gpu"}}, "81559Mi", 1),
        slice_of("b\n", H100, "1Gi", 1),
    ]
    observed = seen(bad, slices)
    assert observed.skipped == 3
    [only] = observed.nodes
    assert (only.name, dict(only.labels), only.devices) == ("a", {}, ())
    assert read_uid({"metadata": {"uid": "a\n---"}}) == ""


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
PARTS = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries({}, optional={"name": st.just("a") | ANYTHING, "labels": ANYTHING}),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "driver": st.just("gpu.nvidia.com") | ANYTHING,
                "nodeName": st.just("a") | ANYTHING,
                "pool": ANYTHING,
                "devices": st.lists(
                    st.fixed_dictionaries({}, optional={"attributes": ANYTHING, "capacity": ANYTHING}),
                    max_size=3,
                )
                | ANYTHING,
                "taints": ANYTHING,
                "selectors": ANYTHING,
                "listeners": st.lists(ANYTHING, max_size=2) | ANYTHING,
            },
        )
        | ANYTHING,
        "status": ANYTHING,
    },
)


@hypothesis.given(
    st.lists(PARTS, max_size=3), st.lists(PARTS, max_size=3), st.lists(PARTS, max_size=2), PARTS
)
@hypothesis.settings(max_examples=60)
def test_no_answer_of_a_cluster_breaks_the_proposal(
    nodes: list[Object], slices: list[Object], classes: list[Object], gateway: Object
) -> None:
    fields = {"device_classes": read_device_classes(classes), "gateway": read_gateway(gateway)}
    proposal = proposed(seen(nodes, slices, **fields))
    for manifest in (*proposal.build_classes(), proposal.build_cluster()):
        assert encode(decode(manifest)) == manifest
