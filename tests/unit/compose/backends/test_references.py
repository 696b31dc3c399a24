from typing import Any

from modelplane.compose.composition import Composition, Desired, Unknown
from modelplane.compose.replica.copied_references import Reference, references
from support.replicas import blocked, composed, engine, member, replica


def _secret(key: str, name: str = "token") -> dict[str, Any]:
    return {"name": f"FROM_{key}".upper(), "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}


def _pulling(*env: dict[str, Any]) -> Any:
    shape = member(env=list(env))
    shape["template"]["spec"]["imagePullSecrets"] = [{"name": "token"}]
    return replica(engine("qwen", shape))


def _copied(said: Composition, kind: str = "Secret") -> list[Any]:
    desired = (child for child in said.children if isinstance(child, Desired))
    return [child.manifest for child in desired if child.manifest["kind"] == kind]


def _original(type_: str = "Opaque", **data: str) -> tuple[dict[str, Any], ...]:
    metadata = {"name": "token", "namespace": "ml-team"}
    return ({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": type_, "data": data},)


def test_what_several_pods_name_is_one_object_with_the_keys_of_all() -> None:
    owner = replica(engine("a", member(env=[_secret("x")])), engine("b", member(env=[_secret("y")])))
    assert references(owner) == (Reference("Secret", "token", frozenset({"x", "y"})),)


def test_only_the_keys_that_are_read_leave_the_namespace() -> None:
    [copy] = _copied(
        composed(
            replica(engine("qwen", member(env=[_secret("x")]))), **{"secret-token": _original(x="1", z="2")}
        )
    )
    assert copy["data"] == {"x": "1"}


def test_a_key_that_the_original_loses_stays_in_the_copy_because_pods_read_it() -> None:
    owner = replica(engine("qwen", member(env=[_secret("x"), _secret("y")])))
    former = {"secret-token": {"data": {"x": "1", "y": "2", "z": "read no more"}}}
    [copy] = _copied(composed(owner, former, **{"secret-token": _original(x="3")}))
    assert copy["data"] == {"x": "3", "y": "2"}


def test_a_pull_secret_is_copied_whole_though_a_variable_reads_one_key_of_it() -> None:
    [copy] = _copied(
        composed(_pulling(_secret("x")), **{"secret-token": _original("example.com/t", x="1", z="2")})
    )
    assert (copy["type"], copy["data"]) == ("example.com/t", {"x": "1", "z": "2"})


def test_a_copy_of_another_type_is_another_object_because_a_type_cannot_be_changed() -> None:
    names = {
        copy["metadata"]["name"]
        for type_ in ("Opaque", "example.com/t")
        for copy in _copied(composed(_pulling(), **{"secret-token": _original(type_)}))
    }
    assert len(names) == 2


def test_a_secret_that_cannot_be_read_is_not_taken_for_one_that_is_not_there() -> None:
    said = blocked(_pulling(), **{"secret-token": Unknown("not allowed")})
    assert said.cause == 'cannot read Secret "token": not allowed'
