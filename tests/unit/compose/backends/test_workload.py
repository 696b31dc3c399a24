import pytest

from modelplane.compose.replica.backends.table import backend_of, workload_key, workload_keys
from modelplane.compose.replica.backends.workload import part_name
from support.replicas import engine, gang, replica


def _name(shape, name: str) -> str:
    owner = replica(shape("qwen"), name=name)
    return backend_of(owner, owner.spec.engines[0]).name(owner, owner.spec.engines[0])


def test_a_workload_is_named_as_the_reference_names_it() -> None:
    assert _name(engine, "qwen-demo-7323a") == _name(gang, "qwen-demo-7323a") == "qwen-demo-7323a-qwen-7efa6"


def test_a_gang_leaves_room_for_what_its_pods_labels_add() -> None:
    # "-63" for the group and "-" with ten digits for the revision must fit into 63 characters.
    long = _name(gang, "a" * 63)
    assert (len(long), long[-6:]) == (49, _name(engine, "a" * 63)[-6:])


def test_an_engine_of_another_shape_is_another_child() -> None:
    owner = replica(engine("a"), gang("b"))
    assert [workload_key(owner, each) for each in owner.spec.engines] == ["model-serving-a", "model-gang-b"]
    gang_keys = ("model-gang-b", "model-serving-b", "model-kserve-b.2")
    assert workload_keys(owner, owner.spec.engines[1]) == gang_keys


@pytest.mark.parametrize("part", ["epp", "pool"])
def test_what_a_replica_has_one_of_is_never_named_like_an_engine(part: str) -> None:
    owner = replica(engine(part))
    assert part_name(owner, part) != backend_of(owner, owner.spec.engines[0]).name(
        owner, owner.spec.engines[0]
    )
