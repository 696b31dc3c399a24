"""Aliases that are also the name of a ModelService that the same client may use."""

import pytest

from modelplane.offline.files.diagnostics import Severity
from support.manifests import API, validated


def service(namespace: str, name: str) -> str:
    return (
        f"apiVersion: {API}\nkind: ModelService\nmetadata: {{name: {name}, namespace: {namespace}}}\n"
        "spec:\n  endpoints:\n    - selector: {matchLabels: {app: x}}\n---\n"
    )


def gateway(namespaces: str, grants: str = "", name: str = "default") -> str:
    keys = f"  authentication: APIKey\n  keyGrants: [{grants}]\n" if grants else "  authentication: None\n"
    return (
        f"apiVersion: {API}\nkind: InferenceGateway\nmetadata: {{name: {name}}}\n"
        f"spec:\n  backend: Envoy\n{keys}"
        f"  aliases:\n    - {{name: gpt, service: shared/qwen, namespaces: [{namespaces}]}}\n---\n"
    )


OTHER = service("ml", "gpt")
ML_BOTH = '{namespace: ml, services: ["ml/*", shared/qwen]}'


def warnings(text: str) -> list[str]:
    return [each.message for each in validated(text).problems if "also ModelService" in each.message]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (gateway('"*"') + OTHER, "without keys, every client may use both"),
        (gateway("ml", ML_BOTH) + OTHER, "the grant of the alias's namespace has both"),
        (OTHER + gateway("ml", ML_BOTH), "the order of the objects does not matter"),
        (gateway('"*"', ML_BOTH) + OTHER, "an alias for every namespace counts for that of the grant"),
        (
            gateway('"*"', '{namespace: "*", services: [ml/gpt, shared/qwen]}') + OTHER,
            "the grant of every namespace has both",
        ),
    ],
)
def test_an_alias_is_warned_of_if_a_client_may_use_both_services(text: str, reason: str) -> None:
    warning = (
        '"gpt" is also ModelService ml/gpt: a client with access to both receives 409 for this name: '
        "rename the alias, or grant no namespace both shared/qwen and ml/gpt"
    )
    assert warnings(text) == [warning], reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (gateway('"*"') + service("ml", "qwen"), "no service has the alias's name"),
        (gateway("ml") + OTHER, "without keys, an alias of a namespace counts for no client"),
        (gateway("web", ML_BOTH) + OTHER, "the alias does not count for the namespace that may use both"),
        (gateway("ml", "{namespace: ml}") + OTHER, "the grant has only the other service"),
        (gateway("ml", "{namespace: ml, services: [shared/qwen]}") + OTHER, "the grant has only the alias's"),
        (gateway('"*"', name="other") + OTHER, "only the gateway named default is used"),
        (
            gateway('"*"') + service("ml", "gpt").replace("app: x", "app: [x]"),
            "an invalid service has no route",
        ),
        (
            gateway('"*"').replace("name: gpt", "name: qwen") + service("shared", "qwen"),
            "the alias is the name of its own service",
        ),
    ],
)
def test_an_alias_that_no_client_reads_as_another_service_is_not_warned_of(text: str, reason: str) -> None:
    assert warnings(text) == [], reason


def test_the_warning_is_at_the_name_of_the_alias() -> None:
    [problem] = validated(gateway('"*"') + OTHER).problems
    assert (problem.severity, problem.field) == (Severity.WARNING, "spec.aliases[0].name")
