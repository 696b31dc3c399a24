"""ValidatingAdmissionPolicies for deletions, whose expressions are evaluated as they are."""

from collections.abc import Iterable, Mapping
from typing import Any

from cel_expr_python import cel

from support.crossplane.api import ApiError, ApiServer
from support.crossplane.objects import Key, Object, key_of
from support.crossplane.schemas import COMPOSITES

_VARIABLES = ("request", "oldObject", "namespaceObject")


class Policies:
    """Refuses what a policy refuses."""

    def __init__(self, api: ApiServer, documents: Iterable[Mapping[str, Any]]) -> None:
        self._api = api
        self._policies = [each for each in documents if each["kind"] == "ValidatingAdmissionPolicy"]
        self._environment = cel.NewEnv(variables=dict.fromkeys(_VARIABLES, cel.Type.DYN))

    def admit(self, item: Object, *, collection: bool) -> None:
        """Refuse to delete an object, alone or with all of its kind."""
        key = key_of(item)
        for policy in self._policies:
            spec = policy["spec"]
            if any(_matches(rule, key) for rule in spec["matchConstraints"]["resourceRules"]):
                self._check(policy, item, {} if collection else {"name": key.name})

    def _check(self, policy: Mapping[str, Any], item: Object, request: Object) -> None:
        namespace = self._api.get(Key("", "Namespace", "", item["metadata"].get("namespace", "")))
        data = {"request": request, "oldObject": item, "namespaceObject": namespace}
        for validation in policy["spec"]["validations"]:
            if self._value(validation["expression"], data) is not True:
                said = self._value(validation["messageExpression"], data)
                name = policy["metadata"]["name"]
                raise ApiError(
                    "Forbidden", f"{item['kind']} is forbidden: policy '{name}' denied request: {said}"
                )

    def _value(self, expression: str, data: Mapping[str, Any]) -> Any:
        return self._environment.compile(expression).eval(data=data).value()


def _matches(rule: Mapping[str, Any], key: Key) -> bool:
    kind = COMPOSITES.get(key.of)
    plural = kind.plural if kind else f"{key.kind.lower()}s"
    return "DELETE" in rule["operations"] and key.group in rule["apiGroups"] and plural in rule["resources"]
