"""Kubernetes' format library: `format.dns1123Label().validate(text)` gives what is wrong with a text.

Sources: k8s.io/apiserver v0.35 `pkg/cel/library/format.go`; k8s.io/apimachinery v0.35 `validation`,
`util/validation`; k8s.io/kube-openapi `strfmt`. The sentences differ from Kubernetes'; that there are any
does not.
"""

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from modelplane.cel import optional, values
from modelplane.cel.functions import urls
from modelplane.cel.functions.overload import Overload, overload
from modelplane.cel.optional import Optional

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_TIME: Final = re.compile(r"(\d\d):(\d\d):(\d\d)(?:.\d+)?(?:z|[+-]\d\d:\d\d)", re.ASCII)
_BASE64: Final = re.compile(
    r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})", re.ASCII
)
_UUID: Final = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Format(values.Opaque):
    """A named format. `pattern_size` is the length of the regular expression that a check is charged for."""

    name: str
    valid: Callable[[str], bool]
    pattern_size: int
    kind = "kubernetes.NamedFormat"

    def validate(self, text: str) -> Optional:
        """Return what is wrong with the text, or nothing."""
        return optional.ABSENT if self.valid(text) else optional.of([f'"{text}" is not a {self.name}'])


def _written(pattern: str, longest: int, *, prefix: bool = False) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.ASCII)

    def valid(text: str) -> bool:
        # A prefix may end in a dash, where the generated rest of a name would follow; the one before is not
        # looked at there either.
        checked = f"{text[:-2]}a" if prefix and len(text) > 1 and text.endswith("-") else text
        return len(checked.encode()) <= longest and compiled.fullmatch(checked) is not None

    return valid


def _qualified_name(text: str) -> bool:
    domain, slash, name = text.rpartition("/")
    if slash and not _written(_SUBDOMAIN, 253)(domain):
        return False
    return _written(_NAME, 63)(name)


def _date(text: str) -> bool:
    try:
        dt.date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == 10


def _date_time(text: str) -> bool:
    # What follows a second T is not looked at there.
    date, *rest = text.lower().split("t")
    found = _TIME.fullmatch(rest[0]) if rest else None
    return found is not None and _date(date) and all(map(int.__lt__, map(int, found.groups()), (24, 60, 60)))


_FORMATS: Final = {
    "dns1123Label": Format("DNS1123Label", _written(_LABEL, 63), 30),
    "dns1123Subdomain": Format("DNS1123Subdomain", _written(_SUBDOMAIN, 253), 60),
    "dns1035Label": Format("DNS1035Label", _written("[a-z]([-a-z0-9]*[a-z0-9])?", 63), 30),
    "qualifiedName": Format("QualifiedName", _qualified_name, 60),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", _written(_LABEL, 63, prefix=True), 30),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", _written(_SUBDOMAIN, 253, prefix=True), 60),
    "dns1035LabelPrefix": Format(
        "DNS1035LabelPrefix", _written("[a-z]([-a-z0-9]*[a-z0-9])?", 63, prefix=True), 30
    ),
    "labelValue": Format("LabelValue", _written(f"({_NAME})?", 63), 40),
    "uri": Format("URI", urls.is_url, 1103),
    "uuid": Format("uuid", lambda text: _UUID.fullmatch(text) is not None, 70),
    "byte": Format("byte", lambda text: _BASE64.fullmatch(text) is not None, 84),
    "date": Format("date", _date, 71),
    "datetime": Format("datetime", _date_time, 71),
}

_FORMAT: Final = Format.kind


OVERLOADS: Final[tuple[Overload, ...]] = (
    *(
        overload(f"format.{name}", (), lambda found=found: found, _FORMAT, f"format.{name}")
        for name, found in _FORMATS.items()
    ),
)

# Beside the compiler's own type of optionals it cannot name ours, so `restrictions` looks at the receiver.
MERGED: Final[tuple[Overload, ...]] = (
    overload("validate", ("dyn", "string"), Format.validate, "optional<dyn>", "format-validate", member=True),
)
