"""Instructions: nothing in a Release becomes an option, a path or a program."""

from typing import Any

import pytest

from modelplane.api.rejected import Rejected
from modelplane.controllers.helm.helm_program import arguments
from modelplane.controllers.helm.helm_storage import Action, Step
from modelplane.controllers.helm.instruction import Instruction, ReleaseId, read_instruction

CHART = {"name": "lws", "repository": "https://charts.example.com/stable", "version": "1.2.3"}


def _release(chart: dict[str, Any] | None = None, name: str = "lws", **wanted: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "east-lws", "annotations": {"crossplane.io/external-name": name}},
        "spec": {"forProvider": {"chart": CHART | (chart or {}), "namespace": "lws-system"} | wanted},
    }


def _accepted(release: dict[str, Any]) -> Instruction:
    instruction = read_instruction(release)
    assert isinstance(instruction, Instruction), instruction
    return instruction


def _line(release: dict[str, Any], action: Action = Action.UPGRADE, revision: int = 0) -> list[str]:
    instruction = _accepted(release)
    return [*arguments(Step(action, revision), instruction.id, instruction, {"a": "b", "c": "d"})]


def test_an_instruction_is_read() -> None:
    instruction = _accepted(
        _release(
            wait=True,
            waitTimeout="10m30s",
            values={"a": 1},
            valuesFrom=[{"secretKeyRef": {"name": "s", "key": "k"}}],
        )
    )
    assert instruction.id == ReleaseId("lws-system", "lws")
    assert (instruction.wait, instruction.timeout_s, instruction.values) == (True, 630, {"a": 1})
    assert instruction.values_from == (("s", "k", False),)


def test_a_chart_is_named_by_its_repository_or_by_one_reference() -> None:
    assert _line(_release(wait=True)) == [
        *("upgrade", "lws", "lws", "--install", "--namespace", "lws-system", "--timeout=300s"),
        *("--version", "1.2.3", "--repo", "https://charts.example.com/stable", "--values=-"),
        *("--reset-values", "--wait=watcher", "--history-max=10", "--labels", "a=b,c=d"),
        "--create-namespace",
    ]
    oci = _line(_release({"repository": "oci://registry.k8s.io/lws/charts/"}, skipCreateNamespace=True))
    assert oci[2] == "oci://registry.k8s.io/lws/charts/lws"
    assert not {"--repo", "--create-namespace"} & {*oci}
    assert "--wait=hookOnly" in oci


def test_what_repairs_and_removes_has_no_values() -> None:
    common = ["--namespace", "lws-system", "--timeout=300s"]
    assert _line(_release(), Action.ROLL_BACK, 3) == ["rollback", "lws", "3", *common, "--wait=hookOnly"]
    removal = [*common, "--ignore-not-found", "--wait=watcher"]
    assert _line(_release(), Action.UNINSTALL) == ["uninstall", "lws", *removal]
    assert _line(_release(), Action.CLEAR) == ["uninstall", "lws", "--no-hooks", *removal]


@pytest.mark.parametrize(
    "release",
    [
        pytest.param(_release(name="--kubeconfig=/etc/passwd"), id="an option as a name"),
        pytest.param(_release(name="a" * 54), id="a name that Helm does not take"),
        pytest.param(_release(namespace="-n"), id="an option as a namespace"),
        pytest.param(_release({"name": "--post-renderer=sh"}), id="an option as a chart"),
        pytest.param(_release({"name": "/etc"}), id="an absolute path as a chart"),
        pytest.param(_release({"name": "../chart"}), id="a path as a chart"),
        pytest.param(_release({"name": "."}), id="this folder as a chart"),
        pytest.param(_release({"version": "--devel"}), id="an option as a version"),
        pytest.param(_release({"version": ""}), id="no version"),
        pytest.param(_release({"version": ">=1.0.0"}), id="a range of versions"),
        pytest.param(_release({"repository": "file:///etc"}), id="a folder as a repository"),
        pytest.param(_release({"repository": ""}), id="no repository"),
        pytest.param(_release({"repository": "-x"}), id="an option as a repository"),
        pytest.param(_release({"repository": "https://u:p@charts.example.com"}), id="a password"),
        pytest.param(_release({"repository": "https://charts.example.com/?x"}), id="a query"),
        pytest.param(_release({"repository": "https://charts.example.com/../x"}), id="another path"),
        pytest.param(_release({"repository": "https://charts.example.com/ x"}), id="a space"),
        pytest.param(_release({"repository": "https://charts.example.com:x"}), id="no port"),
        pytest.param(_release({"repository": "http://charts.example.com"}), id="plain HTTP"),
        pytest.param(
            _release({"repository": "oci://charts.example.com"}, plainHTTP=True), id="a registry without TLS"
        ),
        pytest.param(_release({"url": "https://charts.example.com/c.tgz"}), id="an archive"),
        pytest.param(_release(waitTimeout="31m"), id="a wait of others' time"),
        pytest.param(_release(waitTimeout="-5m"), id="a negative wait"),
        pytest.param(_release(insecureSkipTLSVerify=True), id="a repository that is not verified"),
        pytest.param(_release(set=[{"name": "a", "value": "b"}]), id="values on the command line"),
        pytest.param(_release(patchesFrom=[]), id="patches"),
        pytest.param(_release(valuesFrom=[{"configMapKeyRef": {"name": "c"}}]), id="a ConfigMap"),
        pytest.param(
            _release(valuesFrom=[{"secretKeyRef": {"name": "s", "key": "../k"}}]), id="no key of a Secret"
        ),
        pytest.param(_release(values={"a": "x" * (512 * 1024)}), id="large values"),
        pytest.param(
            _release() | {"spec": _release()["spec"] | {"managementPolicies": ["Observe"]}}, id="a policy"
        ),
        pytest.param(
            _release() | {"spec": _release()["spec"] | {"connectionDetails": []}}, id="connection details"
        ),
    ],
)
def test_what_is_not_carried_out_is_refused(release: dict[str, Any]) -> None:
    refused = read_instruction(release)
    assert isinstance(refused, Rejected)
    assert refused.message.startswith('Release "east-lws" is not carried out: ')
    assert len(refused.message) < 300


def test_plain_http_is_for_this_machine_only() -> None:
    assert _accepted(_release({"repository": "http://127.0.0.1:8080/charts"})).chart == "lws"
    assert "--plain-http" in _line(_release({"repository": "oci://127.0.0.1:8080/charts"}, plainHTTP=True))


def test_the_digest_covers_chart_values_and_owner() -> None:
    one = _accepted(_release())
    digests = {
        one.digest({}, "u"),
        one.digest({"a": 1}, "u"),
        one.digest({}, "other"),
        _accepted(_release({"version": "1.2.4"})).digest({}, "u"),
        _accepted(_release({"repository": "https://mirror.example.com"})).digest({}, "u"),
    }
    assert len(digests) == 5
    assert one.digest({"a": 1, "b": 2}, "u") == one.digest({"b": 2, "a": 1}, "u")
    assert _accepted(_release(waitTimeout="1m")).digest({}, "u") == one.digest({}, "u"), (
        "no reason to upgrade"
    )
