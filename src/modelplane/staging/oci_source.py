"""The layers of an artifact in a registry (OCI distribution specification 1.1, image manifests).

A layer is a file, which its title names (as ORAS and ModelPack write them), or an archive of files. The
digest of the manifest pins the content, and every layer has a digest.
"""

import base64
import hashlib
import http.client
import json
import re
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from modelplane.staging.checksums import Checksum
from modelplane.staging.stage import BLOCK, MOST_FILES, File, Stage, safe
from modelplane.staging.web import Damaged, Hopeless, Interrupted, Unauthorized, ask, described, patiently

MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
TITLES = ("org.opencontainers.image.title", "org.cncf.model.filepath")


class Registry:
    """A repository of a registry, and the tokens for it."""

    def __init__(self, source: dict[str, Any], secret: dict[str, str]) -> None:
        host, _, rest = source["reference"].partition("/")
        name, _, self._digest = rest.partition("@")
        self._name, _, tag = name.partition(":")
        self._version = self._digest or tag or "latest"
        scheme = "http" if source.get("plainHTTP") else "https"
        self._url = f"{scheme}://{'registry-1.docker.io' if host == 'docker.io' else host}/v2/{self._name}"
        self._account = _account(host, secret.get("DOCKER_CONFIG", ""))
        self._headers: dict[str, str] = {}

    def ask(self, path: str, headers: dict[str, str]) -> http.client.HTTPResponse:
        """Return an answer, after asking for a token if one is needed."""
        url = f"{self._url}/{path}"
        try:
            return ask(url, headers, self._headers)
        except Unauthorized as error:
            self._headers = self._authorization(error)
        return ask(url, headers, self._headers)

    def _authorization(self, error: Unauthorized) -> dict[str, str]:
        asked = error.headers.get("WWW-Authenticate", "")
        kind, _, rest = asked.partition(" ")
        basic = {"Authorization": f"Basic {self._account}"} if self._account else {}
        if kind.lower() != "bearer":
            if not basic or self._headers == basic:
                raise error
            return basic
        wanted = dict(re.findall(r'(\w+)="([^"]*)"', rest))
        realm = wanted.get("realm", "")
        if urlsplit(realm).scheme != "https" and not realm.startswith(self._url.partition("/v2/")[0] + "/"):
            raise Hopeless("the registry sends credentials to a server without HTTPS, which is not followed")
        query = {"service": wanted.get("service", ""), "scope": f"repository:{self._name}:pull"}
        with ask(f"{realm}?{urlencode(query)}", {}, basic) as answer:
            body = _object(described(answer), "token")
        return {"Authorization": f"Bearer {body.get('token') or body.get('access_token')}"}

    def manifest(self) -> tuple[dict[str, Any], str]:
        """Return the manifest, and its digest."""
        return patiently(self._manifest)

    def _manifest(self) -> tuple[dict[str, Any], str]:
        with self.ask(f"manifests/{self._version}", {"Accept": ", ".join(MANIFESTS)}) as answer:
            body = described(answer)
        found = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if self._digest and found != self._digest:
            raise Damaged(f"the manifest has the digest {found}, and must have {self._digest}")
        manifest = _object(body, "manifest")
        if not isinstance(manifest.get("layers"), list):
            raise Hopeless(
                "the reference names no single artifact: name one manifest, by its digest if need be"
            )
        return manifest, found

    def blob(self, path: Path, layer: dict[str, Any], *, packed: bool = False) -> File:
        """Return a layer as a file."""
        digest = str(layer.get("digest"))
        algorithm, _, wanted = digest.partition(":")
        if algorithm != "sha256" or not re.fullmatch("[0-9a-f]{64}", wanted):
            raise Hopeless(f"the digest {digest[:80]!a} is no SHA-256")
        return File(
            path=path,
            size=int(layer.get("size", -1)),
            open=lambda offset: self.ask(f"blobs/{digest}", {"Range": f"bytes={offset}-"} if offset else {}),
            checksum=lambda _answer: Checksum("sha256", wanted),
            packed=packed,
        )


def fill_from_registry(layers: Iterable[dict[str, Any]], registry: Registry, stage: Stage) -> None:
    """Download the layers of an artifact, and unpack those that are archives."""
    files, archives = [], []
    for number, layer in enumerate(layers):
        notes, kind = layer.get("annotations") or {}, str(layer.get("mediaType", ""))
        title = next((str(notes[key]) for key in TITLES if key in notes), "")
        if kind.endswith(("tar", "tar+gzip", "tar.gzip")):
            archives.append(registry.blob(Path(f".archive-{number}"), layer, packed=True))
        elif title and not kind.endswith("zstd"):
            files.append(registry.blob(safe(title), layer))
        else:
            raise Hopeless(
                f"layer {number} of type {kind[:255]!a} is neither a file with a title nor a tar archive"
            )
    stage.fetch([*files, *archives])
    for archive in archives:
        packed = stage.folder / archive.path
        unpack(packed, stage)
        packed.unlink()


def sizes_of_registry(layers: Iterable[dict[str, Any]]) -> list[int]:
    """Return the size of each layer, and as much again for the files of an archive."""
    archives = ("tar", "tar+gzip", "tar.gzip")
    return [int(layer["size"]) * (1 + str(layer.get("mediaType")).endswith(archives)) for layer in layers]


def unpack(packed: Path, stage: Stage) -> None:
    """Unpack an archive of plain files."""
    count = 0
    try:
        with tarfile.open(packed, "r:*") as archive:
            for member in archive:
                if member.isdir():
                    continue
                count += 1
                if not member.isfile() or count > MOST_FILES:
                    what = (
                        f"more than {MOST_FILES} files"
                        if member.isfile()
                        else f"{member.name[:255]!a}, no file"
                    )
                    raise Hopeless(f"an archive of the artifact has {what}")
                target = stage.folder / safe(member.name.removeprefix("./"))
                target.parent.mkdir(parents=True, exist_ok=True)
                content = archive.extractfile(member)
                with target.open("wb") as written:
                    while content and (block := content.read(BLOCK)):
                        stage.spend(len(block))
                        written.write(block)
    except (tarfile.TarError, EOFError) as error:
        raise Hopeless(f"an archive of the artifact cannot be read: {error}") from error


def _account(host: str, configuration: str) -> str:
    """Return the account for a registry in Docker's configuration, as Basic authentication has it."""
    if not configuration:
        return ""
    found = _object(configuration.encode(), "Docker configuration").get("auths") or {}
    keys = (host, f"https://{host}", *(["https://index.docker.io/v1/"] if host == "docker.io" else []))
    account: dict[str, str] = next((found[key] for key in keys if key in found), {})
    if not account:
        raise Hopeless(f"the Secret has no account for {host}")
    plain = f"{account.get('username', '')}:{account.get('password', '')}"
    return str(account.get("auth") or base64.b64encode(plain.encode()).decode())


def _object(body: bytes, what: str) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Interrupted(f"the {what} is no JSON object")
    return found
