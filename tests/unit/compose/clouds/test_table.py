"""The table of clouds, and what is derived from its rows."""

from pathlib import Path
from typing import Any

import pytest

from modelplane.api.clouds.cloud_rows import CLUSTER_KINDS, Cloud
from modelplane.api.clouds.cluster_origin import Source
from modelplane.api.clouds.gke_cluster import GKECluster
from modelplane.api.schema.decode import decode_as
from modelplane.compose.clouds import flow
from modelplane.compose.clouds.kinds import Account, ManagedKind, Provider
from modelplane.compose.clouds.recipe import Recipe
from modelplane.compose.clouds.site import Parts, Site, Waiting
from modelplane.compose.clouds.table import RECIPES
from modelplane.compose.composition import Desired, Keep, NoFacts, Request
from modelplane.compose.kinds import COMPOSERS
from modelplane.compose.workload_kinds import ROWS, Place
from modelplane.compose.workload_readiness import Finished
from modelplane.crossplane.package.package_contents import cloud_configuration
from modelplane.install.identity_permissions import list_control_plane_rules

PAGE = (Path(__file__).parents[4] / "docs" / "reference" / "clouds.md").read_text(encoding="utf-8")
every_cloud = pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.source)


def test_every_cloud_is_composed() -> None:
    assert list(RECIPES) == [Source(cloud) for cloud in Cloud]
    assert {recipe.kind for recipe in RECIPES.values()} == set(CLUSTER_KINDS)


@every_cloud
def test_a_cloud_is_composed_permitted_packaged_and_described(recipe: Recipe) -> None:
    assert COMPOSERS[recipe.kind].is_platform
    kinds = [kind for provider in recipe.providers for kind in provider.kinds]
    permitted = {(rule.group, plural) for rule in list_control_plane_rules() for plural in rule.resources}
    _, policy = cloud_configuration(recipe).documents
    assert policy["spec"]["activate"] == sorted(kind.definition for kind in kinds)
    for kind in kinds:
        row = ROWS[kind.api_version, kind.kind]
        assert (row.place, row.ready) == (Place.CONTROL_PLANE, Finished("Ready"))
        assert (kind.group, kind.plural) in permitted
        assert kind.kind in PAGE


def _network(site: Site[Any]) -> Parts:
    yield site.managed("network", NETWORK, {"range": site.owner.spec.networking.pod_cidr})


def _cluster(site: Site[Any]) -> Parts:
    network = site.text("network", "id")
    if network:
        yield site.managed("cluster", MACHINES, {"network": network})
    else:
        yield Waiting("cluster", "the id of the network")


NETWORK = ManagedKind("example.com", "Network", "networks")
MACHINES = ManagedKind("example.com", "Machines", "machines")
INVENTED = Recipe(
    Source.GKE,
    "Example Cloud",
    "example",
    GKECluster,
    (Provider("example.com/provider", "1.0.0", (NETWORK, MACHINES)),),
    Account("example.com"),
    (_network, _cluster),
    problems=lambda _site: (),
    pool=lambda _pool, _recipe: {},
    secrets=lambda _site: (),
)


def test_an_invented_cloud_is_composed_by_the_same_flow() -> None:
    pool = {"name": "gpu", "role": "GPU", "machineType": "m", "zones": ["z"], "gpu": {"acceleratorType": "g"}}
    owner = decode_as(
        GKECluster,
        {"metadata": {"name": "c", "namespace": "n"}, "spec": {"region": "r", "nodePools": [pool]}},
    )
    required = {
        each.key: ({"metadata": {"name": each.name}},) for each in flow.requirements(INVENTED, owner)[:1]
    }
    [network] = flow.compose(INVENTED, Request(owner, {}, required, NoFacts())).children
    assert isinstance(network, Desired)
    assert network.manifest["spec"]["forProvider"] == {"range": "10.1.0.0/16"}
    seen = {**network.manifest, "status": {"atProvider": {"id": "net-1"}}}
    [_, cluster] = flow.compose(INVENTED, Request(owner, {"network": seen}, required, NoFacts())).children
    assert isinstance(cluster, Desired)
    assert cluster.manifest["spec"]["forProvider"] == {"network": "net-1"}
    silent = {"network": network.manifest, "cluster": cluster.manifest}
    assert flow.compose(INVENTED, Request(owner, silent, required, NoFacts())).children[1:] == (
        Keep("cluster"),
    )
