"""Helm's storage on a cluster, a Secret for each revision of a release, and the step that follows from it.

It is the only state: what is installed, for whom, and whether Helm was interrupted. Each revision that
Modelplane makes has its labels. The functions are pure.
"""

import base64
import binascii
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import msgspec

from modelplane.api import labels
from modelplane.controllers.helm.instruction import ReleaseId

SELECTOR: Final = "owner=helm"
"""Selects the Secrets of Helm's storage, by the label that Helm sets."""

DEPLOYED: Final = "deployed"
SUPERSEDED: Final = "superseded"
FAILED: Final = "failed"
UNINSTALLED: Final = "uninstalled"
UNINSTALLING: Final = "uninstalling"

_LARGEST = 64 << 20
"""Largest unpacked revision, in bytes: a cluster may send anything."""


@dataclass(frozen=True, slots=True)
class Revision:
    """One revision of a release."""

    number: int
    status: str
    secret: str
    """The Secret that it is stored in."""
    labels: Mapping[str, str]

    @property
    def digest(self) -> str:
        """The hash of the instruction that it was made from; empty if it is not Modelplane's."""
        return self.labels.get(labels.APPLIED, "")


@dataclass(frozen=True, slots=True)
class History:
    """The stored revisions of one release, at least one, the oldest first."""

    id: ReleaseId
    revisions: tuple[Revision, ...]

    @property
    def last(self) -> Revision:
        """The last revision."""
        return self.revisions[-1]

    @property
    def owner_uid(self) -> str:
        """The uid of the owner that the release is made for; empty if it is not Modelplane's."""
        return self.last.labels.get(labels.RELEASE_OWNER, "")

    @property
    def key(self) -> str:
        """The key of the child that it is."""
        return self.last.labels.get(labels.CHILD, "")

    @property
    def good(self) -> Revision | None:
        """The last revision that worked, which a failed upgrade goes back to."""
        for status in (DEPLOYED, SUPERSEDED):
            for revision in reversed(self.revisions):
                if revision.status == status:
                    return revision
        return None

    @property
    def is_deployed(self) -> bool:
        """True if a revision is in effect, beside a later one that may have failed."""
        return self.last.status != UNINSTALLING and any(
            revision.status == DEPLOYED for revision in self.revisions
        )


@dataclass(frozen=True, slots=True)
class Details:
    """Details of a stored revision that its metadata lack."""

    first_deployed: str = ""
    description: str = ""
    chart: str = ""
    version: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    """The values that it was installed with, over those of its chart."""


def histories(secrets: Iterable[Mapping[str, Any]]) -> dict[ReleaseId, History]:
    """Return the releases that Secrets store; only their metadata is read."""
    found: dict[ReleaseId, list[Revision]] = defaultdict(list)
    for secret in secrets:
        metadata = secret["metadata"]
        said = metadata.get("labels", {})
        name, number = said.get("name", ""), said.get("version", "")
        if not name or not number.isdecimal():
            continue  # not a revision of Helm's
        revision = Revision(int(number), said.get("status", ""), metadata["name"], said)
        found[ReleaseId(metadata["namespace"], name)].append(revision)
    return {
        release: History(release, tuple(sorted(revisions, key=lambda stored: stored.number)))
        for release, revisions in found.items()
    }


def details_of(secret: Mapping[str, Any]) -> Details:
    """Return the details of a stored revision; empty ones if it cannot be read."""
    try:
        packed = base64.b64decode(base64.b64decode(secret["data"]["release"]))
        unpacked = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(packed, _LARGEST)
        content = msgspec.json.decode(unpacked, type=_Content)
    except (KeyError, binascii.Error, zlib.error, msgspec.MsgspecError):
        return Details()
    chart = content.chart.metadata
    info = content.info
    return Details(info.first_deployed, info.description, chart.name, chart.version, content.config or {})


class _Info(msgspec.Struct):
    first_deployed: str = ""
    description: str = ""


class _ChartMetadata(msgspec.Struct):
    name: str = ""
    version: str = ""


class _Chart(msgspec.Struct):
    metadata: _ChartMetadata = msgspec.field(default_factory=_ChartMetadata)


class _Content(msgspec.Struct):
    info: _Info = msgspec.field(default_factory=_Info)
    chart: _Chart = msgspec.field(default_factory=_Chart)
    config: dict[str, Any] | None = None


class Action(StrEnum):
    """A run of Helm; the value is the reason in conditions."""

    INSTALL = "Installing"
    UPGRADE = "Upgrading"
    ROLL_BACK = "RollingBack"
    """Back to the last revision that worked, after a failed or an interrupted upgrade."""
    CLEAR = "Repairing"
    """Remove what an interrupted installation left, to install it again."""
    UNINSTALL = "Uninstalling"

    @property
    def verb(self) -> str:
        """The action in messages."""
        return _VERBS[self]


_VERBS = {
    Action.INSTALL: "install",
    Action.UPGRADE: "upgrade",
    Action.ROLL_BACK: "roll back",
    Action.CLEAR: "remove the interrupted",
    Action.UNINSTALL: "uninstall",
}


@dataclass(frozen=True, slots=True)
class Step:
    """A run of Helm, and the revision that it goes back to, if it does."""

    action: Action
    revision: int = 0


def next_step(digest: str, history: History | None) -> Step | None:
    """Return the next step towards an instruction with a digest; None if nothing is to be done.

    No helm process may be at work on the release: a pending revision is then one that was interrupted.
    """
    if history is None or history.last.status == UNINSTALLED:
        return Step(Action.INSTALL)
    last, good = history.last, history.good
    if last.status == UNINSTALLING:
        return Step(Action.UNINSTALL)
    if last.status.startswith("pending-"):
        return Step(Action.ROLL_BACK, good.number) if good else Step(Action.CLEAR)
    if last.status == FAILED and last.digest == digest and good:
        return Step(Action.ROLL_BACK, good.number)
    if last.status == DEPLOYED and last.digest == digest:
        return None
    return Step(Action.UPGRADE)
