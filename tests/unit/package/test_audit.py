"""What ``make audit`` makes of a bill of materials and of a report of pip-audit."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

_SCRIPT = Path(__file__).parents[3] / "package" / "audit.py"


@pytest.fixture(scope="module")
def audit() -> Any:
    # It imports the module beside it.
    sys.path.insert(0, str(_SCRIPT.parent))
    spec = importlib.util.spec_from_file_location("audit", _SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.remove(str(_SCRIPT.parent))
    return module


def component(name: str, *licenses: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "version": "1.0"} | ({"licenses": list(licenses)} if licenses else {})


MIT = {"license": {"id": "MIT"}}
MPL = {"license": {"id": "MPL-2.0"}}


@pytest.mark.parametrize(
    ("item", "problems"),
    [
        pytest.param(component("a", MIT), [], id="allowed"),
        pytest.param(component("a", {"expression": "(MIT OR Apache-2.0) AND ISC"}), [], id="all allowed"),
        pytest.param(
            component("a", {"expression": "MIT AND GPL-3.0-only"}), ["a: GPL-3.0-only, MIT"], id="one is not"
        ),
        pytest.param(
            component("a", MIT, {"license": {"name": "Proprietary"}}), ["a: MIT, Proprietary"], id="a name"
        ),
        pytest.param(component("a"), ["a: no license in its metadata"], id="no license"),
        pytest.param(component("tqdm", {"expression": "MPL-2.0 AND MIT"}), [], id="an exception"),
        pytest.param(component("a", MPL), ["a: MPL-2.0"], id="the license of an exception"),
        pytest.param(
            component("tqdm", {"expression": "AGPL-3.0-only"}),
            ["tqdm: AGPL-3.0-only"],
            id="an exception with a new license",
        ),
    ],
)
def test_a_license_is_allowed_or_an_exception(audit: Any, item: dict[str, Any], problems: list[str]) -> None:
    assert [*audit.unlicensed([item])] == problems


VERSIONS = {"pyyaml": "5.3", "click": "8.5.1"}
CLEAN = {"name": "click", "version": "8.5.1", "vulns": []}


def test_a_known_vulnerability_is_a_problem(audit: Any) -> None:
    found = [{"id": "CVE-2020-14343", "fix_versions": ["5.4"]}, {"id": "CVE-2020-1747", "fix_versions": []}]
    report = [CLEAN, {"name": "pyyaml", "version": "5.3", "vulns": found}]
    assert [*audit.unsafe(report, VERSIONS)] == [
        "pyyaml 5.3: CVE-2020-14343, fixed in 5.4",
        "pyyaml 5.3: CVE-2020-1747, fixed in no version",
    ]


def test_a_report_without_findings_about_every_package_is_no_problem(audit: Any) -> None:
    report = [CLEAN, {"name": "pyyaml", "version": "5.3", "vulns": []}]
    assert [*audit.unsafe(report, VERSIONS)] == []


@pytest.mark.parametrize(
    "report",
    [
        pytest.param([CLEAN, {"name": "pyyaml", "skip_reason": "not found"}], id="skipped"),
        pytest.param([CLEAN], id="not in the report"),
    ],
)
def test_a_package_without_data_is_a_problem(audit: Any, report: list[dict[str, Any]]) -> None:
    assert [*audit.unsafe(report, VERSIONS)] == [
        "1 of 2 packages were not checked, because there is no data about them: pyyaml"
    ]
