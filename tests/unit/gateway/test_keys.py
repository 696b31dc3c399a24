"""``keys.json``: which keys are in force, and what they and their namespaces may use."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modelplane.api.fields.requests.key_limits import RateLimitType
from modelplane.api.inference_gateway import KeyGrant
from modelplane.gateway.module_files.keys import KeyEntry, KeyFile, KeyTable, NamespaceEntry, build_key_table

A, B = "aa" * 32, "bb" * 32
OWN = KeyGrant(namespace="ml", requests_per_minute=600)


def key(name: str = "ci", *hashes: str, namespace: str = "ml", age: int = 1, **spec: Any) -> dict[str, Any]:
    made = f"2026-01-01T00:00:{age:02}Z"
    return {
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": made},
        "spec": {"hashes": [{"sha256": each} for each in hashes or (A,)], **spec},
    }


def written(
    *keys: dict[str, Any], grants: tuple[KeyGrant, ...] = (OWN,), former: KeyFile | None = None
) -> Any:
    return json.loads(table(*keys, grants=grants, former=former).file.encode())


def table(
    *keys: dict[str, Any], grants: tuple[KeyGrant, ...] = (OWN,), former: KeyFile | None = None
) -> KeyTable:
    return build_key_table(keys, grants, KeyTable(former or KeyFile()))


def in_force(*keys: dict[str, Any], grants: tuple[KeyGrant, ...] = (OWN,)) -> list[tuple[str, str]]:
    return [(each.id, each.sha256) for each in table(*keys, grants=grants).file.keys]


def test_every_field_is_written_as_the_module_reads_it() -> None:
    whole = key(services=["ml/qwen", "shared/*"], requestsPerMinute=60, tokensPerMinute=20000, streams=4)
    whole["spec"] |= {"blocked": True, "hashes": [{"sha256": A, "expires": "2026-12-01T00:00:00+01:00"}]}
    grant = KeyGrant(
        namespace="ml", services=("ml/*",), requests_per_minute=600, tokens_per_minute=100000, streams=40
    )
    assert written(whole, grants=(grant,)) == {
        "keys": [
            {
                "services": ["ml/qwen", "shared/*"],
                "requestsPerMinute": 60,
                "tokensPerMinute": 20000,
                "streams": 4,
                "sha256": A,
                "id": "ml/ci",
                "namespace": "ml",
                "expires": 1796079600,
                "blocked": "Key",
            }
        ],
        "namespaces": {
            "ml": {
                "services": ["ml/*"],
                "requestsPerMinute": 600,
                "tokensPerMinute": 100000,
                "streams": 40,
            }
        },
    }


@pytest.mark.parametrize(
    ("of_key", "of_grant", "least"), [(10, 20, 10), (20, 10, 10), (None, 10, 10), (10, None, 10)]
)
def test_the_grant_bounds_the_bodies_of_each_of_its_keys(
    of_key: int | None, of_grant: int | None, least: int
) -> None:
    limited = key() if of_key is None else key(maxBodyBytes=of_key)
    grant = KeyGrant(namespace="ml", max_body_bytes=of_grant)
    assert written(limited, grants=(grant,))["keys"][0]["maxBodyBytes"] == least


def test_a_key_and_a_grant_that_name_nothing_have_the_services_of_the_namespace() -> None:
    assert written(key(), grants=(KeyGrant(namespace="ml"),)) == {
        "keys": [{"services": ["ml/*"], "sha256": A, "id": "ml/ci", "namespace": "ml"}],
        "namespaces": {"ml": {"services": ["ml/*"]}},
    }


def test_without_keys_no_key_is_valid() -> None:
    assert written() == {"keys": [], "namespaces": {}}


def test_two_hashes_of_one_key_share_its_id() -> None:
    assert in_force(key("ci", B, A)) == [("ml/ci", A), ("ml/ci", B)]


@pytest.mark.parametrize(
    ("namespace", "grants", "valid"),
    [
        pytest.param("ml", (), False, id="no grant"),
        pytest.param("ml", (KeyGrant(namespace="other"),), False, id="another's grant"),
        pytest.param("ml", (KeyGrant(namespace="*"),), True, id="that of every namespace"),
        pytest.param("kube-system", (KeyGrant(namespace="*"),), False, id="a reserved namespace"),
        pytest.param("kube-system", (KeyGrant(namespace="kube-system"),), False, id="reserved, and named"),
    ],
)
def test_a_key_is_valid_only_by_a_grant(namespace: str, grants: tuple[KeyGrant, ...], valid: bool) -> None:
    made = table(key(namespace=namespace), grants=grants)
    assert (len(made.file.keys), len(made.file.namespaces), len(made.problems)) == (valid, valid, not valid)


def test_the_grant_of_a_namespace_goes_before_that_of_every_namespace() -> None:
    grants = (KeyGrant(namespace="*", streams=1), KeyGrant(namespace="ml", streams=9))
    found = written(key(), key("b", B, namespace="other"), grants=grants)["namespaces"]
    assert {name: limits["streams"] for name, limits in found.items()} == {"ml": 9, "other": 1}


def test_of_two_keys_with_one_hash_the_older_one_has_it() -> None:
    thief = key("a-thief", A, B, namespace="evil", age=2)
    made = table(thief, key(), grants=(KeyGrant(namespace="*"),))
    assert [(each.id, each.sha256) for each in made.file.keys] == [("evil/a-thief", B), ("ml/ci", A)]
    why = "hash aaaaaaaa belongs to a ModelKey of another namespace: remove it, and create a key of your own"
    assert made.problems == {"evil/a-thief": why}


def test_beyond_the_number_of_a_grant_the_oldest_keys_are_valid() -> None:
    made = table(key("new", A, age=2), key("old", B, age=1), grants=(KeyGrant(namespace="ml", max_keys=1),))
    assert [each.id for each in made.file.keys] == ["ml/old"]
    assert made.problems == {"ml/new": 'namespace "ml" has more than 1 key'}


def test_a_key_that_is_being_deleted_is_revoked() -> None:
    gone = key()
    gone["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    assert written(gone) == {"keys": [], "namespaces": {}}


def test_an_unreadable_key_keeps_its_former_entries_within_the_grant_of_now() -> None:
    former = table(key(), grants=(KeyGrant(namespace="ml", streams=9),)).file
    narrow = KeyGrant(namespace="ml", streams=1)
    made = table(key(streams="many"), grants=(narrow,), former=former)
    assert made.file == table(key(), grants=(narrow,)).file
    cause = 'cannot read ModelKey "ml/ci": spec.streams: expected `int | null`, got `str`'
    assert made.problems == {"ml/ci": f"{cause}: the previous state remains active"}
    assert written(key(streams="many"), grants=(), former=former) == {"keys": [], "namespaces": {}}


def test_an_unreadable_key_that_was_never_read_opens_nothing() -> None:
    made = table(key(streams="many"))
    assert made.file == KeyFile()
    assert made.problems["ml/ci"].endswith(": it is not active")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("2026-12-01T00:00:00", 1796083200, id="without a zone, as UTC"),
        pytest.param("0001-01-01T00:00:00+14:00", 0, id="before 1970, which the module could not read"),
        pytest.param("9999-12-31T23:59:59Z", 253402300799, id="the last year"),
    ],
)
def test_a_time_is_written_in_seconds(text: str, seconds: int) -> None:
    expiring = key()
    expiring["spec"]["hashes"][0]["expires"] = text
    assert written(expiring)["keys"][0]["expires"] == seconds


def test_what_was_written_is_read_again() -> None:
    made = table(key(streams=3), key("b", B)).file
    assert KeyFile.parse(made.encode()) == made


def test_every_field_is_one_of_the_contract_which_the_module_refuses_others_of() -> None:
    readme = Path(__file__).parents[3] / "gateway-module" / "README.md"
    section = readme.read_text().partition("### keys.json")[2].partition("\n### ")[0]
    example = re.findall("```json\n(.*?)```", section, re.DOTALL)[0]
    documented = json.loads(example)
    of_key = {each.encode_name for each in msgspec.structs.fields(KeyEntry)}
    of_namespace = {each.encode_name for each in msgspec.structs.fields(NamespaceEntry)}
    assert of_key == set(documented["keys"][0])
    assert of_namespace == set(documented["namespaces"]["ml"])


LOCAL, GLOBAL = RateLimitType.LOCAL, RateLimitType.GLOBAL


@pytest.mark.parametrize(
    ("asked", "granted", "of_key", "of_namespace"),
    [
        pytest.param(None, (), False, False, id="neither asks"),
        pytest.param("Global", (), True, False, id="the key asks"),
        pytest.param("Global", (LOCAL, GLOBAL), True, False, id="the grant allows both"),
        pytest.param("Local", (GLOBAL,), True, True, id="the grant requires it"),
        pytest.param("Global", (LOCAL,), False, False, id="the grant forbids it"),
    ],
)
def test_the_grant_decides_about_the_rate_limit_service(
    asked: str | None, granted: tuple[RateLimitType, ...], of_key: bool, of_namespace: bool
) -> None:
    spec: dict[str, Any] = {"rateLimitType": asked} if asked else {}
    grant = KeyGrant(namespace="ml", rate_limit_types=granted)
    file = table(key(**spec), grants=(grant,)).file
    assert (file.keys[0].global_limits, file.namespaces["ml"].global_limits) == (of_key, of_namespace)


@pytest.mark.parametrize(
    ("asked", "granted", "expected"),
    [
        pytest.param((), (), None, id="no rule"),
        pytest.param(("b", "a"), (), ("a", "b"), id="the key alone"),
        pytest.param((), ("b", "a"), ("a", "b"), id="the grant alone"),
        pytest.param(("a", "b"), ("b", "c"), ("b",), id="the regions of both"),
        pytest.param(("a",), ("b",), (), id="none in common allows none"),
    ],
)
def test_a_grant_narrows_the_regions_of_a_key(
    asked: tuple[str, ...], granted: tuple[str, ...], expected: tuple[str, ...] | None
) -> None:
    spec: dict[str, Any] = {"regions": list(asked)} if asked else {}
    file = table(key(**spec), grants=(KeyGrant(namespace="ml", regions=granted),)).file
    assert file.keys[0].regions == expected
    assert ("regions" in json.loads(file.encode())["keys"][0]) is (expected is not None)


def test_a_key_that_cannot_be_read_keeps_its_regions_within_the_grant_of_now() -> None:
    former = table(key(regions=["a", "b"])).file
    damaged = key()
    damaged["spec"]["streams"] = "many"
    for granted, expected in (((), ("a", "b")), (("b",), ("b",)), (("c",), ())):
        grant = KeyGrant(namespace="ml", regions=granted)
        assert table(damaged, grants=(grant,), former=former).file.keys[0].regions == expected
