"""The list of models, from the objects that the controllers watch."""

from collections.abc import Iterator
from typing import Any

from modelplane.compose.composition import Blocked
from modelplane.controllers.gateway.gateway_admission import ModelList
from modelplane.gateway.module_files.keys import KeyFile
from modelplane.gateway.route_table import Front
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object

CLOSED = Front(keys=KeyFile())


class Known(Informer):
    """Objects by name, instead of an informer's."""

    def __init__(self, **objects: Object) -> None:
        self.objects = objects

    def __iter__(self) -> Iterator[Object]:
        return iter(self.objects.values())

    def __len__(self) -> int:
        return len(self.objects)

    def get(self, name: str, namespace: str = "") -> Object | None:
        assert namespace == ""
        return self.objects.get(name)


def gateway(*aliases: str, **spec: Any) -> dict[str, Any]:
    granted = [{"name": each, "service": "ml/qwen", "namespaces": ["*"]} for each in aliases]
    return {"metadata": {"name": "default"}, "spec": {"backend": "Envoy", "aliases": granted, **spec}}


def service(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ml"}, "spec": {"endpoints": []}}


def names(front: Front | Blocked) -> tuple[list[str], list[str]]:
    assert isinstance(front, Front)
    assert front.models is not None
    services, aliases = front.models.services, front.models.aliases
    return [each.name for each in services], [each.name for each in aliases]


def test_services_and_aliases_follow_their_objects() -> None:
    gateways, services = Known(default=gateway("fast")), Known(qwen=service("qwen"))
    models = ModelList(gateways, services)
    assert names(models.add(Front())) == (["ml/qwen"], ["fast"])
    services.objects["llama"], gateways.objects["default"] = service("llama"), gateway("slow")
    assert names(models.add(CLOSED)) == (["ml/llama", "ml/qwen"], ["slow"])
    assert models.add(Blocked("no")) == Blocked("no")


def test_a_gateway_that_is_gone_or_unreadable_keeps_the_aliases_of_the_platform() -> None:
    gateways, services = Known(default=gateway("fast")), Known(qwen=service("qwen"))
    models = ModelList(gateways, services)
    models.add(CLOSED)
    gateways.objects["default"] = gateway("slow", keyGrants="none")
    assert names(models.add(CLOSED)) == (["ml/qwen"], ["fast"])
    del gateways.objects["default"], services.objects["qwen"]
    assert names(models.add(CLOSED)) == ([], ["fast"])


def test_the_list_is_composed_again_only_if_its_input_has_changed() -> None:
    gateways, services = Known(default=gateway("fast")), Known(qwen=service("qwen"))
    models = ModelList(gateways, services)
    first, second = models.add(CLOSED), models.add(CLOSED)
    assert isinstance(first, Front)
    assert isinstance(second, Front)
    assert first.models is second.models
    services.objects["qwen"] = service("qwen") | {"spec": {"endpoints": [], "aliases": ["mine"]}}
    assert names(models.add(CLOSED)) == (["ml/qwen"], ["fast", "mine"])
    assert names(models.add(Front())) == (["ml/qwen"], ["fast"])
