"""Manifests of Modelplane's earlier shapes are told what each kind, field and word is today."""

import pytest

from modelplane.api.cluster_origin import Source
from modelplane.api.crd import schema
from modelplane.api.kinds import KINDS, kind_named
from modelplane.offline import former, structural
from support.manifests import API, DEPLOYMENT, cluster, said

NAMES = {kind.name for kind in KINDS}
FIELDS = [(kind, place, old) for (kind, place), fields in former._FIELDS.items() for old in fields]


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
        f'stdin:2:7: error: {old} "x": kind: "{old}" is a kind of an earlier version: today it is {today}'
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
    today = former._FIELDS[kind, place][old]
    end = f": {place}{index}.{old}: unknown field, of an earlier version: today it is {today}"
    assert len([line for line in said(text) if line.endswith(end)]) == 1


def test_no_former_name_is_one_of_today():
    assert not NAMES & set(former.KINDS)
    assert set(former.KINDS.values()) <= NAMES
    assert not {str(source) for source in Source} & set(former.WORDS)
    assert set(former.WORDS.values()) <= {str(source) for source in Source}
    for kind, place, old in FIELDS:
        known = structural.at(schema(kind_named(API, kind)), _path(place))
        assert old not in known["properties"], (kind, place, old)


def test_every_field_of_today_that_is_named_is_there():
    for (kind, _), fields in former._FIELDS.items():
        whole = schema(kind_named(API, kind))
        for today in fields.values():
            home = former.home(today)
            assert not home or structural.at(whole, home), (kind, today)


def test_a_former_shape_is_not_also_told_what_it_lacks():
    text = DEPLOYMENT.partition("  engines:")[0] + "  workers: {count: 1}\n  engine: {image: x}\n"
    assert [line.partition('"ml-team/qwen": ')[2] for line in said(text)] == [
        "spec.workers: unknown field, of an earlier version: today it is spec.engines[].members[]",
        f"spec.engine: unknown field, of an earlier version: today it is {former._ENGINE}",
    ]


def _path(place):
    return tuple(
        step for each in place.split(".") for step in ((each, 0) if each == "nodePools" else (each,))
    )
