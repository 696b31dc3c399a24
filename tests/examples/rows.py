"""What each set of examples is for: the files, step by step, and where every deployment of them goes.

A file that no row names fails a test, so that no example is left behind.
"""

from dataclasses import dataclass, field

from examples.planned import Planned

Step = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """Files that belong together. Where there are several steps, each keeps what those before it placed."""

    steps: tuple[Step, ...]
    planned: dict[str, Planned] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return ", then ".join(" + ".join(step) for step in self.steps)


@dataclass(frozen=True, slots=True)
class Misfit:
    """A file whose deployment must not be placed, or not wholly; it says itself with which diagnosis."""

    file: str
    fleet: Step
    places: tuple[str, ...]
    refusals: tuple[str, ...]


def _at(*places: str) -> Planned:
    return Planned(places)


def _tour(cloud: str, cluster: str, demo: str, larger: str, west: str = "model-deployment-west.yaml") -> Row:
    folder = f"getting-started/{cloud}"
    return Row(
        (
            (
                f"{folder}/0-namespace.yaml",
                f"{folder}/platform.yaml",
                f"{folder}/model-deployment.yaml",
                "getting-started/model-service.yaml",
            ),
            (
                f"{folder}/platform-scale.yaml",
                f"{folder}/{west}",
                "getting-started/model-service-multi.yaml",
            ),
        ),
        {"qwen-demo": _at(f"{cluster}: {demo}"), "qwen-west": _at(larger)},
    )


_NO_CLUSTERS = Planned((), (), "0 of 1 replicas placed; there are no clusters")
_LAGUNA = "recipes/laguna"
_NEBIUS_H100 = _at("nebius-eu-north: gpu-h100")

ROWS = (
    Row((("01-first-answer",),), {"gemma": _NO_CLUSTERS}),
    Row((("quotas",),)),
    Row((("gitops",),)),
    Row(
        (("device-quotas",),),
        {
            "chat": _at("h100-east: gpu-h100"),
            "jobs": Planned(
                ("h100-east: gpu-h100", "h100-east: gpu-h100"),
                ("h100-east OverQuota",),
                '2 of 3 replicas placed; 1 cluster: 1 above DeviceQuota "batch" (h100-east: namespace '
                "batch uses 16 of 16 gpu devices of class h100-8x and can borrow 0; this replica needs 8); "
                'to place one more, raise nominalQuota of class h100-8x in DeviceQuota "batch" to 24',
            ),
        },
    ),
    Row((("regions",),), {"qwen": _at("h100-eu-west: gpu-h100", "h100-eu-west: gpu-h100")}),
    Row((("07-api-keys",),)),
    Row((("08-prefill-and-decode",),), {"divided": _NO_CLUSTERS}),
    # The tour on this machine. What runs stays where it is, whatever is added.
    Row(
        (
            ("02-build-the-platform", "03-deploying-a-model"),
            ("04-scale-the-platform", "05-scale-the-model"),
            ("06-lose-a-region",),
        ),
        {
            "qwen-demo": _at("us-east: local"),
            "qwen-west": _at("us-west: local"),
            "qwen-central": _at("eu-central: local"),
        },
    ),
    Row(
        (("gpu-selectors",),),
        {
            "by-memory": _at("cloud-us-east: l4"),
            "by-fp8": _at("own-eu-west: h100"),
            "by-product": _at("own-eu-west: h200"),
            "by-whole-node": _at("own-eu-west: h100"),
            "by-partition": _at("cloud-us-east: mig"),
            "by-amd": _at("rented-us-west: mi300x"),
        },
    ),
    Row((("overview",),), {"qwen-demo": _NO_CLUSTERS}),
    Row((("concepts",),)),
    Row(
        (("every-field",),),
        {"qwen3-8b": _at("own-hall: h100, h100"), "qwen3-8b-split": _at("own-hall: h100, h100")},
    ),
    Row(
        (("deploying-models",),),
        {
            "qwen3-8b": _at("gke-us-central: gpu-l4"),
            "qwen3-coder": _at("h200-us-east: gpu-h200, gpu-h200"),
        },
    ),
    Row(
        (("reference",),),
        {
            "qwen3-8b": Planned(
                (),
                ("west-gke NotReady",),
                "0 of 2 replicas placed; 1 cluster: 1 not ready (west-gke: InferenceClass h100-8x-byo does "
                "not exist: create it, or correct className)",
            )
        },
    ),
    # The tour. The second step must move nothing of the first.
    Row(
        (
            (
                "getting-started/prerequisites.yaml",
                "getting-started/configuration.yaml",
                "getting-started/namespace.yaml",
                "getting-started/inference-gateway.yaml",
                *(
                    f"getting-started/clusterproviderconfig-{cloud}.yaml"
                    for cloud in ("aws", "azure", "gke", "nebius", "vultr")
                ),
            ),
        )
    ),
    _tour("eks", "eks-us-east", "gpu-l4", "eks-us-west: gpu-l40s"),
    _tour("gke", "starter", "gpu-l4", "gpu-us-west: gpu-a100"),
    _tour("aks", "aks-westeurope", "gpua10", "aks-eastus: gpua100"),
    _tour(
        "nebius",
        "nebius-eu-north",
        "gpu-l40s",
        "nebius-eu-north-h100: gpu-h100",
        "model-deployment-scale.yaml",
    ),
    Row((("getting-started/vultr",),), {"qwen-demo": _at("vultr-ewr: gpu-l40s")}),
    # Recipes.
    Row((("recipes/anthropic-messages-api",),), {"qwen3-8b": _NEBIUS_H100}),
    Row((("recipes/collecting-engine-metrics",),), {"qwen2-5-0-5b": _at("gke-l4-single: gpu-l4")}),
    Row((("recipes/deepseek-v3",),), {"deepseek-v3": _at("nebius-h200: gpu-h200")}),
    Row((("recipes/glm-4.5-air",),), {"glm-air": _at("gke-a100: gpu-a100")}),
    Row(
        (("recipes/gpt-oss-120b",),),
        {
            "gpt-oss-amd": _at("aks-mi300x: gpumi300x"),
            "gpt-oss-nvidia": _at("gke-h100: gpu-h100"),
        },
    ),
    Row((("recipes/kimi-k2",),), {"kimi-k2": _at("eks-kimi: gpu-h200, gpu-h200")}),
    Row(((_LAGUNA,),), {"laguna": _NEBIUS_H100}),
    Row(((_LAGUNA,), ("recipes/laguna-sglang",)), {"laguna": _NEBIUS_H100}),
    Row((("recipes/llama-3.1-8b",),), {"llama-3-1-8b": _at("eks-l4-single: gpu-l4")}),
    Row((("recipes/llama-3.3-70b",),), {"llama-3-3-70b": _NEBIUS_H100}),
    Row(
        (("recipes/mixtral-8x7b",),),
        {"mixtral-amd": _at("vultr-mi355x: gpu-mi355x"), "mixtral-nvidia": _at("vultr-a100: gpu-a100")},
    ),
    Row((("recipes/nemotron-3.5-lightning",),), {"nemotron-lightning": _NEBIUS_H100}),
    Row(
        (("recipes/qwen2.5-72b",), ("recipes/qwen2.5-72b-split",)),
        {"qwen-72b": _at("aks-a100-single: gpua100", "nebius-h100-single: gpu-h100")},
    ),
    Row((("recipes/qwen3-8b",),), {"qwen3-8b": _at("eks-l4: gpu-l4")}),
    Row(
        (
            (
                "recipes/qwen3-8b/inference-class.yaml",
                "recipes/qwen3-8b/inference-cluster.yaml",
                "recipes/qwen3-8b-speculative-decoding",
            ),
        ),
        {"qwen3-8b-spec": _at("eks-l4: gpu-l4")},
    ),
    Row((("recipes/qwen3-coder",),), {"qwen3-coder": _at("eks-coder: gpu-h200, gpu-h200")}),
    Row((("recipes/qwen3-coder-fp8",),), {"qwen3-coder-sgl": _at("eks-coder: gpu-h200")}),
    # Topologies. The leader's pool comes first, then the worker's.
    Row((("topologies/amd",),), {"llama-3-3-70b": _at("mi300x-us-chicago: mi300x")}),
    Row((("topologies/expert-parallel",),), {"deepseek-v3": _at(*["moe-us-west: h200, h200"] * 2)}),
    Row(
        (("topologies/kserve",),),
        {
            "gemma-3-27b": _at("kserve-eu-north: h200"),
            "kimi-k2-instruct": _at("kserve-eu-north: h200, h200"),
        },
    ),
    Row(
        (("topologies/mig-partitions",),),
        {
            "qwen3-1-7b": _at(*["shared-eu-west: mig"] * 6),
            "qwen3-8b": _at(*["shared-eu-west: mig"] * 2),
        },
    ),
    Row((("topologies/prefill-decode",),), {"qwen3-235b": _at("pd-us-east: prefill, decode")}),
    Row(
        (("topologies/rack-scale",),),
        {"deepseek-v3": _at("nvl72-us-central: rack-a, rack-a", "nvl72-us-central: rack-b, rack-b")},
    ),
    Row((("topologies/reserved-cluster",),), {"gpt-oss-120b": _at("research-us-east: h100")}),
    Row((("topologies/shared-fabric",),), {"qwen3-coder": _at("eks-us-east: block-a, block-b")}),
    Row(
        (("topologies/shared-node",),),
        {"gemma-bf16": _at("batch-us-east: h100"), "qwen3-14b": _at(*["batch-us-east: h100"] * 6)},
    ),
    Row(
        (("topologies/spot",),),
        {"qwen3-8b": _at("gke-eu-west: l4", "gke-eu-west: l4-spot", "gke-eu-west: l4-spot")},
    ),
    Row(
        (("topologies/two-node-gang",),),
        {"kimi-k2-instruct": _at("prod-coreweave-us-east: frontier-multinode, frontier-multinode")},
    ),
    Row(
        (("topologies/standby",),),
        {"gemma-fp8": _at("hopper: h100"), "gemma-bf16": _at(), "gemma-int4": _at()},
    ),
    Row(
        (("topologies/variants",),),
        {
            "gemma-bf16": _at("ampere-eu-west: a100"),
            "gemma-fp8": _at("hopper-us-east: h100"),
            "gemma-int4": _at("workstations: rtx4090"),
        },
    ),
)


def _misfit(
    topology: str,
    file: str,
    fleet: Step,
    refusals: tuple[str, ...],
    places: tuple[str, ...] = (),
) -> Misfit:
    folder = f"topologies/{topology}"
    return Misfit(
        f"{folder}/does-not-fit/{file}",
        tuple(f"{folder}/{each}" for each in fleet),
        places,
        refusals,
    )


_FLEET = ("fleet.yaml",)
_CACHED = ("fleet.yaml", "model-cache.yaml")
_MEDIUM, _FRONTIER = "prod-coreweave-us-east/medium-models", "prod-coreweave-us-east/frontier-multinode"

MISFITS = (
    _misfit("amd", "written-for-nvidia.yaml", _FLEET, ("mi300x-us-chicago/mi300x NoMatchingDevice",)),
    _misfit(
        "expert-parallel",
        "three-replicas.yaml",
        _CACHED,
        ("moe-us-west/h200 NoFreeNodes",),
        ("moe-us-west: h200, h200",) * 2,
    ),
    _misfit("mig-partitions", "whole-gpu.yaml", _FLEET, ("shared-eu-west/mig NoMatchingDevice",)),
    _misfit(
        "mig-partitions",
        "nine-of-eight.yaml",
        _FLEET,
        ("shared-eu-west/mig NoFreeDevices",),
        ("shared-eu-west: mig",) * 8,
    ),
    _misfit(
        "prefill-decode",
        "phases-on-two-clusters.yaml",
        ("inference-classes.yaml", "model-cache.yaml"),
        ("decode-only/decode NoMatchingDevice", "prefill-only/prefill NoMatchingDevice"),
    ),
    _misfit(
        "rack-scale",
        "one-gang-over-two-racks.yaml",
        _CACHED,
        ("nvl72-us-central/rack-a TooFewNodes", "nvl72-us-central/rack-b TooFewNodes"),
    ),
    _misfit("reserved-cluster", "no-toleration.yaml", _FLEET, ("research-us-east UntoleratedTaint",)),
    _misfit(
        "shared-fabric",
        "two-fabrics.yaml",
        ("inference-class.yaml", "model-cache.yaml"),
        ("eks-us-east-two-zones/block-a TooFewNodes", "eks-us-east-two-zones/block-b TooFewNodes"),
    ),
    _misfit(
        "shared-node",
        "nine-replicas.yaml",
        ("inference-class.yaml", "inference-cluster.yaml"),
        ("batch-us-east/h100 NoFreeDevices",),
        ("batch-us-east: h100",) * 8,
    ),
    _misfit(
        "shared-node",
        "whole-nodes.yaml",
        ("inference-class.yaml",),
        ("batch-us-east-whole-nodes/h100 NoFreeNodes",),
        ("batch-us-east-whole-nodes: h100",),
    ),
    _misfit(
        "spot",
        "without-consent.yaml",
        _FLEET,
        ("gke-eu-west/l4 NoFreeNodes", "gke-eu-west/l4-spot NotOnSpot"),
        ("gke-eu-west: l4",) * 4,
    ),
    _misfit(
        "two-node-gang",
        "nominal-memory.yaml",
        _CACHED,
        (f"{_MEDIUM} NoMatchingDevice", f"{_FRONTIER} NoMatchingDevice"),
    ),
    _misfit(
        "two-node-gang",
        "pool-without-nic.yaml",
        _CACHED,
        (f"{_MEDIUM} NoMatchingDevice", f"{_FRONTIER} NoMatchingDevice"),
    ),
    _misfit(
        "two-node-gang",
        "sixteen-gpus-on-one-node.yaml",
        _CACHED,
        (f"{_MEDIUM} NoMatchingDevice", f"{_FRONTIER} TooFewDevices"),
    ),
    _misfit(
        "two-node-gang",
        "too-few-nodes.yaml",
        _CACHED,
        (f"{_MEDIUM} NoMatchingDevice", f"{_FRONTIER} TooFewNodes"),
    ),
    _misfit(
        "variants",
        "fp8-on-ampere.yaml",
        _FLEET,
        (
            "ampere-eu-west/a100 NoMatchingDevice",
            "hopper-us-east ClusterSelector",
            "workstations ClusterSelector",
        ),
    ),
)
