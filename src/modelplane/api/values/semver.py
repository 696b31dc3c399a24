"""Versions such as `9.0.0`, parsed and ordered as in Kubernetes' CEL library (semver 2.0.0).

A version has three numbers, no `v`, no leading zeros; only the normalizing form accepts others.

Sources: k8s.io/apiserver v0.35 `library/semverlib.go`, which parses with blang/semver v4. Build metadata is
checked and then ignored, in equality too. Numbers are unsigned 64-bit.
"""

import re
from dataclasses import dataclass
from functools import lru_cache, total_ordering
from typing import Final

_NUMBER: Final = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_IDENTIFIER: Final = re.compile(r"[0-9A-Za-z-]+", re.ASCII)
_MAX_UINT64: Final = 2**64 - 1


class SemverError(ValueError):
    """A text that is not a version; the message names the text."""


@total_ordering
@dataclass(frozen=True, slots=True)
class Semver:
    """A version. `prerelease` holds numbers and identifiers, in order; a release has none."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[int | str, ...] = ()

    def __lt__(self, other: "Semver") -> bool:
        return self._key() < other._key()

    def _key(self) -> tuple[object, ...]:
        # Semver 2.0.0, clause 11: a release follows its prereleases; a number precedes an identifier.
        identifiers = tuple(
            (1, 0, part) if isinstance(part, str) else (0, part, "") for part in self.prerelease
        )
        return (self.major, self.minor, self.patch, not self.prerelease, identifiers)


@lru_cache(maxsize=1024)
def parse(text: str, *, normalize: bool = False) -> Semver:
    """Return the version that the text denotes. Raises SemverError.

    `normalize` drops one leading `v` and leading zeros and fills in a missing minor and patch.
    """
    parts = (_normalized(text) if normalize else text).split(".", 2)
    if len(parts) != 3:
        raise SemverError(f'"{text}" is not a version: write major.minor.patch, such as 9.0.0')
    release, plus, build = parts[2].partition("+")
    patch, dash, prerelease = release.partition("-")
    if plus:
        for identifier in build.split("."):
            if not _IDENTIFIER.fullmatch(identifier):
                raise SemverError(f'"{text}" is not a version: its build part "{build}" is malformed')
    return Semver(
        _number(text, parts[0]),
        _number(text, parts[1]),
        _number(text, patch),
        tuple(_identifier(text, part) for part in prerelease.split(".")) if dash else (),
    )


def _number(text: str, part: str) -> int:
    if not _NUMBER.fullmatch(part):
        raise SemverError(f'"{text}" is not a version: "{part}" is not a number without leading zeros')
    # The bound is 20 digits long; a longer text is not converted at all.
    if len(part) > 20 or int(part) > _MAX_UINT64:
        raise SemverError(f'"{text}" is not a version: "{part}" exceeds 64 bits')
    return int(part)


def _identifier(text: str, part: str) -> int | str:
    if part.isascii() and part.isdecimal():
        return _number(text, part)
    if not _IDENTIFIER.fullmatch(part):
        raise SemverError(f'"{text}" is not a version: its prerelease part "{part}" is malformed')
    return part


def _normalized(text: str) -> str:
    parts = [_without_leading_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and set("+-") & set(parts[-1]):
        raise SemverError(f'"{text}" is not a version: a short one cannot have a prerelease or build part')
    return ".".join(parts + ["0"] * (3 - len(parts)))


def _without_leading_zeros(part: str) -> str:
    if len(part) <= 1:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped[:1].isascii() and stripped[:1].isdecimal() else "0" + stripped
