import pytest

from modelplane.api.kinds import KINDS
from modelplane.api.meta import Object, kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import decode_as
from modelplane.compose import workload_kinds
from modelplane.compose.composition import Requirement
from modelplane.compose.kinds import COMPOSERS
from modelplane.compose.workload_kinds import WorkloadKind
from modelplane.controllers import fleet_resources
from modelplane.kube import resources
from modelplane.kube.resources import Resource
from support.manifests import DEPLOYMENT, loaded


def test_our_kinds_and_those_of_kubernetes_are_known() -> None:
    assert [fleet_resources.find_known(kind.api_version, kind.name) for kind in KINDS] == [
        Resource(kind.group, kind.version, kind.name, kind.plural, kind.namespaced) for kind in KINDS
    ]
    assert fleet_resources.find_known("v1", "Pod") == resources.PODS


def test_a_kind_is_known_as_soon_as_it_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    row = WorkloadKind("orbits.example.com", "v1", "Orbit", "orbits", "Engines that go round.")
    assert fleet_resources.find_known("orbits.example.com/v1", "Orbit") is None
    monkeypatch.setitem(workload_kinds.ROWS, (row.api_version, row.kind), row)
    orbits = Resource("orbits.example.com", "v1", "Orbit", "orbits")
    assert fleet_resources.find_known("orbits.example.com/v1", "Orbit") == orbits


@pytest.mark.parametrize("row", workload_kinds.ROWS.values(), ids=lambda row: row.kind)
def test_a_row_and_the_kinds_of_kubernetes_say_the_same(row: WorkloadKind) -> None:
    assert resources.find_known(row.api_version, row.kind) in (None, fleet_resources.of_row(row))


def test_a_kind_that_is_not_known_is_named() -> None:
    with pytest.raises(KeyError, match='no REST path known for kind "CronJob" of "batch/v1"'):
        fleet_resources.resource_for("batch/v1", "CronJob")


def test_a_plan_reads_from_a_live_fleet_all_that_a_placement_requires() -> None:
    [item] = loaded(DEPLOYMENT).objects
    spec = {
        **item["spec"],
        "modelCacheRef": {"name": "weights"},
        "standbyFor": {"name": "other", "when": ["Unplaced", "Saturated"]},
    }
    quota: Object = {
        "kind": "DeviceQuota",
        "metadata": {"name": "q", "uid": "q", "resourceVersion": "1"},
        "spec": {"namespaces": ["a"], "priorityClassNames": ["serving"]},
    }

    def find(requirement: Requirement) -> tuple[Object, ...]:
        return (quota,) if requirement.kind == "DeviceQuota" else ()

    name = kind_name(ModelDeployment)
    required = {
        each.kind
        for each in COMPOSERS[name].required(decode_as(ModelDeployment, {**item, "spec": spec}), find)
    }
    assert required >= {"DeviceQuota", "ModelDeployment", "ModelCache"}
    for read in (fleet_resources.NEEDED_TO_PLAN, fleet_resources.list_needed_to_explain(name)):
        assert required <= {each.kind for each in read}
