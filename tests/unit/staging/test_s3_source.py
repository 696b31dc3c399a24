"""Objects of a bucket: staged whole and checked, or the cause."""

import datetime as dt
import hashlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from modelplane.staging.s3_source import signature
from support import bucket_server
from support.bucket_server import KEYS, BucketServer
from support.weights_server import WeightsServer
from unit.staging.conftest import Volume

CONTENT = bytes(range(256)) * 60_000
"""Fifteen megabytes: three parts of a multipart upload, the last one smaller."""


@pytest.fixture(scope="module")
def buckets() -> Iterator[BucketServer]:
    with bucket_server.serve() as served:
        yield served


@pytest.fixture
def bucket(buckets: BucketServer, request: pytest.FixtureRequest) -> str:
    """An empty bucket of the test's own."""
    name = f"b{hashlib.sha256(request.node.name.encode()).hexdigest()[:20]}"
    buckets.client.create_bucket(Bucket=name)
    buckets.faults.clear()
    buckets.asked.clear()
    return name


def source(buckets: BucketServer, named: str, **more: str) -> dict[str, Any]:
    return {"s3": {"bucket": named, "prefix": "qwen", "region": "us-east-1", "endpoint": buckets.url} | more}


def test_a_folder_is_staged_by_pages(volume: Volume, buckets: BucketServer, bucket: str) -> None:
    names = [f"shard {number:04}" for number in range(12)] + ["a/ü+%=.json"]
    for name in names:
        buckets.client.put_object(Bucket=bucket, Key=f"qwen/{name}", Body=name.encode())
    buckets.client.put_object(Bucket=bucket, Key="qwen/", Body=b"")
    buckets.client.put_object(Bucket=bucket, Key="qwen2/other", Body=b"")
    program = volume.program.replace('"encoding-type": "url"', '"encoding-type": "url", "max-keys": "5"')
    paged = Volume(volume.path, program)
    assert paged.stage(source(buckets, bucket), secret=KEYS) == (0, "")
    assert volume.files() == {name: name.encode() for name in names}
    assert volume.marker().keys() == {"artifact", "source", "listing"}


@pytest.mark.parametrize("kind", ["plain", "multipart", "sha256", "crc32"])
def test_each_kind_of_checksum_is_checked(
    volume: Volume, buckets: BucketServer, bucket: str, kind: str
) -> None:
    if kind.startswith("multipart"):
        _multipart(buckets.client, bucket)
    else:
        algorithm = {} if kind == "plain" else {"ChecksumAlgorithm": kind.upper()}
        buckets.client.put_object(Bucket=bucket, Key="qwen/x", Body=CONTENT, **algorithm)
    buckets.faults.append(lambda body: bytes([body[0] ^ 1]) + body[1:])
    assert volume.stage(source(buckets, bucket), secret=KEYS) == (0, "")
    assert volume.files() == {"x": CONTENT}
    assert len(buckets.asked) == 2, "the corrupted answer was noticed"


@pytest.mark.parametrize(("algorithm", "from_the_bucket"), [("SHA256", 0), ("CRC32", 1)])
def test_objects_come_from_a_mirror_if_s3_has_their_sha256(
    volume: Volume,
    buckets: BucketServer,
    bucket: str,
    server: WeightsServer,
    algorithm: str,
    from_the_bucket: int,
) -> None:
    buckets.client.put_object(Bucket=bucket, Key="qwen/a/x", Body=CONTENT, ChecksumAlgorithm=algorithm)
    server.add("/a/x", CONTENT)
    wanted = source(buckets, bucket)
    wanted["s3"]["mirrors"] = [server.url]
    assert volume.stage(wanted, secret=KEYS) == (0, "")
    assert volume.files() == {"a/x": CONTENT}
    assert len(buckets.asked) == from_the_bucket


def _multipart(client: Any, bucket: str) -> None:
    place = {"Bucket": bucket, "Key": "qwen/x"}
    upload = client.create_multipart_upload(**place)["UploadId"]
    parts = []
    for number, start in enumerate(range(0, len(CONTENT), 6 << 20), 1):
        body = CONTENT[start : start + (6 << 20)]
        tag = client.upload_part(**place, UploadId=upload, PartNumber=number, Body=body)["ETag"]
        parts.append({"PartNumber": number, "ETag": tag})
    client.complete_multipart_upload(**place, UploadId=upload, MultipartUpload={"Parts": parts})


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param([lambda body: body[:5_000_000]], id="truncated"),
        pytest.param(["503 Slow Down"] * 3, id="slow down"),
        pytest.param(["429 Too Many Requests"], id="429"),
    ],
)
def test_what_passes_is_overcome(
    volume: Volume, buckets: BucketServer, bucket: str, faults: list[Any]
) -> None:
    buckets.client.put_object(Bucket=bucket, Key="qwen/x", Body=CONTENT)
    buckets.faults.extend(faults)
    assert volume.stage(source(buckets, bucket), secret=KEYS) == (0, "")
    assert volume.files() == {"x": CONTENT}


def test_an_object_that_changed_since_it_was_listed_is_not_taken(
    volume: Volume, buckets: BucketServer, bucket: str
) -> None:
    buckets.client.put_object(Bucket=bucket, Key="qwen/x", Body=CONTENT)

    def change(body: bytes) -> bytes:
        buckets.client.put_object(Bucket=bucket, Key="qwen/x", Body=CONTENT[::-1])
        return body[:5_000_000]

    buckets.faults.append(change)
    code, said = volume.stage(source(buckets, bucket), secret=KEYS)
    told = f"cannot stage the weights: {buckets.url}/{bucket}/qwen/x answers 412"
    assert (code, said.partition(";")[0], volume.files()) == (1, told, {})
    assert volume.stage(source(buckets, bucket), secret=KEYS) == (0, "")
    assert volume.files() == {"x": CONTENT[::-1]}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"prefix": "none"}, "there is no object below 'none/' in the bucket"),
        ({"bucket": "missing"}, "{url}/missing does not exist (404)"),
    ],
)
def test_what_is_not_there_is_the_cause(
    volume: Volume, buckets: BucketServer, bucket: str, more: dict[str, str], told: str
) -> None:
    given = {name: value.format(url=buckets.url) for name, value in more.items()}
    code, said = volume.stage(source(buckets, bucket, **given), secret=KEYS)
    expected = told.format(url=buckets.url, bucket=bucket)
    assert (code, said[: len(expected)]) == (65, expected)


@pytest.mark.parametrize("key", ["qwen/../../x", "qwen//etc/passwd", "qwen/.modelplane-former/x"])
def test_no_key_leads_out_of_the_volume(volume: Volume, buckets: BucketServer, bucket: str, key: str) -> None:
    buckets.client.put_object(Bucket=bucket, Key=key, Body=b"1")
    code, _ = volume.stage(source(buckets, bucket), secret=KEYS)
    assert (code, volume.files()) == (65, {})
    assert not (volume.path.parent / "x").exists()


def test_the_size_is_that_of_the_list(volume: Volume, buckets: BucketServer, bucket: str) -> None:
    for name in ("x", "y/z"):
        buckets.client.put_object(Bucket=bucket, Key=f"qwen/{name}", Body=b"12345")
    assert volume.measure(source(buckets, bucket), KEYS) == (66, "10 bytes in 2 files")


@pytest.mark.parametrize("session", ["", "session/+="])
@pytest.mark.parametrize("key", ["a", "a b+c%/ü=&;,:@$!*'()~", "x/../y"])
@pytest.mark.parametrize("query", ["", "list-type=2&prefix=a%20b%2F"])
def test_a_signature_is_that_of_the_maker_of_s3(key: str, query: str, session: str) -> None:
    url = f"https://s3.example.com:8443/bucket/{quote(key, safe='/-_.~')}" + (f"?{query}" if query else "")
    secret = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key", "AWS_SESSION_TOKEN": session}
    now = dt.datetime.now(dt.timezone.utc).replace(microsecond=0)  # noqa: UP017  the program's own form
    ours = signature("GET", url, "eu-west-1", secret, now, {"If-Match": '"tag"'})
    theirs = AWSRequest(method="GET", url=url, headers={"if-match": '"tag"', "host": "s3.example.com:8443"})
    signer = botocore.auth.S3SigV4Auth(Credentials("id", "key", session or None), "s3", "eu-west-1")
    theirs.context["timestamp"] = ours["x-amz-date"]
    theirs.headers["X-Amz-Date"] = ours["x-amz-date"]
    theirs.headers["X-Amz-Content-SHA256"] = ours["x-amz-content-sha256"]
    if session:
        theirs.headers["X-Amz-Security-Token"] = session
    expected = signer.signature(signer.string_to_sign(theirs, signer.canonical_request(theirs)), theirs)
    assert ours["Authorization"].rpartition("Signature=")[2] == expected
