"""A profile of AWS, exchanged for a token of EKS; moto's server on this machine stands for STS."""

import base64
import hashlib
import hmac
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, urlsplit

import pytest
from botocore.exceptions import ClientError
from moto.server import ThreadedMotoServer

from modelplane.api.clouds.cluster_origin import IdentityType
from modelplane.controllers.clusters import aws_tokens
from modelplane.controllers.clusters.cloud_identities import Credential, Token

ARN = "arn:aws:eks:eu-west-1:111122223333:cluster/east"
ROLE = "arn:aws:iam::111122223333:role/fleet"
KEYS = "aws_access_key_id = AKIAEXAMPLE\naws_secret_access_key = a%%secret/key\n"
NO_PROFILE = (
    "not a profile of an AWS credentials file: [default] with aws_access_key_id and aws_secret_access_key, "
    "or with role_arn"
)


@pytest.fixture(scope="module")
def sts() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    yield f"http://127.0.0.1:{port}"
    server.stop()


@pytest.fixture(autouse=True)
def _without_effect(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Give the machine a configuration whose program must not run, and a proxy that does not answer."""
    configured, ran = tmp_path / "config", tmp_path / "ran"
    configured.write_text(f"[default]\ncredential_process = touch {ran}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(configured))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    for name in (aws_tokens.WEB_IDENTITY, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    yield
    assert not ran.exists()


def profile(text: str, cluster: str = ARN) -> Credential:
    return Credential(IdentityType.AWS, f"[default]\n{text}".encode(), "Secret", cluster)


def request_of(token: Token) -> str:
    """Return the request that a token is."""
    prefix, _, encoded = token.text.partition(".")
    assert prefix == "k8s-aws-v1"
    assert "=" not in encoded
    return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()


def signature(url: str, secret: str, headers: dict[str, str]) -> str:
    """Return the signature of a request with a query (AWS Signature Version 4)."""
    parts = urlsplit(url)
    query = sorted((name, value) for name, value in parse_qsl(parts.query) if name != "X-Amz-Signature")
    values = dict(query)
    canonical = "\n".join(
        [
            "GET",
            parts.path,
            "&".join(f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in query),
            *(f"{name}:{headers[name]}" for name in sorted(headers)),
            "",
            ";".join(sorted(headers)),
            hashlib.sha256(b"").hexdigest(),
        ]
    )
    scope = values["X-Amz-Credential"].partition("/")[2]
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{values['X-Amz-Date']}\n{scope}\n{digest}"
    return hmac.new(key, text.encode(), "sha256").hexdigest()


def test_a_key_signs_a_request_for_its_identity_that_names_the_cluster() -> None:
    token = aws_tokens.exchange(profile(KEYS))
    assert 13 * 60 < token.expires - time.time() <= 14 * 60
    url = request_of(token)
    parts, query = urlsplit(url), {name: value for name, [value] in parse_qs(urlsplit(url).query).items()}
    assert (parts.scheme, parts.netloc, parts.path) == ("https", "sts.eu-west-1.amazonaws.com", "/")
    assert (query["Action"], query["Version"]) == ("GetCallerIdentity", "2011-06-15")
    assert query["X-Amz-Expires"] == "60"
    assert query["X-Amz-SignedHeaders"] == "host;x-k8s-aws-id"
    assert re.fullmatch(r"AKIAEXAMPLE/[0-9]{8}/eu-west-1/sts/aws4_request", query["X-Amz-Credential"])
    signed = {"host": parts.netloc, "x-k8s-aws-id": "east"}
    assert query["X-Amz-Signature"] == signature(url, "a%%secret/key", signed)


def test_china_has_a_domain_of_its_own() -> None:
    token = aws_tokens.exchange(
        profile(KEYS, ARN.replace("aws:", "aws-cn:", 1).replace("eu-west-1", "cn-north-1"))
    )
    assert request_of(token).startswith("https://sts.cn-north-1.amazonaws.com.cn/?")


def test_a_session_token_is_part_of_the_request() -> None:
    url = request_of(aws_tokens.exchange(profile(f"{KEYS}aws_session_token = s3ss10n")))
    assert parse_qs(urlsplit(url).query)["X-Amz-Security-Token"] == ["s3ss10n"]


def test_a_role_is_assumed_with_the_key(sts: str) -> None:
    url = request_of(aws_tokens.exchange(profile(f"{KEYS}role_arn = {ROLE}"), sts))
    query = parse_qs(urlsplit(url).query)
    assert query["X-Amz-Credential"][0].startswith("ASIA"), "a temporary key"
    assert query["X-Amz-Security-Token"]


def test_without_a_key_a_role_is_assumed_with_the_identity_of_the_controllers(
    sts: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    projected = tmp_path / "token"
    projected.write_text("e30.e30.e30")
    monkeypatch.setenv(aws_tokens.WEB_IDENTITY, str(projected))
    url = request_of(aws_tokens.exchange(profile(f"role_arn = {ROLE}"), sts))
    assert parse_qs(urlsplit(url).query)["X-Amz-Credential"][0].startswith("ASIA")


def test_files_and_programs_of_a_profile_have_no_effect(sts: str, tmp_path: Path) -> None:
    projected, ran = tmp_path / "token", tmp_path / "ran"
    projected.write_text("e30.e30.e30")
    text = f"role_arn = {ROLE}\nweb_identity_token_file = {projected}\ncredential_process = touch {ran}\n"
    with pytest.raises(
        ValueError, match=r"^there is no access key, and the controllers have no web identity"
    ):
        aws_tokens.exchange(profile(text), sts)
    assert not ran.exists()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\xff", id="not text"),
        pytest.param(b"{}", id="no profile"),
        pytest.param(b"[other]\n" + KEYS.encode(), id="another profile"),
        pytest.param(b"[default]\naws_access_key_id = AKIAEXAMPLE\n", id="half a key"),
        pytest.param(b"[default]\n[default]\n", id="twice"),
    ],
)
def test_what_is_no_profile_is_refused_and_not_quoted(content: bytes) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the whole message is compared
        aws_tokens.exchange(Credential(IdentityType.AWS, content, "Secret", ARN))
    assert str(raised.value) == NO_PROFILE


@pytest.mark.parametrize(
    "cluster",
    ["east", "", "arn:aws:eks:evil.example.org/:111122223333:cluster/east", f"{ARN}\nx-amz-meta: 1"],
)
def test_a_cluster_that_is_not_named_by_its_arn_is_told(cluster: str) -> None:
    with pytest.raises(ValueError, match=r"^the kubeconfig's cluster name is not the cluster's ARN"):
        aws_tokens.exchange(profile(KEYS, cluster))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(
            (403, "AccessDenied", "not authorized to perform: sts:AssumeRole"),
            "AWS refuses the role: An error occurred (AccessDenied) when calling the AssumeRole operation: "
            "not authorized to perform: sts:AssumeRole",
            id="refused",
        ),
        pytest.param((500, "InternalFailure", "x" * 10_000), "AWS refuses the role: ", id="long"),
    ],
)
def test_what_sts_says_is_the_cause(
    answer: tuple[int, str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        status, code, text = answer
        told = {"Error": {"Code": code, "Message": text}, "ResponseMetadata": {"HTTPStatusCode": status}}
        raise ClientError(told, "AssumeRole")

    monkeypatch.setattr(aws_tokens, "_assumed", refuse)
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the whole message is compared
        aws_tokens.exchange(profile(f"{KEYS}role_arn = {ROLE}"))
    assert str(raised.value).startswith(message)
    assert len(str(raised.value)) < 300


def test_a_server_that_does_not_answer_is_named() -> None:
    with pytest.raises(ValueError, match=r"^AWS STS doesn't respond: "):
        aws_tokens.exchange(profile(f"{KEYS}role_arn = {ROLE}"), "http://127.0.0.1:1")


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore", None)
    with pytest.raises(
        ValueError, match=r"^botocore is not installed: install Modelplane with the extra \[aws\]$"
    ):
        aws_tokens.exchange(profile(KEYS))
