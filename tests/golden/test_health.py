"""Health of every golden case and of the moments around a reconcile, by Argo CD, Flux and kstatus.

Argo CD's check runs in a real Lua, Flux's in a real CEL. What kstatus says is in the record, which the tests
of the oracle compare with the library. ``make golden`` writes the rest of the record anew.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from cel_expr_python import cel
from lupa.lua51 import LuaRuntime

from modelplane.api.kinds import KINDS
from support.object_states import RECORD, Object, recorded, states

GITOPS = Path(__file__).parents[2] / "examples" / "gitops"
CHECKS = yaml.safe_load((GITOPS / "argocd-health.yaml").read_text())["data"]
FLUX = yaml.safe_load((GITOPS / "flux-kustomization.yaml").read_text())["spec"]["healthCheckExprs"]
FLUX_ANSWERS = ("current", "inProgress")
UPDATE = "MODELPLANE_UPDATE_GOLDEN"
LUA = LuaRuntime()


def _table(value: Any) -> Any:
    """Return a value as Argo CD gives it to Lua."""
    if isinstance(value, dict):
        return LUA.table_from({key: _table(each) for key, each in value.items() if each is not None})
    return LUA.table_from([*map(_table, value)]) if isinstance(value, list) else value


def argocd(item: Object) -> dict[str, str]:
    """Return the health of an object by Argo CD."""
    group = item["apiVersion"].partition("/")[0]
    text = CHECKS[f"resource.customizations.health.{group}_{item['kind']}"]
    check = LUA.execute(f"return function(obj) {text} end")
    return dict(check(_table(item)))


def test_every_kind_has_a_check() -> None:
    assert set(CHECKS) == {f"resource.customizations.health.{kind.group}_{kind.name}" for kind in KINDS}


def test_the_health_of_every_state_is_as_recorded() -> None:
    found = {name: argocd(item) for name, item in states().items()}
    assert [name for name, health in found.items() if not isinstance(health["message"], str)] == []
    record = recorded()
    if os.environ.get(UPDATE):
        lines = {name: {**record.get(name, {}), "argocd": health["status"]} for name, health in found.items()}
        RECORD.write_text(json.dumps(lines, indent=1, sort_keys=True) + "\n")
    assert {name: health["status"] for name, health in found.items()} == {
        name: each["argocd"] for name, each in recorded().items()
    }


@pytest.mark.parametrize(
    ("state", "status", "message"),
    [
        pytest.param("ModelDeployment created", "Progressing", "Waiting for the first reconcile", id="new"),
        pytest.param("ModelDeployment serves", "Healthy", "Ready is True", id="serves"),
        pytest.param(
            "ModelDeployment serves and was edited",
            "Progressing",
            "Waiting for the reconcile of the last edit",
            id="what is said of the former generation does not count",
        ),
        pytest.param("ModelService cannot be written", "Degraded", "Synced is False", id="not written"),
        pytest.param("ModelService is paused", "Suspended", "Synced is False", id="paused"),
        pytest.param("ModelService served", "Progressing", "Ready is False", id="no reason to act"),
        pytest.param(
            "inference_cluster/isolated", "Degraded", "connection refused", id="a warning names the cause"
        ),
        pytest.param(
            "inference_autoscaler/deployment-does-not-exist",
            "Progressing",
            'ModelDeployment "qwen" does not exist: create it',
            id="another object of the same synchronization may be late",
        ),
    ],
)
def test_health_is_what_a_person_would_call_it(state: str, status: str, message: str) -> None:
    assert argocd(states()[state]) == {"status": status, "message": message}


def test_ready_is_healthy_unless_something_is_stale_unwritten_or_paused() -> None:
    by_ready = {
        name: item["argocd"]
        for name, item in recorded().items()
        if "/" in name and _condition(states()[name], "Ready") == "True"
    }
    assert set(by_ready.values()) == {"Healthy", "Suspended"}
    assert [name for name, health in by_ready.items() if health == "Suspended"] == [
        "inference_autoscaler/paused"
    ]


def _condition(item: Object, type_: str) -> str:
    found = (each["status"] for each in item.get("status", {}).get("conditions", ()) if each["type"] == type_)
    return next(found, "")


def _flux(item: Object, expression: str) -> bool:
    names = ("metadata", "status")
    environment = cel.NewEnv(variables=dict.fromkeys(names, cel.Type.DYN))
    compiled = environment.compile(expression)
    return bool(compiled.eval(data={name: item.get(name, {}) for name in names}).value())


@pytest.mark.parametrize("check", FLUX, ids=lambda check: check["kind"])
def test_flux_waits_until_the_last_edit_is_ready(check: dict[str, str]) -> None:
    found = {
        name.removeprefix(f"{check['kind']} "): tuple(_flux(item, check[each]) for each in FLUX_ANSWERS)
        for name, item in states().items()
        if name.startswith(f"{check['kind']} ")
    }
    waits, serves = (False, True), (True, False)
    assert found == {
        "created": waits,
        "waits": waits,
        "serves": serves,
        "serves and was edited": waits,
        "cannot be written": serves,
        "is paused": serves,
        "served": waits,
    }
