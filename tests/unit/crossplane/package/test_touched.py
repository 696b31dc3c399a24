"""The table of kinds says what is composed and required, no more and no less."""

from modelplane.api.kinds import KINDS
from modelplane.api.schema.decode import decode_as
from modelplane.compose.clouds.table import READ_ACCOUNTS
from modelplane.compose.cluster import cluster_namespace
from modelplane.compose.kinds import COMPOSERS
from modelplane.compose.workload_kinds import RELEASE, Place, rows
from modelplane.crossplane.function import companions, remote_objects, requirements
from modelplane.crossplane.package.touched import COMPOSED, REQUIRED
from support.goldens import GOLDENS

OURS = {(kind.api_version, kind.name) for kind in KINDS}


def _listed(table):
    return {(each.api_version, each.kind) for each in table}


def _children():
    for name in GOLDENS.names():
        for child in GOLDENS.output(name).get("children", ()):
            if "manifest" in child:
                yield child["cluster"], child["manifest"]


def _required():
    by_name = {kind.name: kind for kind in KINDS}
    for name in GOLDENS.names():
        owner = GOLDENS.input(name)["owner"]
        composer = COMPOSERS[owner["kind"]]
        decoded = decode_as(composer.type, owner)
        yield from composer.requirements(decoded)
        yield from requirements.list_own(by_name[owner["kind"]], decoded, {})


def test_what_is_composed_on_the_control_plane_is_in_the_table():
    plain = {(manifest["apiVersion"], manifest["kind"]) for cluster, manifest in _children() if not cluster}
    # What the function makes of the rest: children of other clusters, connections, guards.
    by_function = {
        (remote_objects.API_VERSION, remote_objects.KIND),
        (RELEASE.api_version, RELEASE.kind),
        (remote_objects.API_VERSION, "ClusterProviderConfig"),
        *((each, "ProviderConfig") for each in (remote_objects.API_VERSION, RELEASE.api_version)),
    }
    guards = {(companions._PROTECTION, "Usage"), (companions._PROTECTION, "ClusterUsage")}
    # The package of a cloud activates its managed resources, and its providers bring the permission.
    managed = {(row.api_version, row.kind) for row in rows(Place.CONTROL_PLANE) if not row.built_in}
    assert _listed(COMPOSED) == (plain - OURS - managed) | by_function | guards
    assert managed <= plain, "no golden case composes it"


def test_what_is_required_of_the_control_plane_is_in_the_table():
    # The function does not ask for the owner's own namespace.
    asked = [each for each in _required() if not each.cluster and each.key != cluster_namespace.HOME_KEY]
    wanted = {(each.api_version, each.kind) for each in asked}
    accounts = {(account.api_version, "ClusterProviderConfig") for account in READ_ACCOUNTS}
    namespaced = {(account.api_version, "ProviderConfig") for account in READ_ACCOUNTS}
    # What it composes, it may read.
    assert _listed(REQUIRED) == wanted - OURS - accounts - namespaced - _listed(COMPOSED)
    assert accounts <= wanted
