import pytest

from modelplane.api.fields.pods.engines import Routing, ServingMode
from modelplane.api.model_deployment import ReplicaTemplate
from modelplane.api.schema.decode import decode

ENGINES = [
    {
        "name": "qwen",
        "members": [{"template": {"spec": {"containers": [{"name": "engine", "image": "vllm"}]}}}],
    }
]
SETTINGS = {
    "regions": ["us-east", "us-west"],
    "clusterSelector": {"matchLabels": {"modelplane.ai/region": "us"}},
    "modelCacheRef": {"name": "weights"},
    "serving": {"mode": "PrefillDecode", "routing": "EndpointPicker"},
    "tolerations": [{"operator": "Exists"}],
}


def _deployment(spec):
    return decode(
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "ModelDeployment",
            "metadata": {"name": "qwen", "namespace": "ml-team"},
            "spec": spec,
        }
    )


def test_both_ways_of_writing_a_replica_read_the_same():
    direct = _deployment({"replicas": 1, **SETTINGS, "engines": ENGINES})
    nested = _deployment({"replicas": 1, "template": {"spec": {**SETTINGS, "engines": ENGINES}}})
    assert direct.replica_template() == nested.replica_template()


def test_every_setting_reaches_the_template():
    deployment = _deployment(
        {
            "replicas": 1,
            "template": {"metadata": {"labels": {"team": "a"}}, "spec": {**SETTINGS, "engines": ENGINES}},
        }
    )
    spec = deployment.spec.template.spec
    assert deployment.replica_template() == ReplicaTemplate(
        labels={"team": "a"},
        cluster_selector={"modelplane.ai/region": "us"},
        model_cache_name="weights",
        regions=("us-east", "us-west"),
        serving=ServingMode.PREFILL_DECODE,
        routing=Routing.ENDPOINT_PICKER,
        tolerations=spec.tolerations,
        engines=spec.engines,
    )


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"engines": ENGINES}, id="written directly"),
        pytest.param({"template": {"spec": {"engines": ENGINES}}}, id="written as a template"),
    ],
)
def test_what_is_not_chosen_is_empty(spec):
    template = _deployment({"replicas": 1, **spec}).replica_template()
    assert template == ReplicaTemplate(
        labels={},
        cluster_selector={},
        model_cache_name=None,
        regions=(),
        serving=ServingMode.UNIFIED,
        routing=None,
        tolerations=(),
        engines=template.engines,
    )
    assert [engine.name for engine in template.engines] == ["qwen"]
