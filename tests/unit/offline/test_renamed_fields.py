"""Manifests of Modelplane's earlier shapes are told what each kind, field and word is today."""

import pytest

from modelplane.api.clouds.cluster_origin import Source
from modelplane.api.kinds import KINDS, find_kind
from modelplane.api.schema.crd import build_schema
from modelplane.offline.check import renamed_fields, structural
from support.manifests import API, DEPLOYMENT, cluster, said

NAMES = {kind.name for kind in KINDS}
FIELDS = [(kind, place, old) for (kind, place), fields in renamed_fields._FIELDS.items() for old in fields]


@pytest.mark.parametrize(
    ("old", "today"),
    [
        ("ClusterModel", "ModelDeployment"),
        ("InferenceEnvironment", "InferenceCluster"),
        ("Model", "ModelDeployment"),
        ("ModelPlacement", "ModelReplica"),
    ],
)
def test_a_former_kind_is_told_by_todays(old, today):
    [line] = said(f"apiVersion: {API}\nkind: {old}\nmetadata: {{name: x}}\nspec: {{}}\n")
    assert line == (
        f'stdin:2:7: error: {old} "x": kind: "{old}" is a kind of an earlier version: the current name '
        f"is {today}"
    )


@pytest.mark.parametrize(
    ("old", "today"),
    [
        ("AWS", "EKS"),
        ("Azure", "AKS"),
        ("BYO", "Existing"),
        ("BYOC", "Existing"),
        ("CoreWeave", "Existing"),
        ("GCP", "GKE"),
        ("Google", "GKE"),
    ],
)
def test_a_cloud_is_told_by_its_source(old, today):
    lines = said(cluster("west").replace("source: Existing", f"source: {old}"))
    assert lines[0].endswith(
        f'spec.cluster.source: "{old}" is not one of GKE, EKS, AKS, Nebius, Vultr and Existing; '
        f"did you mean {today}?"
    )


@pytest.mark.parametrize(("kind", "place", "old"), FIELDS)
def test_a_former_field_is_told_by_todays(kind, place, old):
    *_, inner = outer = place.split(".")
    value = f"{{{old}: x}}"
    if place == "spec.nodePools":
        value = f"[{value}]"
    for step in reversed(outer[1:]):
        value = f"{{{step}: {value}}}"
    body = f"{{{old}: x}}" if outer == ["spec"] else value
    text = f"apiVersion: {API}\nkind: {kind}\nmetadata: {{name: x}}\nspec: {body}\n"
    index = "[0]" if inner == "nodePools" else ""
    told = renamed_fields._FIELDS[kind, place][old].text
    end = f": {place}{index}.{old}: unknown field, from an earlier version: {told}"
    assert len([line for line in said(text) if line.endswith(end)]) == 1


def test_no_former_name_is_one_of_today():
    assert not NAMES & set(renamed_fields.KINDS)
    assert set(renamed_fields.KINDS.values()) <= NAMES
    assert not {str(source) for source in Source} & set(renamed_fields.CLUSTER_SOURCES)
    assert set(renamed_fields.CLUSTER_SOURCES.values()) <= {str(source) for source in Source}
    for kind, place, old in FIELDS:
        known = structural.find_schema(build_schema(find_kind(API, kind)), _path(place))
        assert old not in known["properties"], (kind, place, old)


def test_the_path_of_a_replacement_is_one_of_todays_fields():
    for (kind, _), replacements in renamed_fields._FIELDS.items():
        whole = build_schema(find_kind(API, kind))
        for each in replacements.values():
            path = each.path[2:] if each.path[:1] == ("metadata",) else each.path
            assert structural.find_schema(whole, path), (kind, each)


def test_a_replacement_without_a_path_is_in_another_object_or_removed():
    assert {
        each.text for fields in renamed_fields._FIELDS.values() for each in fields.values() if not each.path
    } == {
        "removed: requests are passed through unchanged",
        "the current name is spec.devices of the InferenceClass that className names",
        "the current name is the label modelplane.ai/pool of the nodes",
    }


@pytest.mark.parametrize(
    "old", [old for kind, place, old in FIELDS if (kind, place) == ("ModelDeployment", "spec")]
)
def test_a_former_field_of_a_deployment_is_the_only_problem_that_is_told(old):
    replaced = renamed_fields._FIELDS["ModelDeployment", "spec"][old]
    engines = (
        DEPLOYMENT if replaced.path[:2] != ("spec", "engines") else DEPLOYMENT.partition("  engines:")[0]
    )
    text = engines.replace("spec:\n", f"spec:\n  {old}: x\n", 1)
    assert [line.partition('"ml-team/qwen": ')[2] for line in said(text)] == [
        f"spec.{old}: unknown field, from an earlier version: {replaced.text}"
    ]


def test_a_former_field_of_a_pool_stands_for_its_replacement_in_the_same_pool():
    pools = "[{name: a, className: l4, nodeCount: 1}, {name: b, class: l4, nodeCount: 1}]"
    [line] = said(f"{cluster('west').partition('  nodePools:')[0]}  nodePools: {pools}\n")
    assert line.partition('"west": ')[2] == (
        "spec.nodePools[1].class: unknown field, from an earlier version: the current name is "
        "spec.nodePools[].className"
    )


def test_a_former_shape_is_not_also_told_what_it_lacks():
    text = DEPLOYMENT.partition("  engines:")[0] + "  workers: {count: 1}\n  engine: {image: x}\n"
    assert [line.partition('"ml-team/qwen": ')[2] for line in said(text)] == [
        "spec.workers: unknown field, from an earlier version: the current name is spec.engines[].members[]",
        f"spec.engine: unknown field, from an earlier version: {renamed_fields._ENGINE.text}",
    ]


def _path(place):
    return tuple(
        step for each in place.split(".") for step in ((each, 0) if each == "nodePools" else (each,))
    )
