"""Deployments of models by name: what holds for every model, load and fleet."""

from hypothesis import HealthCheck, given, settings, strategies as st

from modelplane.offline.models.model_manifests import Engine
from modelplane.offline.models.size_report import find_pool_fits
from modelplane.offline.plan.placements import find_used_pools
from modelplane.sizing.hardware import Served
from modelplane.sizing.memory import Load
from support.deployed_models import as_text, fleet, pool, proposed, wanted
from support.manifests import said

NAMES = (
    "google/gemma-3-4b-it",
    "openai/gpt-oss-20b",
    "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "Qwen/Qwen3-8B-AWQ",
)
CLASSES = (
    *("t4-1x", "l4-1x", "l4-8x", "a100-40-8x", "a100-80-8x-mig-3g-40gb", "h100-8x", "h200-8x"),
    *("b200-8x", "mi300x-8x"),
)
pools = st.lists(
    st.tuples(st.sampled_from(CLASSES), st.integers(0, 3), st.sampled_from(["", "0.50", "2", "9.99"])),
    min_size=1,
    max_size=4,
).map(
    lambda drawn: [
        pool(f"pool-{number}", class_name, nodes=nodes, price=price)
        for number, (class_name, nodes, price) in enumerate(drawn)
    ]
)
deployments = st.builds(
    wanted,
    st.sampled_from(NAMES),
    st.integers(1, 40_000),
    engine=st.sampled_from(Engine),
    token_secret=st.sampled_from(["", "hub"]),
    revision=st.sampled_from(["", "main"]),
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(deployments, st.integers(1, 200), pools, st.booleans(), st.booleans())
def test_manifests_are_valid_and_replicas_are_on_pools_that_can_serve_them(
    deployment, concurrency, pools, storage, cache
) -> None:
    objects = fleet(pools, storage=storage)
    best = proposed(deployment, objects, concurrency=concurrency, cache=cache).best
    if best is None:
        return
    assert said(as_text(best.manifests)) == []
    load = Load(deployment.context, concurrency)
    fits = {each.pool: each.result for each in find_pool_fits(deployment.model, load, objects)}
    used = {name for _, name in find_used_pools(best.plan.deployments)}
    assert all(isinstance(fits[each], Served) for each in used)
    assert bool(used) == best.plan.placed


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(deployments, st.integers(1, 200), pools, st.booleans())
def test_the_chosen_pool_alone_has_a_place_if_it_has_enough_nodes(
    deployment, concurrency, pools, storage
) -> None:
    best = proposed(deployment, fleet(pools, storage=storage), concurrency=concurrency).best
    if best is None:
        return
    [chosen] = [each for each in pools if each["name"] == best.pool]
    nodes = max(chosen["nodeCount"], best.served.nodes)
    alone = proposed(
        deployment, fleet([{**chosen, "nodeCount": nodes}], storage=storage), concurrency=concurrency
    ).best
    assert alone is not None
    assert alone.plan.placed
    assert find_used_pools(alone.plan.deployments) == {("own", best.pool)}
