"""The next step for a release, from Helm's records."""

import base64
import gzip
import json
from typing import Any

import pytest

from modelplane.api import labels
from modelplane.controllers.helm import helm_storage
from modelplane.controllers.helm.helm_storage import Action, Details, History, Step, next_step
from modelplane.controllers.helm.instruction import ReleaseId
from modelplane.controllers.helm.release_status import NOT_OURS, UNREADABLE, Failures, Unsynced, report

DEMO = ReleaseId("ns", "demo")


def _secret(number: int, status: str, digest: str = "d", name: str = "demo") -> dict[str, Any]:
    said = {"owner": "helm", "name": name, "version": str(number), "status": status}
    own = {labels.APPLIED: digest, labels.RELEASE_OWNER: "u", labels.CHILD: "k"} if digest else {}
    metadata = {"name": f"sh.helm.release.v1.{name}.v{number}", "namespace": "ns", "labels": said | own}
    return {"metadata": metadata}


def _history(*revisions: tuple[str, str]) -> History:
    secrets = [_secret(number, *each) for number, each in enumerate(revisions, 1)]
    return helm_storage.histories(reversed(secrets))[DEMO]


@pytest.mark.parametrize(
    ("revisions", "step"),
    [
        pytest.param([("deployed", "d")], None, id="as it should be"),
        pytest.param([("superseded", "d"), ("deployed", "d")], None, id="upgraded"),
        pytest.param([("deployed", "old")], Step(Action.UPGRADE), id="another chart or other values"),
        pytest.param([("uninstalled", "d")], Step(Action.INSTALL), id="uninstalled, with its history"),
        pytest.param([("uninstalling", "d")], Step(Action.UNINSTALL), id="half uninstalled"),
        pytest.param([("failed", "d")], Step(Action.UPGRADE), id="an installation that failed"),
        pytest.param([("pending-install", "d")], Step(Action.CLEAR), id="an interrupted installation"),
        pytest.param(
            [("deployed", "old"), ("pending-upgrade", "d")],
            Step(Action.ROLL_BACK, 1),
            id="an interrupted upgrade",
        ),
        pytest.param(
            [("superseded", "a"), ("deployed", "b"), ("failed", "d")],
            Step(Action.ROLL_BACK, 2),
            id="a failed upgrade goes back to what is in effect",
        ),
        pytest.param(
            [("superseded", "a"), ("failed", "b"), ("pending-rollback", "a")],
            Step(Action.ROLL_BACK, 1),
            id="an interrupted rollback goes back to what worked once",
        ),
        pytest.param(
            [("deployed", "a"), ("failed", "b")], Step(Action.UPGRADE), id="a failure of something else"
        ),
        pytest.param(
            [("superseded", "a"), ("failed", "d"), ("deployed", "a")],
            Step(Action.UPGRADE),
            id="rolled back, to be tried again",
        ),
    ],
)
def test_the_next_step_follows_from_the_records(revisions: list[tuple[str, str]], step: Step | None) -> None:
    assert next_step("d", _history(*revisions)) == step


def test_a_release_without_records_is_installed() -> None:
    assert next_step("d", None) == Step(Action.INSTALL)


def test_secrets_that_are_no_records_are_passed_over() -> None:
    odd = {"metadata": {"name": "x", "namespace": "ns", "labels": {"owner": "helm", "version": "x"}}}
    unlabelled = {"metadata": {"name": "y", "namespace": "ns"}}
    assert helm_storage.histories([odd, unlabelled, _secret(2, "deployed")]).keys() == {DEMO}


def test_a_release_of_others_has_no_owner() -> None:
    assert _history(("deployed", "")).owner_uid == ""
    assert _history(("deployed", "d")).owner_uid == "u"


def test_the_details_of_a_record_are_read() -> None:
    content = {
        "info": {"first_deployed": "2026-01-01T00:00:00Z", "description": "Install complete"},
        "chart": {"metadata": {"name": "lws", "version": "1.2.3"}},
    }
    packed = base64.b64encode(gzip.compress(json.dumps(content).encode()))
    secret = {"data": {"release": base64.b64encode(packed).decode()}}
    assert helm_storage.details_of(secret) == Details(
        "2026-01-01T00:00:00Z", "Install complete", "lws", "1.2.3"
    )


@pytest.mark.parametrize(
    "release", ["", "*", base64.b64encode(b"*").decode(), base64.b64encode(base64.b64encode(b"x")).decode()]
)
def test_a_record_that_cannot_be_read_has_no_details(release: str) -> None:
    assert helm_storage.details_of({"data": {"release": release}}) == Details()


def test_a_record_that_would_fill_the_memory_has_no_details(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helm_storage, "_LARGEST", 1000)
    packed = base64.b64encode(gzip.compress(json.dumps({"info": {"description": "x" * 2000}}).encode()))
    secret = {"data": {"release": base64.b64encode(packed).decode()}}
    assert helm_storage.details_of(secret) == Details()


def test_attempts_are_further_and_further_apart() -> None:
    failures = Failures(20)
    failures.add(DEMO, Action.UPGRADE, "d", "it failed", 1000)
    assert failures.blocking(DEMO, Action.UPGRADE, "d", None, 1019) == "it failed"
    assert failures.blocking(DEMO, Action.UPGRADE, "d", None, 1020) is None
    failures.add(DEMO, Action.UPGRADE, "d", "it failed", 1020)
    assert failures.pause_s(1020) == 40
    assert failures.blocking(DEMO, Action.UPGRADE, "new", None, 1021) is None, (
        "something else is tried at once"
    )
    assert failures.blocking(DEMO, Action.ROLL_BACK, "d", None, 1021) is None, "its repair does not wait"
    failures.succeeded(DEMO, Action.ROLL_BACK)
    assert failures.blocking(DEMO, Action.UPGRADE, "d", None, 1021) == "it failed", "it still failed"
    for _ in range(40):
        failures.add(DEMO, Action.UPGRADE, "d", "it failed", 2000)
    assert failures.pause_s(2000) == 1800
    failures.forget(DEMO)
    assert failures.message(DEMO) is None


def test_attempts_end_at_the_limit() -> None:
    failures = Failures(0)
    for attempt in range(3):
        assert not failures.blocking(DEMO, Action.UPGRADE, "d", 2, attempt + 1.0)
        failures.add(DEMO, Action.UPGRADE, "d", "it failed", attempt)
    said = failures.blocking(DEMO, Action.UPGRADE, "d", 2, 99999)
    assert said == "it failed; not tried again after 3 attempts (spec.rollbackLimit)"


def _conditions(history: History | None, unsynced: Unsynced | None) -> dict[str, str]:
    said = report({"metadata": {"name": "r"}}, history, Details(), unsynced)["status"]["conditions"]
    return {each["type"]: f"{each['status']} {each['reason']}" for each in said}


def test_a_rolled_back_release_is_ready_and_not_what_is_asked_for() -> None:
    back = _history(("superseded", "a"), ("failed", "d"), ("deployed", "a"))
    assert _conditions(back, Unsynced("ReconcileError", "it failed")) == {
        "Ready": "True Available",
        "Synced": "False ReconcileError",
    }


def test_a_release_in_progress_has_no_error() -> None:
    working = Unsynced(Action.UPGRADE, "Helm is to upgrade it")
    assert _conditions(None, working) == {"Ready": "False Upgrading", "Synced": "Unknown Upgrading"}
    assert _conditions(_history(("deployed", "old")), working)["Ready"] == "True Available"


def test_a_release_that_cannot_be_read_keeps_what_is_known_of_it() -> None:
    unread = Unsynced(UNREADABLE, "no answer")
    assert _conditions(_history(("deployed", "d")), unread)["Ready"] == "True Available"
    assert _conditions(None, unread)["Ready"] == "Unknown Unreadable"
    assert _conditions(None, Unsynced(NOT_OURS, "theirs"))["Ready"] == "False NotModelplanes"
    assert _conditions(_history(("uninstalling", "d")), None)["Ready"] == "False Unavailable"
