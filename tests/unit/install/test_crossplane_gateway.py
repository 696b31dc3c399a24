"""The gateway under Crossplane is that of an installation, with a label of its own."""

import json

from modelplane.install import crossplane_gateway, gateway_deployment
from modelplane.install.installation_options import INSTALLATION, PART_OF, Options
from modelplane.install.manifests import build_manifests


def plain(manifest: object) -> str:
    """Return a manifest without the difference of its labels."""
    return json.dumps(manifest, sort_keys=True).replace(crossplane_gateway.PART, INSTALLATION)


COMPOSED = crossplane_gateway.build_children(Options())
EVERYTHING = (*COMPOSED.values(), *crossplane_gateway.build_permissions())


def test_each_object_of_the_gateway_is_that_of_an_installation() -> None:
    composed = {plain(each) for each in COMPOSED.values()}
    assert {plain(each) for each in gateway_deployment.build_gateway(Options())} <= composed
    installed = {plain(each) for each in build_manifests(Options())}
    own = [each for each in EVERYTHING if plain(each) not in installed]
    assert {crossplane_gateway.COMPONENT in str(each) for each in own} == {True}


def test_the_removal_of_an_installation_finds_none_of_them() -> None:
    assert not [each for each in EVERYTHING if f'"{PART_OF}": "{INSTALLATION}"' in json.dumps(each)]


def test_a_pod_is_selected_by_the_policies_and_the_service() -> None:
    for key in ("envoy-deployment", "envoy-publisher"):
        labels = COMPOSED[key]["spec"]["template"]["metadata"]["labels"].items()
        policy = COMPOSED["envoy-networkpolicy-modelplane"]
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels
    service = COMPOSED["envoy-service"]["spec"]["selector"].items()
    assert service <= COMPOSED["envoy-deployment"]["spec"]["template"]["metadata"]["labels"].items()


def test_keys_are_those_that_crossplane_takes_as_names() -> None:
    assert all(key == key.lower() and len(key) <= 63 for key in COMPOSED)


def test_an_image_is_that_of_the_options() -> None:
    composed = crossplane_gateway.build_children(Options(image="example.org/mirror:1"))
    images = {
        each["image"]
        for key in ("envoy-deployment", "envoy-publisher")
        for part in ("containers", "initContainers")
        for each in composed[key]["spec"]["template"]["spec"].get(part, ())
    }
    assert images == {"example.org/mirror:1"}
