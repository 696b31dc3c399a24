"""What is valid and hardly meant: the warnings of ``modelplane validate``."""

from pathlib import Path

import pytest

from modelplane.api.kinds import KINDS
from modelplane.compose.kinds import COMPOSED, COMPOSERS
from modelplane.offline.files.diagnostics import Severity
from modelplane.offline.files.engine_commands import _parsed
from modelplane.offline.lint import advice as advice_module
from modelplane.offline.lint.advice import RULES, find_advice
from support.manifests import API, CLASS, DEPLOYMENT, cluster, said, validated

ARGS = "                  args: "


def changed(text, *replacements):
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def templated(text):
    """Return a deployment in its other shape."""
    head, _, spec = text.partition("spec:\n")
    kept, engines = spec.split("  engines:\n", 1)
    indented = "".join(f"    {line}\n" for line in f"  engines:\n{engines}".splitlines())
    return f"{head}spec:\n{kept}  template:\n    spec:\n{indented}"


def cached(args):
    image = "                  image: vllm/vllm-openai:v0.23.0\n"
    return changed(
        DEPLOYMENT,
        ("  replicas: 1\n", "  replicas: 1\n  modelCacheRef: {name: weights}\n"),
        (image, f"{image}{ARGS}{args}\n"),
    )


def selecting(expression):
    return changed(DEPLOYMENT, ('device.driver == "gpu.nvidia.com"', f"'{expression}'"))


def on_clusters(key):
    return changed(
        DEPLOYMENT,
        ("  replicas: 1\n", f"  replicas: 1\n  clusterSelector: {{matchLabels: {{{key}: x}}}}\n"),
    )


def service(labels):
    return (
        f"apiVersion: {API}\nkind: ModelService\nmetadata: {{name: s, namespace: ml-team}}\n"
        f"spec:\n  endpoints:\n    - selector: {{matchLabels: {labels}}}\n"
    )


def endpoint(url, rewrite="", more=""):
    rewritten = f"\n  rewritePath: {rewrite}" if rewrite else ""
    return (
        f"apiVersion: {API}\nkind: ModelEndpoint\nmetadata: {{name: e, namespace: ml-team{more}}}\n"
        f"spec:\n  url: {url}{rewritten}\n"
    )


def asking(expression):
    """Return a deployment whose second selector is about memory."""
    first = 'cel: device.driver == "gpu.nvidia.com"\n'
    return changed(DEPLOYMENT, (first, f"{first}                  - cel: '{expression}'\n"))


def at_least(size, more=""):
    return asking(f'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{size}")) >= 0{more}')


def hardware(memory, attribute):
    return changed(
        CLASS,
        ("      count: 1\n", f"      count: 1\n      attributes: {{{attribute}}}\n"),
        ("23034Mi", memory),
    )


def gateway(name):
    return (
        f"apiVersion: {API}\nkind: InferenceGateway\nmetadata: {{name: {name}}}\nspec: {{backend: Envoy}}\n"
    )


def pooled(more):
    return changed(cluster("west"), ("nodeCount: 2", f"nodeCount: 2, {more}"))


CACHE_TEXT = (
    'the engine downloads "Qwen/Qwen3-8B" instead of reading ModelCache "weights": remove the model from '
    "args, or use a path in the cache"
)
OWNED = f", ownerReferences: [{{apiVersion: {API}, kind: ModelReplica, name: e, uid: u}}]"
MEMBER = "spec.engines[0].members[0]"
CEL = f"{MEMBER}.nodeSelector.devices[0].selectors[0].cel"
MEMORY = f"{MEMBER}.nodeSelector.devices[0].selectors[1].cel"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(
            cached("[--model=Qwen/Qwen3-8B]"),
            f"{MEMBER}.template.spec.containers[0].args: {CACHE_TEXT}",
            id="a hub model beside a cache",
        ),
        pytest.param(
            cached("[--model, Qwen/Qwen3-8B]"),
            f"{MEMBER}.template.spec.containers[0].args: {CACHE_TEXT}",
            id="a hub model beside a cache, in two words",
        ),
        pytest.param(
            cached("[serve, Qwen/Qwen3-8B]"),
            f"{MEMBER}.template.spec.containers[0].args: {CACHE_TEXT}",
            id="a hub model beside a cache, by position",
        ),
        pytest.param(
            hardware("141Gi", "productName: {string: NVIDIA H200}"),
            'spec.devices[0].capacity.memory.value: device "gpu" declares 141Gi of memory, but NVIDIA H200 '
            "publishes 143771Mi, so pods that ask for more remain Pending: declare 143771Mi",
            id="a class with the nominal memory of a card",
        ),
        pytest.param(
            at_least("80Gi"),
            f"{MEMORY}: does not match NVIDIA H100 80GB HBM3 (publishes 81559Mi, so ask for at most 79Gi): "
            "cards publish less memory than the nominal size",
            id="a selector with the nominal memory of a card",
        ),
        pytest.param(
            asking('device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("144383Mi"))'),
            f"{MEMORY}: does not match NVIDIA H200 (publishes 143771Mi, so ask for at most 140Gi): cards "
            "publish less memory than the nominal size",
            id="a selector that is true from the nominal memory on",
        ),
        pytest.param(
            at_least("24Gi", ' && device.attributes["gpu.nvidia.com"].architecture == "Ada Lovelace"'),
            f"{MEMORY}: does not match NVIDIA L4 (publishes 23034Mi, so ask for at most 22Gi), NVIDIA "
            "GeForce RTX 4090 (publishes 24564Mi, so ask for at most 23Gi): cards publish less memory than "
            "the nominal size",
            id="a selector with the nominal memory of several cards",
        ),
        pytest.param(
            templated(at_least("80Gi")),
            f"spec.template.{MEMORY}: does not match NVIDIA H100 80GB HBM3 (publishes 81559Mi, so ask for "
            "at most 79Gi): cards publish less memory than the nominal size",
            id="the same in the other shape",
        ),
        pytest.param(
            on_clusters("modelplane.ai/regoin"),
            "spec.clusterSelector.matchLabels[modelplane.ai/regoin]: modelplane.ai/regoin is not a known "
            "label of InferenceClusters; did you mean modelplane.ai/region?",
            id="a misspelt label of clusters",
        ),
        pytest.param(
            templated(
                on_clusters("modelplane.ai/x").replace(
                    "  clusterSelector: {matchLabels: {modelplane.ai/x: x}}\n", ""
                )
            )
            + "      clusterSelector: {matchLabels: {modelplane.ai/gpu: x}}\n",
            "spec.template.spec.clusterSelector.matchLabels[modelplane.ai/gpu]: modelplane.ai/gpu is a "
            "label of nodes, not of InferenceClusters: use another label",
            id="a label of nodes, in the other shape",
        ),
        pytest.param(
            f"apiVersion: {API}\nkind: ModelCache\nmetadata: {{name: c, namespace: ml-team}}\nspec:\n"
            "  source: HuggingFace\n  huggingFace: {repo: a/b, sizeGiB: 1}\n"
            "  clusterSelector: {matchLabels: {modelplane.ai/colour: x}}\n",
            "spec.clusterSelector.matchLabels[modelplane.ai/colour]: modelplane.ai/colour is not a known "
            "label of InferenceClusters: use a label with your own prefix",
            id="an unknown label of clusters, of a cache",
        ),
        pytest.param(
            service("{modelplane.ai/serving: x}"),
            "spec.endpoints[0].selector.matchLabels[modelplane.ai/serving]: modelplane.ai/serving is a "
            "label of pods, not of ModelEndpoints: use another label",
            id="a label that endpoints do not have",
        ),
        pytest.param(
            service("{}"),
            'spec.endpoints[0].selector.matchLabels: selects every ModelEndpoint in namespace "ml-team": '
            "add a label, such as modelplane.ai/deployment",
            id="no label at all",
        ),
        pytest.param(
            selecting('device.attributes["gpu.nvidia.com/arch"].x == 1'),
            f'{CEL}: "gpu.nvidia.com/arch" is not the domain of a driver: write '
            'device.attributes["gpu.nvidia.com"].arch',
            id="a domain with a name in it",
        ),
        pytest.param(
            selecting('device.attributes["gpu.nvidia.com"]["compute-capability"] == 1'),
            f'{CEL}: "compute-capability" is not an identifier, so no device has this attribute: use the '
            "driver's name",
            id="a name that no device can have",
        ),
        pytest.param(
            selecting('device.attributes["modelplane.ai"].gpuCount >= 8'),
            f'{CEL}: no driver publishes attributes of "modelplane.ai", so the selector matches no device: '
            "use an attribute that the driver publishes, or a Synthetic device",
            id="attributes of Modelplane",
        ),
        pytest.param(
            gateway("front"),
            "metadata.name: only the InferenceGateway named default is used: rename it to default",
            id="another gateway",
        ),
        pytest.param(
            f"{gateway('default')}status: {{address: gateway.example}}\n",
            "spec: without authentication, the gateway at gateway.example accepts every request: set "
            "authentication to APIKey and create keys with `modelplane key create`, or set authentication "
            "to None",
            id="an open gateway",
        ),
        pytest.param(
            endpoint("http://127.0.0.1:8000"),
            'spec.url: "127.0.0.1" is the gateway\'s own host: use an address that the gateway can reach',
            id="a loopback address",
        ),
        pytest.param(
            endpoint("http://localhost"),
            'spec.url: "localhost" is the gateway\'s own host: use an address that the gateway can reach',
            id="a loopback name",
        ),
        pytest.param(
            endpoint("https://api.example.com/openai/v1", "/"),
            'spec.url: path "/openai/v1" in the URL is ignored: set spec.rewritePath instead',
            id="a path that is lost",
        ),
        pytest.param(
            pooled("capacityBlock: {capacityReservationId: cr-0a1b}"),
            "spec.nodePools[0].capacityBlock: capacity blocks apply to EKS, and are ignored with source "
            "Existing: remove capacityBlock",
            id="a capacity block of a cluster that exists",
        ),
        pytest.param(
            pooled("fabric: EFA"),
            "spec.nodePools[0].fabric: EFA is not set up with source Existing, and doesn't connect pools "
            "without a name: remove it, or write an object with type and name",
            id="EFA of a cluster that exists",
        ),
        pytest.param(
            pooled("maxNodeCount: 1"),
            "spec.nodePools[0].nodeCount: nodeCount 2 is greater than maxNodeCount 1: "
            "raise maxNodeCount, or lower nodeCount",
            id="more nodes than autoscaling allows",
        ),
        pytest.param(
            "apiVersion: infrastructure.modelplane.ai/v1alpha1\nkind: ServingStack\n"
            "metadata: {name: s, namespace: platform}\n"
            "spec: {secrets: [{type: Kubeconfig, name: s, key: kubeconfig}]}\n",
            "spec: a stack without clusterName installs nothing: each InferenceCluster creates its own stack",
            id="a serving stack without a cluster",
        ),
    ],
)
def test_what_is_hardly_meant_is_a_warning(text, line):
    found = [each for each in validated(text).problems if each.severity is Severity.WARNING]
    assert [f"{each.field}: {each.message}" for each in found] == [line]
    assert all(each.line for each in found)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(cached("[--model=/mnt/models]"), id="a path of the cache"),
        pytest.param(cached("[--served-model-name=Qwen/Qwen3-8B]"), id="a name of the model"),
        pytest.param(on_clusters("modelplane.ai/region"), id="a documented label of clusters"),
        pytest.param(on_clusters("example.com/rack"), id="a label of one's own"),
        pytest.param(service("{modelplane.ai/deployment: x}"), id="a label of endpoints"),
        pytest.param(
            selecting('device.attributes["gpu.nvidia.com"].architecture == "Hopper"'), id="a real attribute"
        ),
        pytest.param(at_least("79Gi"), id="memory that the card publishes"),
        pytest.param(at_least("23Gi"), id="memory that is no nominal size"),
        pytest.param(at_least("40Gi"), id="memory of which a card has all"),
        pytest.param(
            at_least("80Gi", ' && device.attributes["gpu.nvidia.com"].architecture == "Ampere"'),
            id="the nominal memory of another architecture",
        ),
        pytest.param(
            asking('device.capacity["gpu.nvidia.com"].memory.isLessThan(quantity("80Gi"))'), id="at most"
        ),
        pytest.param(hardware("143771Mi", "productName: {string: NVIDIA H200}"), id="memory as published"),
        pytest.param(gateway("default"), id="the gateway"),
        pytest.param(endpoint("https://api.example.com/"), id="a provider"),
        pytest.param(endpoint("http://10.0.1.50/a/b/v1", "/a/b/"), id="a path that is rewritten too"),
        pytest.param(pooled("maxNodeCount: 2"), id="as many nodes as autoscaling allows"),
        pytest.param(pooled("fabric: {type: EFA, name: rack}"), id="EFA that joins pools"),
        pytest.param(endpoint("http://127.0.0.1/a/b/v1", more=OWNED), id="one that Modelplane made"),
    ],
)
def test_what_may_be_meant_is_none(text):
    assert said(text) == []


def test_what_is_wrong_is_not_also_doubtful():
    [line] = said(pooled("fabric: {type: EFA, infinband: {}}"))
    assert line.endswith("unknown field; did you mean infiniband?")


@pytest.mark.parametrize(
    ("kind", "spec", "pool"),
    [
        ("AKSCluster", "location: westeurope", "vmSize: v"),
        ("EKSCluster", "region: r", "instanceType: t"),
        ("GKECluster", "region: r", "machineType: t"),
        ("NebiusCluster", 'kubernetesVersion: "1.34"', "platform: p, preset: q"),
        ("VultrCluster", "region: r", "plan: p"),
    ],
)
def test_a_pool_of_every_cloud_is_warned_of_more_nodes_than_its_maximum(kind, spec, pool):
    text = (
        f"apiVersion: infrastructure.modelplane.ai/v1alpha1\nkind: {kind}\n"
        f"metadata: {{name: c, namespace: platform}}\nspec:\n  {spec}\n"
        f"  nodePools: [{{name: a, role: System, {pool}, nodeCount: 8, maxNodeCount: 4}}]\n"
    )
    fields = [each.field for each in validated(text).problems]
    assert fields[-1] == "spec.nodePools[0].nodeCount"
    assert (fields[0] == "kind") == (kind not in COMPOSERS)


def test_the_kinds_that_are_warned_of_are_those_that_nothing_composes():
    warned = {kind for kind in KINDS if any(each.path == ("kind",) for each in find_advice(kind, {}))}
    assert warned == set(KINDS) - set(COMPOSED)


@pytest.mark.parametrize("address", ["127.0.0.1:8080", "localhost"])
def test_an_open_gateway_on_loopback_is_not_warned_of(address):
    assert said(f"{gateway('default')}status: {{address: '{address}'}}\n") == []


def test_a_gateway_that_is_open_by_choice_is_not_warned_of():
    chosen = gateway("default").replace("backend: Envoy", "backend: Envoy, authentication: None")
    assert said(f"{chosen}status: {{address: gateway.example}}\n") == []


def test_a_reference_to_a_variable_that_nothing_sets_is_a_warning_at_its_word():
    image = "                  image: vllm/vllm-openai:v0.23.0\n"
    args = '["--served-model-name=$(MODELPLANE_SERVED_MODEL_NAME)", "--model=$(MODEL)"]'
    where = "spec.engines[0].members[0].template.spec.containers[0].args[1]"
    message = (
        "the variable in $(MODEL) is not set, so the program receives these characters "
        "literally: set the variable in env, or "
        "write $$(MODEL) for the characters"
    )
    assert said(changed(DEPLOYMENT, (image, f"{image}{ARGS}{args}\n"))) == [
        f'stdin:21:81: warning: ModelDeployment "ml-team/qwen": {where}: {message}'
    ]


def test_every_module_of_a_rule_is_in_the_list():
    folder = Path(advice_module.__file__).parent
    parts = {"advice", "label_keys"}
    modules = {each.stem for each in folder.glob("*.py")} | {
        f"across_objects.{each.stem}" for each in (folder / "across_objects").glob("*.py")
    }
    listed = [rule.name for rule in RULES]
    assert sorted(listed) == sorted({name for name in modules - parts if not name.endswith("__init__")})
    for rule in RULES:
        assert hasattr(rule.load(), "Check" if rule.is_across_objects else "check"), rule


def test_a_command_line_is_parsed_once_for_all_rules():
    _parsed.cache_clear()
    image = "                  image: vllm/vllm-openai:v0.23.0\n"
    assert said(changed(DEPLOYMENT, (image, f"{image}{ARGS}[--max-model-len=1024]\n"))) == []
    assert _parsed.cache_info().misses == 1
