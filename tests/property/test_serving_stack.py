"""A serving stack loses no component, whatever is seen of its cluster and of its releases, in any order."""

from typing import Any

from hypothesis import given, settings, strategies as st

from modelplane.api.clouds.serving_stack import ServingStack
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Composition, Desired, Request, Unknown
from modelplane.compose.kinds import COMPOSERS
from modelplane.compose.serving_stack.component import StackFacts

SEEN: tuple[dict[str, Any] | None, ...] = (
    None,
    {},
    {"conditions": None},
    {"conditions": [{"type": "Synced", "status": "False", "message": "forbidden"}]},
    {"conditions": [{"type": "Ready", "status": "True"}], "atProvider": None},
    {"conditions": [{"type": "Ready", "status": "True"}], "addresses": [{"value": "10.0.0.1"}]},
    {"atProvider": {"state": "failed"}},
)
"""What may be seen of a child; None is one that a reader has lost sight of."""

FOREIGN = {
    "apiVersion": "gateway.networking.k8s.io/v1",
    "kind": "Gateway",
    "metadata": {"name": "inference-gateway", "namespace": "modelplane-system"},
}
READ = st.sampled_from([(), (FOREIGN,), Unknown("the server is down")])
SPECS = st.fixed_dictionaries(
    {"profile": st.sampled_from(["Standard", "Minimal", "None"])},
    optional={
        "nvidiaDriverRoot": st.just("/home/kubernetes/bin/nvidia"),
        "clusterName": st.just("east"),
        "components": st.sampled_from(
            [
                [{"name": "dynamo", "enabled": True}],
                [{"name": "prometheus", "values": {"text": "x" * 20000}}],
                [{"name": "dra-driver", "version": "9.9.9"}],
            ]
        ),
    },
)
"""What users may write, except that a component is to be uninstalled."""


def _stack(spec: dict[str, Any], status: Any) -> ServingStack:
    return decode_as(
        ServingStack,
        {
            "apiVersion": "infrastructure.modelplane.ai/v1alpha1",
            "kind": "ServingStack",
            "metadata": {"name": "east-serving-stack", "namespace": "modelplane-system"},
            "spec": {"secrets": [{"type": "Kubeconfig", "name": "s", "key": "k"}], **spec},
            "status": status,
        },
    )


@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_no_component_that_was_composed_is_withdrawn(data: st.DataObject) -> None:
    composer = COMPOSERS["ServingStack"]
    made: dict[str, Any] = {}
    status: Any = {}
    for _ in range(5):
        stack = _stack(data.draw(SPECS), status)
        observed = {}
        for key, manifest in made.items():
            seen = data.draw(st.sampled_from(SEEN))
            if seen is not None:
                observed[key] = {**manifest, "status": seen}
        required: dict[str, Any] = {each.key: data.draw(READ) for each in composer.requirements(stack)}
        composition = composer.compose(Request(stack, observed, required, StackFacts()))
        assert isinstance(composition, Composition)
        children = {child.key for child in composition.children}
        assert set(observed) <= children
        assert {key for key, manifest in made.items() if manifest["kind"] == "Release"} <= children
        made |= {child.key: child.manifest for child in composition.children if isinstance(child, Desired)}
        status = composition.status
