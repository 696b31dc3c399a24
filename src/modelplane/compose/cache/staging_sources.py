"""Sources of a ModelCache: the program, variables and keys that the Job of each source gets.

A source is a program, the variables that describe it, and the keys of a Secret that the program needs. Values
of a user are in variables, and never in a command. The artifact depends on the content that is asked for, and
on neither its size nor the way to it.

A Job without a volume asks the source, and the status records its answer before a volume is made. A volume
gets a tenth more than the source reports, because file systems and partial downloads take some.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from modelplane.api.fields.cache_sources import HTTP, NGC, OCI, S3, CacheFiles, ClaimedVolume, HuggingFace
from modelplane.api.meta import Object
from modelplane.api.model_cache import ModelCacheSpec
from modelplane.api.names import child_name
from modelplane.compose.cache.staging_program import MIRROR_PROGRAM, PROGRAM, REQUIREMENTS, SOURCES_PROGRAM

MARKER = ".modelplane-hydrated"
"""File in the volume that is written last, once the weights are complete."""


def name_claim(namespace: str, cache: str) -> str:
    """Return the name of the PersistentVolumeClaim that holds a cache on a cluster."""
    return child_name("modelcache", namespace, cache)


PATH = "/mnt/artifact"
"""Mount path of the volume in the Job."""

SOURCE_PATH = "/mnt/source"
"""Mount path of the volume that weights are copied from; the program has the same."""

HOPELESS = 65
"""Exit code of the programs if a retry cannot help (``EX_DATAERR``)."""

MEASURED = 66
"""Exit code of the program that has measured a source: a success has no last word on some nodes."""

NO_VOLUME = "-"
"""Argument in the place of the volume: the source is only measured."""

_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class SecretKeys:
    """The Secret that a source names, and its keys by the variables of the program."""

    name: str
    required: Mapping[str, str]
    optional: Mapping[str, str] = field(default_factory=dict)

    @property
    def keys(self) -> Mapping[str, str]:
        """All keys, by variable."""
        return {**self.required, **self.optional}


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a cache, as its Job gets it."""

    name: str
    """The source as messages name it."""
    size_gib: int
    """Size of the volume; 0 if it must be estimated."""
    artifact: str
    """Hash of the content."""
    command: tuple[str, ...]
    variables: Mapping[str, str]
    described: Object
    """The source, as the program without the hub's library reads it."""
    secret: SecretKeys | None = None
    claim: str = ""
    """The claim to copy from."""


def set_size(source: Source, size_gib: int) -> Source:
    """Return a source for a volume of a size."""
    limit = {"LIMIT": str(size_gib * _GIB)} if "LIMIT" in source.variables else {}
    return replace(source, size_gib=size_gib, variables={**source.variables, **limit})


def measure_only(source: Source) -> Source:
    """Return a source whose program only reports the size, as its last word and with ``MEASURED``."""
    keys = source.secret
    if keys and "HF_TOKEN" in keys.required:
        keys = SecretKeys(keys.name, {"TOKEN": keys.required["HF_TOKEN"]})
    return replace(
        source,
        command=("python", "-c", SOURCES_PROGRAM, NO_VOLUME, MARKER, str(HOPELESS)),
        variables={"SOURCE": _encode(source.described), "ARTIFACT": "0", "LIMIT": "0"},
        secret=keys,
    )


def find_source(spec: ModelCacheSpec) -> Source | None:
    """Return the source of a cache; None if the field that describes it is missing."""
    given = spec.hugging_face or spec.http or spec.s3 or spec.oci or spec.ngc or spec.persistent_volume_claim
    return _SOURCES[type(given)](given) if given is not None else None


def _hugging_face(source: HuggingFace) -> Source:
    only = [source.files] if source.files is CacheFiles.SAFETENSORS else []
    secret = source.auth_secret
    artifact = hash_content(["HuggingFace", source.repo, source.revision, *only])[:16]
    program = MIRROR_PROGRAM if source.endpoint or source.mirrors else PROGRAM
    # The library's own transfer does not ask the program before it connects.
    mirror = {"HF_ENDPOINT": source.endpoint, "HF_HUB_DISABLE_XET": "1"} if source.endpoint else {}
    mirrors = {"MIRRORS": _encode(source.mirrors)} if source.mirrors else {}
    return Source(
        name=source.repo,
        size_gib=source.size_gib or 0,
        artifact=artifact,
        command=("python", "-c", program, PATH, MARKER, REQUIREMENTS, str(HOPELESS)),
        variables={
            "REPO": source.repo,
            **({"REVISION": source.revision} if source.revision else {}),
            **({"FILES": str(source.files)} if source.files else {}),
            "ARTIFACT": artifact,
            "HF_HOME": "/tmp/huggingface",  # noqa: S108 - in the container
            "HF_HUB_DISABLE_TELEMETRY": "1",
            **mirror,
            **mirrors,
        },
        described={
            "huggingFace": {
                "repo": source.repo,
                "revision": source.revision or "",
                "files": str(source.files or CacheFiles.ALL),
                "endpoint": source.endpoint or "",
            }
        },
        secret=SecretKeys(secret.name, {"HF_TOKEN": secret.key}) if secret else None,
    )


def _http(source: HTTP) -> Source:
    content = sorted((file.path, file.sha256) for file in source.files)
    files = [{"path": file.path, "url": file.url, "sha256": file.sha256} for file in source.files]
    hosts = sorted({file.url.split("/")[2] for file in source.files})
    secret = source.auth_secret
    return _build_source(
        f"{len(files)} files of {hosts[0]}" + (" and others" if hosts[1:] else ""),
        source.size_gib,
        ["HTTP", content],
        {"http": {"files": files, "mirrors": source.mirrors}},
        SecretKeys(secret.name, {"TOKEN": secret.key}) if secret else None,
    )


def _s3(source: S3) -> Source:
    described = {
        "bucket": source.bucket,
        "prefix": source.prefix or "",
        "region": source.region,
        "endpoint": source.endpoint or "",
        "mirrors": source.mirrors,
    }
    secret = source.auth_secret
    keys = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    session = "AWS_SESSION_TOKEN"
    return _build_source(
        f"s3://{source.bucket}/{source.prefix or ''}",
        source.size_gib,
        ["S3", source.endpoint, source.bucket, source.prefix],
        {"s3": described},
        SecretKeys(secret.name, {key: key for key in keys}, {session: session}) if secret else None,
    )


def _oci(source: OCI) -> Source:
    secret = source.auth_secret
    return _build_source(
        source.reference,
        source.size_gib,
        ["OCI", source.reference],
        {"oci": {"reference": source.reference, "plainHTTP": source.plain_http, "mirrors": source.mirrors}},
        SecretKeys(secret.name, {"DOCKER_CONFIG": secret.key}) if secret else None,
    )


def _ngc(source: NGC) -> Source:
    described = {
        "org": source.org,
        "team": source.team or "",
        "model": source.model,
        "version": source.version,
    }
    secret = source.auth_secret
    return _build_source(
        "/".join(filter(None, (source.org, source.team, source.model))) + f":{source.version}",
        source.size_gib,
        ["NGC", *described.values()],
        {"ngc": {**described, "mirrors": source.mirrors}},
        SecretKeys(secret.name, {"NGC_API_KEY": secret.key}) if secret else None,
    )


def _claimed_volume(source: ClaimedVolume) -> Source:
    return _build_source(
        f'PersistentVolumeClaim "{source.claim_name}"',
        source.size_gib,
        ["PersistentVolumeClaim", source.claim_name, source.path],
        {"volume": {"path": source.path or ""}},
        claim=source.claim_name,
    )


_SOURCES: Final[Mapping[type, Callable[[Any], Source]]] = {
    HuggingFace: _hugging_face,
    HTTP: _http,
    S3: _s3,
    OCI: _oci,
    NGC: _ngc,
    ClaimedVolume: _claimed_volume,
}
"""The maker of each field's source."""


def _build_source(
    name: str,
    size_gib: int | None,
    content: object,
    described: Object,
    secret: SecretKeys | None = None,
    *,
    claim: str = "",
) -> Source:
    """Return a source of the program that is not for the Hugging Face hub."""
    artifact = hash_content(content)[:16]
    return Source(
        name=name,
        size_gib=size_gib or 0,
        artifact=artifact,
        command=("python", "-c", SOURCES_PROGRAM, PATH, MARKER, str(HOPELESS)),
        variables={"SOURCE": _encode(described), "ARTIFACT": artifact, "LIMIT": str((size_gib or 0) * _GIB)},
        described=described,
        secret=secret,
        claim=claim,
    )


def _encode(described: Object | tuple[str, ...]) -> str:
    """Return a source for a variable. No field of it may have $, because $(NAME) there is replaced."""
    return msgspec.json.encode(described, order="sorted").decode()


def hash_content(content: object) -> str:
    """Return the hash of some content."""
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()
