"""What holds for every fleet and every deployment, whatever they look like."""

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import TypeAlias

import msgspec
from hypothesis import example, given, settings, strategies as st

from modelplane.scheduler import (
    Accounting,
    Assignment,
    Claim,
    Cluster,
    Deployment,
    Device,
    DeviceRequest,
    Effect,
    Engine,
    Fleet,
    Member,
    Operator,
    PlacedEngine,
    PlacedMember,
    Pool,
    Replica,
    ResolvedRequest,
    Role,
    Taint,
    Toleration,
    schedule,
    sum_usage,
)

UID = "uid-qwen"
MEMORY = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("{}Gi")) >= 0'
LINK = 'device.attributes["nic.example.com"].link == "fast"'

gpus = st.builds(
    lambda memory, count, claim: Device(
        "gpu", "gpu.example.com", count, claim, "gpu", capacity={"memory": f"{memory}Gi"}
    ),
    st.sampled_from((24, 80, 141)),
    st.integers(0, 4),
    st.sampled_from((Claim.DRA, Claim.DRA, Claim.SYNTHETIC)),
)
nics = st.builds(
    lambda count: Device("nic", "nic.example.com", count, attributes={"link": "fast"}), st.integers(1, 2)
)
hardware = st.lists(st.one_of(gpus, nics), max_size=3).map(tuple)
requests = st.lists(
    st.one_of(
        st.builds(
            lambda memory, count: DeviceRequest("gpu", count, (MEMORY.format(memory),)),
            st.sampled_from((20, 80, 100)),
            st.integers(1, 3),
        ),
        st.just(DeviceRequest("nic", 1, (LINK,))),
    ),
    max_size=3,
).map(tuple)


@st.composite
def clusters(
    draw: st.DrawFn,
    accountings: tuple[Accounting, ...] = (Accounting.NODES, Accounting.NODES, Accounting.DEVICES),
) -> tuple[Cluster, ...]:
    names = draw(st.lists(st.sampled_from("abcde"), max_size=4, unique=True))
    return tuple(
        Cluster(
            name,
            draw(st.sampled_from(({}, {"tier": "prod"}))),
            ready=draw(st.sampled_from((True, True, True, False))),
            gateway_address=draw(st.sampled_from(("192.0.2.1", "192.0.2.1", ""))),
            pools=tuple(
                Pool(
                    f"p{number}",
                    draw(st.integers(0, 4)),
                    draw(hardware),
                    draw(st.sampled_from(accountings)),
                    draw(st.sampled_from(("", "", "ib"))),
                )
                for number in range(draw(st.integers(0, 3)))
            ),
            taints=draw(
                st.sampled_from(
                    ((), (), (Taint("t", "", Effect.NO_SCHEDULE),), (Taint("t", "", Effect.NO_EXECUTE),))
                )
            ),
            region=draw(st.sampled_from(("eu", "us", "", None))),
        )
        for name in names
    )


@st.composite
def engines(draw: st.DrawFn) -> tuple[Engine, ...]:
    def members() -> tuple[Member, ...]:
        if draw(st.booleans()):
            return (Member(requests=draw(requests)),)
        worker = Member(Role.WORKER, draw(st.integers(1, 2)), draw(requests))
        return (Member(Role.LEADER, 1, draw(requests)), worker)

    count = draw(st.integers(1, 3))
    return tuple(Engine(f"e{number}", draw(st.integers(1, 2)), members()) for number in range(count))


deployments = st.builds(
    lambda engines, replicas, selector: Deployment(
        "ml-team", "qwen", UID, replicas, engines, cluster_selector=selector
    ),
    engines(),
    st.integers(0, 4),
    st.sampled_from(({}, {}, {"tier": "prod"})),
)


def replicas_of(uid: str, placed: Sequence[Assignment], ready: bool = False) -> tuple[Replica, ...]:
    return tuple(
        Replica(
            "ml-team",
            each.replica or f"{uid}-{each.cluster}-{each.index}",
            uid,
            "qwen",
            each.cluster,
            each.index,
            each.engines,
            ready=ready,
        )
        for each in placed
    )


@given(clusters(), deployments, deployments)
def test_no_pool_is_given_more_than_it_has(
    fleet: tuple[Cluster, ...], first: Deployment, second: Deployment
) -> None:
    ours = replicas_of(UID, schedule(Fleet(fleet), first).assignments)
    other = msgspec.structs.replace(second, uid="uid-other")
    theirs = replicas_of("uid-other", schedule(Fleet(fleet, ours), other).assignments)
    amounts = (amount for each in sum_usage(Fleet(fleet, ours + theirs)) for amount in each.amounts)
    assert [amount for amount in amounts if amount.taken > amount.total] == []


@given(clusters(), deployments)
def test_an_engine_is_split_only_over_pools_that_one_fabric_joins(
    fleet: tuple[Cluster, ...], deployment: Deployment
) -> None:
    fabrics = {(cluster.name, pool.name): pool.fabric for cluster in fleet for pool in cluster.pools}
    for each in schedule(Fleet(fleet), deployment).assignments:
        for engine in each.engines:
            pools = {member.pool for member in engine.members}
            joined = {fabrics[each.cluster, pool] for pool in pools}
            assert len(pools) == 1 or (len(joined) == 1 and "" not in joined)


@given(clusters(), deployments, st.booleans(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_changes_nothing(
    fleet: tuple[Cluster, ...], deployment: Deployment, ready: bool, random: Random
) -> None:
    existing = replicas_of(UID, schedule(Fleet(fleet), deployment).assignments, ready)
    edited = msgspec.structs.replace(deployment, replicas=2)
    shuffled_clusters, shuffled_replicas = list(fleet), list(existing)
    random.shuffle(shuffled_clusters)
    random.shuffle(shuffled_replicas)
    straight = schedule(Fleet(fleet, existing), edited)
    shuffled = schedule(Fleet(tuple(shuffled_clusters), tuple(shuffled_replicas)), edited)
    assert (straight, straight.diagnosis.describe()) == (shuffled, shuffled.diagnosis.describe())


@given(clusters(), deployments)
def test_what_runs_stays_when_nothing_is_edited(fleet: tuple[Cluster, ...], deployment: Deployment) -> None:
    first = schedule(Fleet(fleet), deployment)
    again = schedule(Fleet(fleet, replicas_of(UID, first.assignments)), deployment)
    assert [(each.cluster, each.index, each.engines) for each in again.assignments] == [
        (each.cluster, each.index, each.engines) for each in first.assignments
    ]
    assert again.dropped == ()


@given(clusters(), deployments)
def test_trouble_and_new_labels_move_nothing(fleet: tuple[Cluster, ...], deployment: Deployment) -> None:
    first = schedule(Fleet(fleet), deployment)
    troubled = tuple(
        msgspec.structs.replace(
            cluster,
            ready=False,
            labels={"tier": "retired"},
            gateway_address="",
            pools=tuple(msgspec.structs.replace(pool, nodes=0) for pool in cluster.pools),
            taints=(Taint("t", "", Effect.NO_SCHEDULE),),
        )
        for cluster in fleet
    )
    later = schedule(Fleet(troubled, replicas_of(UID, first.assignments)), deployment)
    assert [(each.cluster, each.index, each.leaving) for each in later.assignments] == [
        (each.cluster, each.index, False) for each in first.assignments
    ]


@given(clusters(), deployments)
def test_every_cluster_says_why_a_replica_is_missing(
    fleet: tuple[Cluster, ...], deployment: Deployment
) -> None:
    placement = schedule(Fleet(fleet), deployment)
    short = len(placement.assignments) < deployment.replicas
    explained = {exclusion.cluster for exclusion in placement.diagnosis.excluded}
    assert explained == ({cluster.name for cluster in fleet} if short else set())
    assert bool(placement.diagnosis.describe()) == short


@given(clusters(), deployments)
def test_a_replica_of_another_owner_is_never_ours(fleet: tuple[Cluster, ...], deployment: Deployment) -> None:
    foreign = replicas_of("uid-other", schedule(Fleet(fleet), deployment).assignments)
    placement = schedule(Fleet(fleet, foreign), deployment)
    ours = {each.replica for each in placement.assignments} | {each.replica for each in placement.dropped}
    assert ours & {replica.name for replica in foreign} == set()


@given(clusters(), deployments, deployments, st.booleans())
def test_an_edit_never_leaves_fewer_replicas_than_wanted_or_running(
    fleet: tuple[Cluster, ...], before: Deployment, after: Deployment, ready: bool
) -> None:
    running = schedule(Fleet(fleet), before).assignments
    placement = schedule(Fleet(fleet, replicas_of(UID, running, ready)), after)
    evicted = {each.replica for each in placement.dropped if "evicts" in each.reason}
    assert len(placement.assignments) >= min(after.replicas, len(running) - len(evicted))


def one_node_serves(member: Member, pool: Pool, devices: tuple[int, ...]) -> bool:
    left = Counter({entry: device.count for entry, device in enumerate(pool.devices)})
    for request, entry in zip(member.requests, devices, strict=True):
        device = pool.devices[entry]
        wants_nic = request.name == "nic"
        if wants_nic != (device.name == "nic"):
            return False
        if not wants_nic:
            least = int(request.selectors[0].split('quantity("')[1].split("Gi")[0])
            if int(device.capacity["memory"].removesuffix("Gi")) < least:
                return False
        left[entry] -= request.count
    return min(left.values(), default=0) >= 0


def member_outcomes(member: Member, pool: Pool) -> set[bool]:
    """Return whether the member can be served with a claim, without one, or not at all."""
    entries = range(len(pool.devices))
    return {
        any(pool.devices[entry].claim is Claim.DRA for entry in choice)
        for choice in itertools.product(entries, repeat=len(member.requests))
        if one_node_serves(member, pool, choice)
    }


Choice: TypeAlias = tuple[int, ...]
"""The pool of each member of an engine."""


def choices(engine: Engine, cluster: Cluster) -> list[Choice]:
    pools = range(len(cluster.pools))
    return [
        choice
        for choice in itertools.product(pools, repeat=len(engine.members))
        if len(set(choice)) == 1
        or (
            len({cluster.pools[pool].fabric for pool in choice}) == 1
            and cluster.pools[choice[0]].fabric != ""
        )
    ]


def engine_nodes(engine: Engine, choice: Choice, cluster: Cluster) -> Counter[int] | None:
    """Return the nodes that the engine takes of each pool, or None when it does not fit their devices."""
    nodes: Counter[int] = Counter()
    for member, position in zip(engine.members, choice, strict=True):
        outcomes = member_outcomes(member, cluster.pools[position])
        could_claim = any(True in member_outcomes(member, other) for other in cluster.pools)
        if not outcomes or (could_claim and True not in outcomes):
            return None
        nodes[position] += member.pods * engine.copies if True in outcomes else 0
    return +nodes or None


def fits_somehow(deployment: Deployment, cluster: Cluster) -> bool:
    for chosen in itertools.product(*(choices(engine, cluster) for engine in deployment.engines)):
        nodes: Counter[int] = Counter()
        for engine, choice in zip(deployment.engines, chosen, strict=True):
            cost = engine_nodes(engine, choice, cluster)
            if cost is None:
                break
            nodes.update(cost)
        else:
            if all(cluster.pools[position].nodes >= count for position, count in nodes.items()):
                return True
    return False


@settings(max_examples=300)
@given(clusters((Accounting.NODES,)), engines())
def test_a_fit_is_found_exactly_where_trying_every_choice_finds_one(
    fleet: tuple[Cluster, ...], engines: tuple[Engine, ...]
) -> None:
    deployment = Deployment("ml-team", "qwen", UID, 1, engines)
    for cluster in fleet:
        open_cluster = msgspec.structs.replace(cluster, ready=True, gateway_address="192.0.2.1", taints=())
        found = bool(schedule(Fleet((open_cluster,)), deployment).assignments)
        assert found == fits_somehow(deployment, open_cluster)


def test_two_engines_share_pools_where_taking_the_first_that_fits_would_fail() -> None:
    """The smallest fleet on which placing one engine after the other, with no way back, finds nothing."""
    claim = (ResolvedRequest("gpu", "gpu", 1, (MEMORY.format(20),)),)
    big = Device("gpu", "gpu.example.com", 1, Claim.DRA, "gpu", capacity={"memory": "141Gi"})
    small = msgspec.structs.replace(big, capacity={"memory": "24Gi"})
    cluster = Cluster(
        "a", gateway_address="192.0.2.1", pools=(Pool("big", 1, (big,)), Pool("small", 1, (small,)))
    )
    wants = [
        Engine(name, 1, (Member(requests=(DeviceRequest("gpu", 1, (MEMORY.format(memory),)),)),))
        for name, memory in (("modest", 20), ("greedy", 100))
    ]
    placement = schedule(Fleet((cluster,)), Deployment("ml-team", "qwen", UID, 1, tuple(wants)))
    greedy = (ResolvedRequest("gpu", "gpu", 1, (MEMORY.format(100),)),)
    assert placement.assignments == (
        Assignment(
            "a",
            0,
            (
                PlacedEngine("modest", 1, (PlacedMember(Role.STANDALONE, "small", 1, claim),)),
                PlacedEngine("greedy", 1, (PlacedMember(Role.STANDALONE, "big", 1, greedy),)),
            ),
        ),
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.integers(0, 9999))
@example([2, 2, 3, 3], 4165)  # Two of one deployment wait on a full cluster.
def test_deployments_that_were_given_the_same_room_settle(sizes: list[int], seed: int) -> None:
    """They decide without knowing of each other; whichever pods get the nodes, all serve in the end."""
    random = Random(seed)  # noqa: S311 - it decides which pods get nodes, and no secrets
    gpu = Device("gpu", "gpu.example.com", 1, Claim.DRA, "gpu", capacity={"memory": "80Gi"})
    asks = (DeviceRequest("gpu", 1, (MEMORY.format(20),)),)
    fleet = tuple(
        Cluster(f"c{at}", gateway_address="192.0.2.1", pools=(Pool("p", size, (gpu,)),))
        for at, size in enumerate(sizes)
    )
    wanted = random.randint(1, sum(sizes))
    here = random.randint(0, wanted)
    teams = [
        Deployment("ml-team", uid, uid, count, (Engine("main", 1, (Member(requests=asks),)),))
        for uid, count in (("first", here), ("second", wanted - here))
    ]
    there: list[Replica] = []
    snapshot: tuple[Replica, ...] = ()
    made = itertools.count()
    quiet = 0
    for turn in range(40):
        # At first both look at the same empty fleet; then one after the other.
        snapshot = () if turn < 2 else tuple(there)
        team = teams[turn % 2]
        placement = schedule(Fleet(fleet, snapshot), team)
        gone = {each.replica for each in placement.dropped}
        serving = sum(
            each.ready for each in there if each.deployment_uid == team.uid and each.name not in gone
        )
        before = sum(each.ready for each in there if each.deployment_uid == team.uid)
        assert serving >= min(before, team.replicas)
        new = [each for each in placement.assignments if not each.retained]
        there = [each for each in there if each.name not in gone]
        for each in new:
            number = next(made)
            there.append(
                Replica(
                    "ml-team",
                    f"{team.uid}-{number}",
                    team.uid,
                    team.name,
                    each.cluster,
                    each.index,
                    each.engines,
                    created=f"{number:03}",
                )
            )
        quiet = 0 if new or gone else quiet + 1
        # A pod that has its node keeps it; the others get what is left, in any order.
        random.shuffle(there)
        for at, size in enumerate(sizes if turn else ()):
            free = size - sum(each.ready for each in there if each.cluster == f"c{at}")
            waiting = [each for each in there if each.cluster == f"c{at}" and not each.ready]
            for each in waiting[:free]:
                there[there.index(each)] = msgspec.structs.replace(each, ready=True)
    assert Counter(each.deployment_uid for each in there if each.ready) == Counter(
        {team.uid: team.replicas for team in teams if team.replicas}
    )
    assert quiet > 10


def placed_of(fleet: Fleet, deployment: Deployment) -> int:
    return schedule(fleet, deployment).diagnosis.placed


def enlarged(fleet: Fleet, name: str, pool: str, nodes: int) -> Fleet:
    def grown(cluster: Cluster) -> Cluster:
        pools = tuple(
            msgspec.structs.replace(each, nodes=each.nodes + nodes) if each.name == pool else each
            for each in cluster.pools
        )
        return msgspec.structs.replace(cluster, pools=pools) if cluster.name == name else cluster

    return msgspec.structs.replace(fleet, clusters=tuple(map(grown, fleet.clusters)))


def relaxed(deployment: Deployment, request: str, before: str, after: str) -> Deployment:
    def edited(text: str) -> str:
        return text.replace(f'quantity("{before}")', f'quantity("{after}")')

    engines = tuple(
        msgspec.structs.replace(
            engine,
            members=tuple(
                msgspec.structs.replace(
                    member,
                    requests=tuple(
                        msgspec.structs.replace(each, selectors=tuple(map(edited, each.selectors)))
                        if each.name == request
                        else each
                        for each in member.requests
                    ),
                )
                for member in engine.members
            ),
        )
        for engine in deployment.engines
    )
    return msgspec.structs.replace(deployment, engines=engines)


@settings(max_examples=300, deadline=None)
@given(clusters(), st.none() | deployments, deployments, st.booleans())
def test_a_proposed_change_places_one_more(
    clusters: tuple[Cluster, ...], before: Deployment | None, after: Deployment, ready: bool
) -> None:
    running: tuple[Replica, ...] = ()
    if before is not None:
        running = replicas_of(UID, schedule(Fleet(clusters), before).assignments, ready)
    # A change comes when what could be placed is there.
    there = replicas_of(UID, schedule(Fleet(clusters, running), after).assignments, ready)
    fleet = Fleet(clusters, there)
    diagnosis = schedule(fleet, after).diagnosis
    for remedy in diagnosis.remedies:
        if match := re.fullmatch(
            r'add (\d+) nodes? to pool (\S+) of InferenceCluster "(\w+)"', remedy.change
        ):
            nodes, pool, name = int(match[1]), match[2], match[3]
            assert placed_of(enlarged(fleet, name, pool, nodes), after) > diagnosis.placed
            assert placed_of(enlarged(fleet, name, pool, nodes - 1), after) == diagnosis.placed
        elif match := re.fullmatch('relax memory from (\\w+) to (\\w+) in request "(\\w+)"', remedy.change):
            assert placed_of(fleet, relaxed(after, match[3], match[1], match[2])) > diagnosis.placed
        elif remedy.change == "tolerate taint t:NoSchedule" or remedy.change == "tolerate taint t:NoExecute":
            tolerant = msgspec.structs.replace(after, tolerations=(Toleration("t", Operator.EXISTS),))
            assert placed_of(fleet, tolerant) > diagnosis.placed
        else:
            assert remedy.change == "remove tier=prod from the clusterSelector"
            assert placed_of(fleet, msgspec.structs.replace(after, cluster_selector={})) > diagnosis.placed


@given(clusters(), deployments, st.sets(st.sampled_from(("eu", "us", "ap")), min_size=1), st.booleans())
def test_no_replica_is_placed_or_kept_outside_the_regions(
    fleet: tuple[Cluster, ...], wanted: Deployment, allowed: set[str], ready: bool
) -> None:
    """A replica outside leaves; only one on a cluster of unknown region is kept on doubt."""
    before = schedule(Fleet(fleet), wanted)
    existing = replicas_of(UID, before.assignments, ready)
    ruled = msgspec.structs.replace(wanted, regions=tuple(sorted(allowed)))
    regions = {each.name: each.region for each in fleet}
    for found in (Fleet(fleet), Fleet(fleet, existing)):
        for each in schedule(found, ruled).assignments:
            region = regions[each.cluster]
            assert region in allowed or (each.retained and (each.leaving or region is None))
            assert not (each.leaving and region in allowed and not each.retained)
