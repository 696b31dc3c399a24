from typing import Any

import pytest

from modelplane.api.model_cache import ModelCache
from modelplane.api.schema.decode import decode_as
from modelplane.compose.cache import staging_job
from modelplane.compose.cache.staging_job import Credentials
from modelplane.compose.cache.staging_sources import Source, find_source


def _cache(name: str = "weights", **source: Any) -> ModelCache:
    spec = {"source": "HuggingFace", "huggingFace": {"repo": "team/model", "sizeGiB": 20} | source}
    return decode_as(ModelCache, {"metadata": {"name": name, "namespace": "ml-team"}, "spec": spec})


def _source(cache: ModelCache) -> Source:
    source = find_source(cache.spec)
    assert source is not None
    return source


def _artifact(cache: ModelCache) -> str:
    return _source(cache).artifact


def _job(cache: ModelCache, token: str = "") -> dict[str, Any]:
    credentials = Credentials({"HF_TOKEN": token}) if token else None
    return dict(staging_job.build_job(cache, _source(cache), credentials))


def _name(cache: ModelCache, token: str = "") -> str:
    return str(_job(cache, token)["metadata"]["name"])


@pytest.mark.parametrize(
    ("changed", "anew"),
    [
        pytest.param({"repo": "team/other"}, True, id="another repository"),
        pytest.param({"revision": "v2"}, True, id="another revision"),
        pytest.param({"files": "Safetensors"}, True, id="fewer files"),
        pytest.param({"files": "All"}, False, id="the files of before"),
        pytest.param({"sizeGiB": 30}, False, id="another size"),
        pytest.param({"endpoint": "https://mirror"}, False, id="a mirror"),
        pytest.param({"authSecret": {"name": "token"}}, False, id="another token"),
    ],
)
def test_an_artifact_is_what_is_staged_and_nothing_else(changed: dict[str, Any], anew: bool) -> None:
    assert (_artifact(_cache(**changed)) != _artifact(_cache())) is anew


def test_whatever_may_mend_a_failed_job_makes_another_one() -> None:
    names = [
        _name(_cache()),
        _name(_cache(revision="v2")),
        _name(_cache(sizeGiB=30)),
        _name(_cache(), "b25l"),
        _name(_cache(), "dHdv"),
    ]
    assert len(set(names)) == len(names)
    assert _name(_cache()) == _name(_cache())


def test_no_input_of_a_user_is_part_of_a_command() -> None:
    cache = _cache(repo="team/model", revision="main")
    [container] = _job(cache)["spec"]["template"]["spec"]["containers"]
    assert (
        container["command"]
        == _job(_cache(repo="x/y"))["spec"]["template"]["spec"]["containers"][0]["command"]
    )
    assert {entry["name"]: entry.get("value") for entry in container["env"]}["REPO"] == "team/model"


def test_the_token_is_in_no_manifest_but_the_secrets() -> None:
    assert "c2VjcmV0" not in str(_job(_cache(), "c2VjcmV0"))
    assert staging_job.build_secret(_cache(), Credentials({"KEY": "c2VjcmV0"}))["data"] == {"KEY": "c2VjcmV0"}


def test_the_job_is_restricted() -> None:
    spec = _job(_cache())["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    [container] = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


def test_a_job_tells_what_it_stages() -> None:
    assert staging_job.read_artifact(_job(_cache())) == _artifact(_cache())


def test_names_and_labels_fit_whatever_the_cache_is_called() -> None:
    cache = _cache("a" * 253)
    job = _job(cache)
    assert len(job["metadata"]["name"]) <= 63
    assert len(staging_job.format_cache_label(cache)) <= 63
    assert staging_job.format_cache_label(_cache()) == "weights"


def test_the_newest_attempt_has_the_last_word() -> None:
    def pod(name: str, created: str, message: str) -> dict[str, Any]:
        state = {"terminated": {"exitCode": 1, "message": message}}
        status = {"containerStatuses": [{"name": "hydrate", "state": state}]}
        return {"metadata": {"name": name, "creationTimestamp": created}, "status": status}

    attempts = [pod("a", "2026-01-01T00:00:02Z", "second"), pod("b", "2026-01-01T00:00:01Z", "first")]
    assert (staging_job.describe_last_attempt(attempts) or "").endswith("second")
    assert staging_job.describe_last_attempt([]) is None
    assert staging_job.describe_earlier_attempt(attempts).endswith(
        '; previous attempt: pod "b": container "hydrate" exited with status 1: first'
    )
    assert (
        staging_job.describe_earlier_attempt(attempts[:1]) == staging_job.describe_earlier_attempt([]) == ""
    )
