import ast
import json
import re
from typing import Any

import pytest

from modelplane.api.model_cache import ModelCache
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.cache import staging_job
from modelplane.compose.cache.staging_job import Credentials
from modelplane.compose.cache.staging_program import SOURCES_PROGRAM
from modelplane.compose.cache.staging_sources import SOURCE_PATH, Source, find_source
from modelplane.kubelet.engines.launcher_allow_lists import HYDRATION as ALLOWED

SHA = "a" * 64
FILE = {"path": "config.json", "url": "https://files.example.com/config.json", "sha256": SHA}
SPECS: dict[str, dict[str, Any]] = {
    "HTTP": {"http": {"files": [FILE], "sizeGiB": 2}},
    "S3": {"s3": {"bucket": "weights", "prefix": "qwen", "region": "eu-west-1", "sizeGiB": 2}},
    "OCI": {"oci": {"reference": "ghcr.io/team/model:v1", "sizeGiB": 2}},
    "NGC": {"ngc": {"org": "nim", "team": "meta", "model": "llama", "version": "1.0+fp8", "sizeGiB": 2}},
    "PersistentVolumeClaim": {"persistentVolumeClaim": {"claimName": "shared", "path": "a/b", "sizeGiB": 2}},
}

every_source = pytest.mark.parametrize("source", SPECS)


def cache(source: str, **changed: Any) -> ModelCache:
    [(field, described)] = SPECS[source].items()
    spec = {"source": source, field: described | changed}
    return decode_as(ModelCache, {"metadata": {"name": "weights", "namespace": "ml-team"}, "spec": spec})


def made(source: str, **changed: Any) -> Source:
    found = find_source(cache(source, **changed).spec)
    assert found is not None
    return found


@every_source
def test_no_input_of_a_user_is_part_of_a_command(source: str) -> None:
    assert made(source).command == made("HTTP").command
    described = json.loads(made(source).variables["SOURCE"])
    assert list(described) == [{"PersistentVolumeClaim": "volume"}.get(source, source.lower())]
    assert made(source).variables["LIMIT"] == str(2 << 30)


@pytest.mark.parametrize(
    ("source", "changed", "anew"),
    [
        pytest.param("HTTP", {"files": [FILE | {"url": "https://mirror/x"}]}, False, id="another address"),
        pytest.param("HTTP", {"files": [FILE | {"sha256": "b" * 64}]}, True, id="other content"),
        pytest.param("HTTP", {"files": [FILE | {"path": "x"}]}, True, id="another name"),
        pytest.param("HTTP", {"authSecret": {"name": "x"}}, False, id="a token"),
        pytest.param("S3", {"prefix": "llama"}, True, id="another prefix"),
        pytest.param("S3", {"bucket": "other"}, True, id="another bucket"),
        pytest.param("S3", {"sizeGiB": 9}, False, id="another size"),
        pytest.param("OCI", {"reference": "ghcr.io/team/model:v2"}, True, id="another tag"),
        pytest.param("OCI", {"plainHTTP": True}, False, id="another way"),
        pytest.param("S3", {"mirrors": ["https://mirror.example.com"]}, False, id="a mirror"),
        pytest.param("NGC", {"version": "2"}, True, id="another version"),
        pytest.param("NGC", {"team": "google"}, True, id="another team"),
        pytest.param("PersistentVolumeClaim", {"path": "a"}, True, id="another folder"),
        pytest.param("PersistentVolumeClaim", {"claimName": "other"}, True, id="another volume"),
    ],
)
def test_an_artifact_is_what_is_staged_and_not_the_way_to_it(
    source: str, changed: dict[str, Any], anew: bool
) -> None:
    assert (made(source, **changed).artifact != made(source).artifact) is anew


@pytest.mark.parametrize(
    ("source", "secret", "variables"),
    [
        ("HTTP", {"name": "hub"}, {"TOKEN": "token"}),
        ("OCI", {"name": "hub", "key": "config"}, {"DOCKER_CONFIG": "config"}),
        ("NGC", {"name": "hub"}, {"NGC_API_KEY": "NGC_API_KEY"}),
        (
            "S3",
            {"name": "hub"},
            {each: each for each in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")},
        ),
    ],
)
def test_credentials_reach_the_program_from_the_copy_of_the_secret(
    source: str, secret: dict[str, str], variables: dict[str, str]
) -> None:
    given, credentials = (
        cache(source, authSecret=secret),
        Credentials(dict.fromkeys(variables.values(), "eA")),
    )
    found = find_source(given.spec)
    assert found is not None
    [container] = staging_job.build_job(given, found, credentials)["spec"]["template"]["spec"]["containers"]
    references = {
        entry["name"]: entry["valueFrom"]["secretKeyRef"]
        for entry in container["env"]
        if "valueFrom" in entry
    }
    assert variables.keys() <= ALLOWED.variables.keys(), "a local fleet passes them on"
    copied = staging_job.build_secret(given, credentials)
    assert references == {
        variable: {"name": copied["metadata"]["name"], "key": key} for variable, key in variables.items()
    }
    assert copied["data"].keys() == set(variables.values())


def test_a_url_cannot_refer_to_a_variable_of_the_pod() -> None:
    with pytest.raises(InvalidObject, match="url"):
        made("HTTP", files=[FILE | {"url": "https://files.example.com/$(HOSTNAME)"}])


def test_the_longest_source_fits_into_a_variable() -> None:
    files = [
        {"path": f"{number:0>255}", "url": "https://a/".ljust(1024, "x"), "sha256": SHA}
        for number in range(64)
    ]
    assert len(made("HTTP", files=files).variables["SOURCE"]) < 128 << 10, "MAX_ARG_STRLEN of Linux"


def test_a_volume_to_copy_from_is_mounted_for_reading_alone() -> None:
    given = cache("PersistentVolumeClaim")
    spec = staging_job.build_job(given, made("PersistentVolumeClaim"), None)["spec"]["template"]["spec"]
    assert spec["volumes"][1:] == [
        {"name": "source", "persistentVolumeClaim": {"claimName": "shared", "readOnly": True}}
    ]
    assert spec["containers"][0]["volumeMounts"][1:] == [
        {"name": "source", "mountPath": SOURCE_PATH, "readOnly": True}
    ]
    assert f'MOUNT = Path("{SOURCE_PATH}")' in SOURCES_PROGRAM


def test_the_program_is_one_text_of_the_standard_library_that_fits_into_an_argument() -> None:
    tree = ast.parse(SOURCES_PROGRAM)
    imported = re.findall(r"^(?:from|import) (\w+)", SOURCES_PROGRAM, re.MULTILINE)
    assert "modelplane" not in imported
    defined = [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    assert sorted(defined) == sorted(set(defined)), "one module does not replace what another defines"
    assert len(SOURCES_PROGRAM.encode()) < 64 << 10
