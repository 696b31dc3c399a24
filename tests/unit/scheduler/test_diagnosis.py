"""The sentence: what a user reads when replicas are missing."""

from typing import Any

import pytest

from modelplane.scheduler import Reason, schedule
from modelplane.scheduler.diagnosis import PHRASES


@pytest.mark.parametrize(
    ("clusters", "existing", "want", "sentence"),
    [
        pytest.param("a: l4 x2", "", "2: 20Gi", "", id="nothing is said when nothing is wrong"),
        pytest.param("a: l4 x2", "", "0: 20Gi", "", id="nothing is said when nothing is wanted"),
        pytest.param("", "", "2: 20Gi", "0 of 2 replicas placed; there are no clusters", id="an empty fleet"),
        pytest.param(
            "a: l4 x2",
            "",
            "1: 100Gi",
            '0 of 1 replicas placed; 1 cluster: 1 with no device for "gpu" (a: largest memory offered is '
            '24Gi); to place one more, relax memory from 100Gi to 24Gi in request "gpu"',
            id="the largest amount on offer",
        ),
        pytest.param(
            "a: l4 x2",
            "",
            "1: 40960Mi",
            '0 of 1 replicas placed; 1 cluster: 1 with no device for "gpu" (a: largest memory offered is '
            '24Gi); to place one more, relax memory from 40960Mi (40Gi) to 24Gi in request "gpu"',
            id="two units",
        ),
        pytest.param(
            "b: a100 x1 | a: l4 x2",
            "",
            "1: 100Gi",
            '0 of 1 replicas placed; 2 clusters: 2 with no device for "gpu" (largest memory offered is '
            '80Gi); to place one more, relax memory from 100Gi to 80Gi in request "gpu"',
            id="the largest amount over several clusters",
        ),
        pytest.param(
            "a: l4 x2",
            "",
            "1: 20Gi*2",
            '0 of 1 replicas placed; 1 cluster: 1 with too few devices per node for "gpu" '
            "(a: 2 requested, at most 1 on a node)",
            id="too few devices on a node",
        ),
        pytest.param(
            "a: l4 x2 | b: l4 x1",
            "o1@a/0 l4 other",
            "4: 20Gi",
            "2 of 4 replicas placed; 2 clusters: 2 without enough free nodes; "
            'to place one more, add 1 node to pool l4 of InferenceCluster "a"',
            id="the pool to enlarge",
        ),
        pytest.param(
            "a: h200 x1 | b: h200 x2",
            "",
            "1: 100Gi*8 +3",
            "0 of 1 replicas placed; 2 clusters: 2 with too few nodes for engine main; "
            'to place one more, add 2 nodes to pool h200 of InferenceCluster "b"',
            id="the pool that lacks the least",
        ),
        pytest.param(
            "a: h200 x1, l4 x0",
            "",
            "1: x=20Gi, y=100Gi",
            "0 of 1 replicas placed; 1 cluster: 1 without room for engines x, y at the same time "
            "(a: each engine fits, but not all at once: 2 nodes needed, 1 free in pool h200); "
            'to place one more, add 1 node to pool h200 of InferenceCluster "a"',
            id="engines that need the same node",
        ),
        pytest.param(
            "a: h200 x1 down | b: h200 x1 unreachable | c: h200 x1 !drain | d: | e: l4 x1",
            "",
            "1: 100Gi",
            "0 of 1 replicas placed; 5 clusters: 1 with untolerated taint drain:NoSchedule, 1 not ready "
            "(a: its API cannot be reached), 1 without a gateway address and 2 more; to place one more, "
            'relax memory from 100Gi to 24Gi in request "gpu" or tolerate taint drain:NoSchedule',
            id="three items, in the order of the rules, and the rest as a number",
        ),
        pytest.param(
            "a: l4 x1 tier=dev | b: l4 x1",
            "",
            "1: 20Gi; in tier=prod",
            "0 of 1 replicas placed; 2 clusters: 2 outside the clusterSelector; "
            "to place one more, remove tier=prod from the clusterSelector (2 clusters would then fit)",
            id="labels that differ in different ways",
        ),
        pytest.param(
            "a: l4 x1 tier=dev",
            "",
            "1: 20Gi; cached tier=prod",
            "0 of 1 replicas placed; 1 cluster: 1 not covered by the ModelCache "
            '(a: label tier is "dev", not "prod")',
            id="a label that differs",
        ),
        pytest.param(
            "a: h200 x2 no-lws",
            "",
            "1: 100Gi +1",
            "0 of 1 replicas placed; 1 cluster: 1 without LeaderWorkerSet "
            "(a: required for an engine with a Leader)",
            id="a capability",
        ),
        pytest.param(
            "a: synthetic x1",
            "",
            "1: 20Gi",
            "0 of 1 replicas placed; 1 cluster: 1 without claimable devices for engine main "
            "(a: none of the requested devices can be claimed through DRA)",
            id="nothing to claim",
        ),
        pytest.param(
            "a:", "", "1: 20Gi", "0 of 1 replicas placed; 1 cluster: 1 without published pools", id="no pools"
        ),
        pytest.param(
            "a: l4 x9",
            "",
            "1: 20Gi; cache-unknown",
            "0 of 1 replicas placed; waiting for the ModelCache before placing new replicas",
            id="a cache that cannot be read",
        ),
        pytest.param(
            "a: l4 x0",
            "q1@a/0 l4",
            "1: 20Gi",
            'pool l4 of InferenceCluster "a" is overcommitted: replicas use 1 of its 0 nodes',
            id="a pool that shrank under a replica",
        ),
        pytest.param(
            "a: h200 *2",
            "o1@a/0 h200#3 other",
            "2: 20Gi*8",
            "1 of 2 replicas placed; 1 cluster: 1 without enough free devices "
            "(a: pool h200 has 5 of 16 gpu free, 8 needed); "
            'to place one more, add 1 node to pool h200 of InferenceCluster "a"',
            id="too few devices that are free",
        ),
        pytest.param(
            "a: h200 *2",
            "o1@a/0 h200#1 other | o2@a/1 h200#1 other",
            "1: 20Gi*8",
            "0 of 1 replicas placed; 1 cluster: 1 without enough free devices (a: pool h200 has 14 of 16 "
            "gpu free, 8 needed, which Kubernetes might not assign on one node); to place one more, add 1 "
            'node to pool h200 of InferenceCluster "a"',
            id="enough that are free, but not for sure on one node",
        ),
        pytest.param(
            "a: h200 *1",
            "q1@a/0 h200*2#8 ready",
            "1: 20Gi*8 x2",
            'pool h200 of InferenceCluster "a" is overcommitted: replicas use 16 of its 8 gpu, and a '
            "replica that restarts might not fit again",
            id="a pool of counted devices that shrank",
        ),
        pytest.param(
            "a: l4 x1",
            "q1@a/0 l4 ready",
            "1: 100Gi",
            '0 of 1 replicas placed; 1 cluster: 1 with no device for "gpu" (a: largest memory offered is '
            '24Gi); to place one more, relax memory from 100Gi to 24Gi in request "gpu"; replica "q1" is '
            "kept until a replacement is ready: engine main no longer fits pool l4 of InferenceCluster "
            '"a": "gpu": memory is 24Gi',
            id="a replica that would have to move and cannot",
        ),
        pytest.param(
            "a: l4 x1",
            "q1@a/0 l4 ready",
            "1: 20Gi x2",
            "0 of 1 replicas placed; 1 cluster: 1 without enough free nodes "
            "(a: pool l4 has 0 of 1 nodes free, 2 needed); "
            'to place one more, add 1 node to pool l4 of InferenceCluster "a"; '
            'replica "q1" is kept until a replacement is ready: engine main no longer fits pool l4 of '
            'InferenceCluster "a": pool l4 has 1 of 1 nodes free, 2 needed',
            id="a replica that would grow: the node it lacks, not those of a second one",
        ),
        pytest.param(
            "a: l4 x3 | b: l4 x1",
            "q1@b/0 l4 ready",
            "1: 20Gi x2",
            'replica "q1" is kept until a replacement is ready: engine main no longer fits pool l4 of '
            'InferenceCluster "b": pool l4 has 1 of 1 nodes free, 2 needed',
            id="a replica whose replacement has found its place",
        ),
    ],
)
def test_the_sentence(say: Any, clusters: str, existing: str, want: str, sentence: str) -> None:
    placement = schedule(say.fleet(clusters, existing), say.deployment(want))
    assert placement.diagnosis.describe() == sentence


def test_every_pool_has_its_refusal(say: Any) -> None:
    placement = schedule(say.fleet("b: l4 x1, h200 x0 | a: h200 x1 !drain"), say.deployment("1: 100Gi"))
    told = [
        (each.cluster, each.pool, each.why.reason, each.why.subject, each.why.detail)
        for each in placement.diagnosis.excluded
    ]
    assert told == [
        ("a", "", Reason.UNTOLERATED_TAINT, "drain:NoSchedule", ""),
        ("b", "l4", Reason.NO_MATCHING_DEVICE, "gpu", "memory is 24Gi"),
        ("b", "h200", Reason.NO_FREE_NODES, "", "pool h200 has 0 of 0 nodes free, 1 needed"),
    ]


def test_a_cluster_is_counted_under_the_pool_that_came_closest(say: Any) -> None:
    placement = schedule(say.fleet("b: l4 x1, h200 x0"), say.deployment("1: 100Gi"))
    assert placement.diagnosis.describe() == (
        "0 of 1 replicas placed; 1 cluster: 1 without enough free nodes (b: pool h200 has 0 of 0 nodes "
        'free, 1 needed); to place one more, add 1 node to pool h200 of InferenceCluster "b" or relax '
        'memory from 100Gi to 24Gi in request "gpu"'
    )


@pytest.mark.parametrize("pools", [("a100", "l4"), ("l4", "a100")])
def test_what_helps_any_of_the_replicas_that_leave_a_cluster_is_proposed(
    say: Any, pools: tuple[str, str]
) -> None:
    first, second = pools
    fleet = say.fleet("a: a100 x1 l4 x1", f"o1@a/0 {first} ready | o2@a/1 {second} ready")
    [remedy] = schedule(fleet, say.deployment("2: 100Gi")).diagnosis.remedies
    assert remedy.change == 'relax memory from 100Gi to 80Gi in request "gpu"'


_CAPACITY = 'device.capacity["gpu.nvidia.com"]'


@pytest.mark.parametrize(
    ("expression", "changes"),
    [
        pytest.param(
            f'{_CAPACITY}.memory.compareTo(quantity("20Gi")) >= 0 && '
            f'({_CAPACITY}.memory.compareTo(quantity("100Gi")) >= 0 || '
            'quantity("1").isGreaterThan(quantity("2")))',
            ['relax memory from 100Gi to 24Gi in request "gpu"'],
            id="a quantity beside it",
        ),
        pytest.param(
            f'quantity("100Gi").compareTo({_CAPACITY}.memory) <= 0',
            ['relax memory from 100Gi to 24Gi in request "gpu"'],
            id="the other way round",
        ),
        pytest.param(
            f'{_CAPACITY}["memory"].compareTo(quantity("100Gi")) >= 0',
            ['relax memory from 100Gi to 24Gi in request "gpu"'],
            id="by its key",
        ),
        pytest.param(
            f'{_CAPACITY}.memory.compareTo(quantity("20Gi")) >= 0 && '
            'quantity("1Ti").compareTo(quantity("30Gi")) < 0',
            [],
            id="nothing that is compared with it",
        ),
    ],
)
def test_only_a_quantity_that_the_attribute_is_compared_with_is_relaxed(
    say: Any, expression: str, changes: list[str]
) -> None:
    want = say.with_selector(say.deployment("1: 20Gi"), expression)
    remedies = schedule(say.fleet("a: l4 x1"), want).diagnosis.remedies
    assert [each.change for each in remedies] == changes


def test_a_misspelt_attribute_is_told_from_a_full_fleet(say: Any) -> None:
    want = say.deployment("1: 20Gi")
    [exclusion] = schedule(
        say.fleet("a: l4 x1"), say.with_selector(want, 'device.attributes["gpu.nvidia.com"].arch == "Ada"')
    ).diagnosis.excluded
    assert (exclusion.cluster, exclusion.pool, exclusion.engine) == ("a", "l4", "main")
    assert (exclusion.why.reason, exclusion.why.subject, exclusion.why.detail) == (
        Reason.NO_MATCHING_DEVICE,
        "gpu",
        'it has no attribute "arch" in domain "gpu.nvidia.com", only architecture, cudaComputeCapability',
    )


_MEMORY = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{}")) {}'
_NOTHING = '"network" in device.attributes["gpu.nvidia.com"]'


@pytest.mark.parametrize(
    ("selector", "told", "details"),
    [
        pytest.param(
            "1 > 2",
            "(`1 > 2` is false for every device)",
            {"a": "`1 > 2` is false for every device", "b": "`1 > 2` is false for every device"},
            id="it reads nothing of a device",
        ),
        pytest.param(
            'device.driver == "gpu.nvidia.com" && false',
            "(`false` is false for every device)",
            {"a": "`false` is false for every device", "b": "`false` is false for every device"},
            id="a part of it reads nothing",
        ),
        pytest.param(
            'device.driver == "gpu.nvidia.com" && device.driver == "nic.nvidia.com"',
            '(no device matches `device.driver == "nic.nvidia.com"`)',
            {
                "a": 'no device matches `device.driver == "nic.nvidia.com"`',
                "b": 'no device matches `device.driver == "nic.nvidia.com"`',
            },
            id="two drivers, of which one is there",
        ),
        pytest.param(
            f'device.driver == "gpu.nvidia.com" && {_NOTHING}',
            f"(no device matches `{_NOTHING}`)",
            {"a": f"no device matches `{_NOTHING}`", "b": f"no device matches `{_NOTHING}`"},
            id="a name that no device publishes",
        ),
        pytest.param(
            f"{_MEMORY.format('40Gi', '< 0')} && {_MEMORY.format('60Gi', '> 0')}",
            "(each condition matches some device, but no device matches all conditions; "
            "largest memory offered is 80Gi)",
            {"a": "memory is 24Gi", "b": "memory is 80Gi"},
            id="conditions that exclude each other",
        ),
        pytest.param(
            f"{_MEMORY.format('20Gi', '> 0')} && {_MEMORY.format('10Gi', '< 0')}",
            f"(no device matches `{_MEMORY.format('10Gi', '< 0')}`; largest memory offered is 80Gi)",
            {"a": "memory is 24Gi", "b": "memory is 80Gi"},
            id="one of two conditions on a value",
        ),
        pytest.param(
            'device.driver == "gpu.amd.com"',
            '(the driver is "gpu.nvidia.com")',
            {"a": 'the driver is "gpu.nvidia.com"', "b": 'the driver is "gpu.nvidia.com"'},
            id="the driver alone",
        ),
        pytest.param(
            f'device.driver == "gpu.nvidia.com" && {_MEMORY.format("100Gi", ">= 0")}',
            "(largest memory offered is 80Gi)",
            {"a": "memory is 24Gi", "b": "memory is 80Gi"},
            id="a value that tells it",
        ),
    ],
)
def test_a_selector_that_no_device_meets_is_told_by_the_condition_at_fault(
    say: Any, selector: str, told: str, details: dict[str, str]
) -> None:
    want = say.with_selector(say.deployment("1: 20Gi"), selector)
    diagnosis = schedule(say.fleet("a: l4 x1 | b: a100 x1"), want).diagnosis
    head = '0 of 1 replicas placed; 2 clusters: 2 with no device for "gpu" '
    assert diagnosis.describe().partition("; to place")[0] == head + told
    assert {each.cluster: each.why.detail for each in diagnosis.excluded} == details


def test_every_reason_has_a_phrase() -> None:
    assert set(PHRASES) == set(Reason)
