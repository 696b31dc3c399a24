"""``modelplane key``: the key is printed once and never stored, and a rotation overlaps."""

import copy
import datetime as dt
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from modelplane.api.model_key import KeyHash
from modelplane.cli.main import main
from modelplane.install import api_server_choice
from modelplane.kube.errors import Conflict
from modelplane.kube.http_messages import ObjectList
from modelplane.operations.api_keys import hash_key, is_valid, make_key, rotate_hashes
from support.rejections import message_of
from support.tokens import kubeconfig

NOW = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)


class Server:
    """The ModelKeys of a control plane."""

    def __init__(self) -> None:
        self.items: dict[tuple[str, str], dict[str, Any]] = {}
        self.is_racing = False

    async def __aenter__(self) -> "Server":
        return self

    async def __aexit__(self, *_error: object) -> None:
        pass

    async def create(self, manifest: dict[str, Any]) -> None:
        metadata = manifest["metadata"]
        place = metadata["namespace"], metadata["name"]
        if place in self.items:
            raise Conflict(409, "AlreadyExists", "it exists")
        self.items[place] = copy.deepcopy(manifest)
        self.items[place]["metadata"]["resourceVersion"] = "7"

    async def get(self, _resource: object, name: str, namespace: str) -> dict[str, Any] | None:
        return copy.deepcopy(self.items.get((namespace, name)))

    async def list(self, _resource: object, namespace: str | None) -> ObjectList:
        found = (item for place, item in self.items.items() if namespace in (None, place[0]))
        return ObjectList(tuple(found), "1")

    async def patch(self, _resource: object, name: str, body: dict[str, Any], namespace: str) -> None:
        assert body["metadata"] == {"resourceVersion": "7"}
        if self.is_racing:
            raise Conflict(409, "Conflict", "it has been modified")
        self.items[namespace, name]["spec"] |= body["spec"]

    async def delete(self, _resource: object, name: str, namespace: str) -> None:
        del self.items[namespace, name]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    (tmp_path / "kubeconfig").write_bytes(kubeconfig(namespace="ml-team", token="secret"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    made = Server()
    monkeypatch.setattr(api_server_choice, "connect", lambda *_arguments: made)
    return made


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["key", *arguments])


def sha256(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def test_a_key_has_192_random_bits_and_a_prefix() -> None:
    keys = {make_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(re.fullmatch("mpk_[0-9a-f]{48}", each) for each in keys)


def test_a_created_key_is_the_only_standard_output_and_only_its_hash_is_stored(server: Server) -> None:
    done = run(
        "create",
        "ci",
        "--service",
        "ml-team/qwen",
        "--streams",
        "4",
        "--requests-per-minute",
        "60",
        *("--max-body-bytes", "1000"),
    )
    key = done.stdout.removesuffix("\n")
    said = 'Created ModelKey "ml-team/ci". Save this key now; it is not shown again:\n'
    assert (done.exit_code, done.stderr) == (0, said)
    assert server.items["ml-team", "ci"]["spec"] == {
        "hashes": [{"sha256": sha256(key)}],
        "services": ["ml-team/qwen"],
        "streams": 4,
        "requestsPerMinute": 60,
        "maxBodyBytes": 1000,
    }
    assert key not in json.dumps(list(server.items.values()))


def test_a_taken_name_prints_no_key(server: Server) -> None:
    run("create", "ci")
    before = copy.deepcopy(server.items)
    done = run("create", "ci")
    hint = "to replace the key, run `modelplane key rotate ci -n ml-team`"
    message = f'Error: ModelKey "ci" in namespace "ml-team" already exists: {hint}\n'
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", message)
    assert server.items == before


@pytest.mark.parametrize("service", ["qwen", "*", "ml/", "ML/qwen", "ml/qwen\n", "../x"])
def test_a_service_of_another_form_is_wrong_usage(service: str) -> None:
    done = run("create", "ci", "--service", service)
    assert (done.exit_code, "is not of the form NAMESPACE/SERVICE" in done.stderr) == (2, True)


def test_a_rotated_key_is_valid_beside_the_former_one(server: Server) -> None:
    first = run("create", "ci").stdout.strip()
    done = run("rotate", "ci", "--overlap", "7d")
    second = done.stdout.strip()
    old, new = server.items["ml-team", "ci"]["spec"]["hashes"]
    assert (done.exit_code, old["sha256"], new) == (0, sha256(first), {"sha256": sha256(second)})
    left = dt.datetime.fromisoformat(old["expires"]) - dt.datetime.now(dt.UTC)
    assert 6 * DAY < left <= 7 * DAY


def test_a_rotation_that_meets_another_change_prints_no_key(server: Server) -> None:
    run("create", "ci")
    server.is_racing = True
    done = run("rotate", "ci")
    message = (
        'Error: ModelKey "ci" in namespace "ml-team" was changed in the meantime: run the command again\n'
    )
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", message)


def test_a_revoked_key_is_gone(server: Server) -> None:
    run("create", "ci")
    assert run("revoke", "ci").stdout == 'Revoked ModelKey "ml-team/ci"\n'
    assert server.items == {}


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("command", ["rotate", "revoke"])
def test_a_missing_key_is_told_with_how_to_list_the_others(command: str) -> None:
    hint = "`modelplane key list -n ml` lists the ModelKeys"
    done = run(command, "ci", "-n", "ml")
    assert (done.exit_code, done.output) == (
        1,
        f'Error: ModelKey "ci" in namespace "ml" does not exist: {hint}\n',
    )


def test_keys_are_listed_with_what_they_may_use(server: Server) -> None:
    run("create", "ci", "-n", "ml")
    run("create", "app", "-n", "research", "--service", "ml/qwen", "--expires", "1d")
    granted = {
        "type": "Accepted",
        "status": "False",
        "reason": "NotGranted",
        "message": "",
        "lastTransitionTime": NOW,
    }
    server.items["ml", "ci"]["status"] = {
        "conditions": [granted | {"lastTransitionTime": "2026-06-01T00:00:00Z"}]
    }
    server.items["research", "app"]["spec"]["blocked"] = True
    header, *rows = [line.split() for line in run("list", "-A").output.splitlines()]
    assert header == ["NAMESPACE", "NAME", "STATE", "KEYS", "EXPIRES", "SERVICES", "BUDGETS"]
    assert rows[0] == ["ml", "ci", "NotGranted", "1", "never", "ml/*", "none"]
    assert (*rows[1][:4], rows[1][5]) == ("research", "app", "Blocked", "1", "ml/qwen")
    assert [line.split()[1] for line in run("list", "-n", "ml").output.splitlines()[1:]] == ["ci"]


def test_a_key_is_created_with_budgets_and_listed_with_what_is_used_of_them(server: Server) -> None:
    run("create", "ci", "-n", "ml", "--tokens-per-day", "1000", "--cost-per-month", "12.50")
    key = server.items["ml", "ci"]
    assert key["spec"]["budget"] == {"tokensPerDay": 1000, "costPerMonth": "12.50"}
    key["status"] = {
        "conditions": [
            {
                "type": "WithinBudget",
                "status": "False",
                "reason": "Spent",
                "message": "",
                "lastTransitionTime": "2026-06-01T00:00:00Z",
            }
        ],
        "budgets": [
            {"of": "Key", "limit": "tokensPerDay", "amount": "1000", "usedPercent": 43},
            {"of": "Namespace", "limit": "costPerMonth", "amount": "9.5", "usedPercent": 100},
        ],
    }
    (row,) = run("list", "-n", "ml").output.splitlines()[1:]
    assert row.split()[2] == "Spent"
    assert row.endswith("43 % of 1000 tokensPerDay, 100 % of 9.5 costPerMonth of the namespace")


@pytest.mark.usefixtures("server")
def test_a_budget_whose_use_is_not_reported_is_listed_with_its_limits() -> None:
    run("create", "ci", "-n", "ml", "--tokens-per-day", "1000", "--cost-per-month", "12.50")
    (row,) = run("list", "-n", "ml").output.splitlines()[1:]
    assert row.endswith("1000 tokensPerDay, 12.50 costPerMonth (use not reported)")


@pytest.mark.parametrize("amount", ["-1", "1e3", "1,5", "NaN", "1.0000000001", "\u0661", "1\n"])
def test_what_is_no_amount_is_wrong_usage(server: Server, amount: str) -> None:
    assert run("create", "ci", "--cost-per-day", amount).exit_code == 2
    assert server.items == {}


def test_no_key_is_said_beside_the_output(server: Server) -> None:
    done = run("list")
    assert (server.items, done.stdout, done.stderr) == ({}, "", 'No ModelKeys in namespace "ml-team"\n')


def _rotated(*hashes: KeyHash, overlap: dt.timedelta = DAY, expires: dt.datetime | None = None) -> Any:
    return rotate_hashes(hashes, "new", NOW, overlap, expires)


def test_a_rotation_never_lengthens_the_life_of_a_former_key() -> None:
    soon, late = hash_key("a", NOW + DAY / 2), hash_key("b", NOW + 9 * DAY)
    assert _rotated(soon, late) == (soon, hash_key("b", NOW + DAY), hash_key("new", NOW + 9 * DAY))


def test_a_rotation_without_overlap_leaves_the_new_key_only() -> None:
    assert _rotated(hash_key("a", None), overlap=dt.timedelta()) == (hash_key("new", None),)


def test_a_key_that_has_expired_is_dropped_and_not_renewed_without_a_time() -> None:
    expired = hash_key("a", NOW)
    assert not is_valid(expired, NOW)
    assert _rotated(expired, expires=NOW + DAY) == (hash_key("new", NOW + DAY),)
    said = "the key has expired: set the new key's lifetime with --expires"
    assert message_of(_rotated(expired)) == said


def test_five_keys_are_not_valid_at_a_time() -> None:
    remedy = "rotate again later, or revoke the previous keys now with --overlap 0s"
    message = f"4 previous keys are still valid: {remedy}"
    assert message_of(_rotated(*(hash_key(each, None) for each in "abcd"))) == message
    assert len(_rotated(*(hash_key(each, None) for each in "abc"))) == 4
