"""Placement by a deployment's region rule, and what becomes of replicas outside it."""

from typing import Any

import pytest

from modelplane.scheduler import schedule

EU = "eu: l4 x2 modelplane.ai/region=eu"
US = "us: l4 x2 modelplane.ai/region=us"
NOWHERE = "nowhere: l4 x2"


@pytest.mark.parametrize(
    ("want", "clusters", "existing", "placed"),
    [
        pytest.param(
            "2: 20Gi; regions eu",
            f"{EU} | {US} | {NOWHERE}",
            "",
            ["eu/0 l4", "eu/1 l4"],
            id="the spread over clusters ends at the regions",
        ),
        pytest.param(
            "3: 20Gi; regions eu us",
            f"{EU} | {US} | {NOWHERE}",
            "",
            ["eu/0 l4", "eu/1 l4", "us/0 l4"],
            id="a cluster without a region is outside every region",
        ),
        pytest.param(
            "1: 20Gi; regions eu",
            f"{EU} | {US}",
            "a@us/0 ready main:l4",
            ["eu/0 l4", "a@us/0 l4 leaving"],
            id="a replica outside leaves when its replacement is ready",
        ),
        pytest.param(
            "1: 20Gi; regions eu",
            f"{EU} | {US}",
            "a@us/0 ready main:l4 | b@eu/0 ready main:l4",
            ["b@eu/0 l4"],
            id="it goes once the replacement is ready",
        ),
        pytest.param(
            "1: 20Gi; regions eu",
            US,
            "a@us/0 ready main:l4",
            ["a@us/0 l4 leaving"],
            id="it stays, without requests, while there is no other place",
        ),
        pytest.param(
            "1: 20Gi; regions eu",
            f"{EU} | lost: l4 x2 unread down",
            "a@lost/0 ready main:l4",
            ["a@lost/0 l4"],
            id="a replica on a cluster whose region is unknown stays",
        ),
        pytest.param(
            "2: 20Gi; cached-in eu",
            f"{EU} | {US} | {NOWHERE}",
            "",
            ["eu/0 l4", "eu/1 l4"],
            id="without a rule, only where its cache may be staged",
        ),
        pytest.param(
            "1: 20Gi; regions eu", "lost: l4 x2 unread", "", [], id="a cluster of unknown region gets nothing"
        ),
        pytest.param(
            "1: 20Gi; regions eu", "eu-2: l4 x2 modelplane.ai/region=eu-2", "", [], id="names are exact"
        ),
    ],
)
def test_replicas_are_placed_inside_the_regions(
    say: Any, want: str, clusters: str, existing: str, placed: list[str]
) -> None:
    fleet, deployment = say.fleet(clusters, existing), say.deployment(want)
    assert sorted(say.shown(schedule(fleet, deployment))) == sorted(placed)


def test_the_diagnosis_names_the_region_and_the_rule(say: Any) -> None:
    fleet = say.fleet(f"{US} | {NOWHERE}", "a@us/0 ready main:l4")
    diagnosis = schedule(fleet, say.deployment("1: 20Gi; regions eu ap")).diagnosis
    assert diagnosis.describe() == (
        "0 of 1 replicas placed; 2 clusters: 2 outside the allowed regions; "
        'replica "a" is kept until a replacement is ready: InferenceCluster "us" is not allowed '
        "to serve the replica: "
        'the cluster is in region "us", not in "ap", "eu"'
    )
    assert {each.cluster: (each.why.detail, each.why.remedy) for each in diagnosis.excluded} == {
        "us": (
            'the cluster is in region "us", not in "ap", "eu"',
            'add "us" to the deployment\'s regions, if permitted',
        ),
        "nowhere": (
            'the cluster is in no region, not in "ap", "eu"',
            "label the cluster modelplane.ai/region=REGION",
        ),
    }


def test_no_remedy_leaves_the_regions(say: Any) -> None:
    diagnosis = schedule(say.fleet(US), say.deployment("1: 20Gi; regions eu")).diagnosis
    assert diagnosis.remedies == ()


def test_the_diagnosis_names_the_regions_of_the_cache(say: Any) -> None:
    excluded = schedule(say.fleet(US), say.deployment("1: 20Gi; cached-in eu")).diagnosis.excluded
    assert [(each.why.detail, each.why.remedy) for each in excluded] == [
        (
            'the cluster is in region "us", not in "eu"',
            'add "us" to the cache\'s regions, if permitted',
        )
    ]
