import re

import pytest
from msgspec import inspect

from modelplane.api.fields.cache_sources import HuggingFace
from modelplane.api.model_endpoint import ModelEndpointSpec
from modelplane.api.schema import fields


def _pattern(type_, name):
    info = inspect.type_info(type_)
    assert isinstance(info, inspect.StructType)
    (field,) = (field for field in info.fields if field.name == name)
    inner = field.type
    while not isinstance(inner, inspect.StrType):
        assert isinstance(inner, inspect.UnionType | inspect.Metadata)
        inner = inner.types[0] if isinstance(inner, inspect.UnionType) else inner.type
    return inner.pattern


URL = _pattern(ModelEndpointSpec, "url")
REPO = _pattern(HuggingFace, "repo")
REVISION = _pattern(HuggingFace, "revision")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (fields.DNS_LABEL, "qwen3-8b"),
        (fields.DNS_SUBDOMAIN, "efa.networking.k8s.aws"),
        (fields.DRIVER_NAME, "gpu.nvidia.com"),
        (fields.QUALIFIED_NAME, "modelplane.ai/maintenance"),
        (fields.QUALIFIED_NAME, "team"),
        (fields.LABEL_VALUE, ""),
        (fields.LABEL_VALUE, "us-west_2.a"),
        (fields.QUANTITY, "81559Mi"),
        (fields.QUANTITY, "1.5e3"),
        (fields.QUANTITY, "140Gi"),
        (fields.QUANTITY, "100m"),
        (fields.SEMVER, "9.0.0"),
        (fields.SEMVER, "1.2.3-rc.1+build"),
        (fields.SECRET_KEY, "HF_TOKEN"),
        (fields.SECRET_KEY, "credentials.json"),
        (fields.SECRET_KEY, ".dockerconfigjson"),
        (fields.VERSION, "v1.36.1+3"),
        (fields.VERSION, "1.35.1-gke.1234000"),
        (fields.CIDR, "10.1.0.0/16"),
        (URL, "https://api.together.xyz/"),
        (URL, "http://10.0.1.50/ml-team/qwen-72b/"),
        (URL, "http://127.0.0.1:8081/ml-team/qwen-92535/v1"),
        (URL, "http://[fd00::1]:8000"),
        (REPO, "Qwen/Qwen2.5-72B-Instruct"),
        (REPO, "RedHatAI/Kimi-K2-Instruct-quantized.w4a16"),
        (REPO, "gpt2"),
        (REVISION, "refs/pr/1"),
    ],
)
def test_a_pattern_takes(pattern, text):
    assert re.search(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (fields.DNS_LABEL, "Qwen"),
        (fields.DNS_LABEL, "-qwen"),
        (fields.DNS_LABEL, "qwen.8b"),
        (fields.DNS_SUBDOMAIN, "efa..aws"),
        (fields.DRIVER_NAME, "gpu_nvidia"),
        (fields.QUALIFIED_NAME, "Example.com/x"),
        (fields.QUALIFIED_NAME, "a/b/c"),
        (fields.LABEL_VALUE, "-a"),
        (fields.QUANTITY, "-1Gi"),
        (fields.QUANTITY, "80 Gi"),
        (fields.QUANTITY, "80GB"),
        (fields.QUANTITY, "Gi"),
        (fields.QUANTITY, "1K"),
        (fields.SEMVER, "9.0"),
        (fields.SEMVER, "v9.0.0"),
        (fields.SEMVER, "9.00.0"),
        (fields.SECRET_KEY, ""),
        (fields.SECRET_KEY, "."),
        (fields.SECRET_KEY, "..data"),
        (fields.SECRET_KEY, "a/b"),
        (fields.VERSION, ""),
        (fields.VERSION, "-x"),
        (fields.VERSION, "1.2 3"),
        (fields.CIDR, "10.1.0.0"),
        (fields.CIDR, "10.1.0.0/16,10.2.0.0/16"),
        (URL, "api.together.xyz"),
        (URL, "ftp://example.com"),
        (URL, "http://"),
        (URL, "http://user:token@example.com/"),
        (URL, "http://example.com:port/"),
        (REPO, "Qwen/x; rm -rf /"),
        (REPO, "-x/y"),
        (REVISION, "--force"),
        (REVISION, "$(id)"),
    ],
)
def test_a_pattern_refuses(pattern, text):
    assert not re.search(pattern, text)
