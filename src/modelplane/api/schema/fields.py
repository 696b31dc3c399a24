"""Descriptions and constraints of fields, in addition to their Python types.

A type annotation carries everything that the API server must know: the text of ``kubectl explain``, limits,
list semantics and CEL rules. The CRDs, the reference pages and the decoder are all derived from it.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
"""RFC 1123 label: names of Services, containers, device requests."""

DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
"""RFC 1123 subdomain: names of most Kubernetes objects."""

DRIVER_NAME = r"^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*$"
"""DRA driver name: a DNS subdomain in which Kubernetes lets capitals pass."""

QUALIFIED_NAME = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)
"""Key of a label, an annotation or a taint, its prefix included."""

LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
"""Value of a label or of a taint."""

SECRET_KEY = r"^\.?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$"  # noqa: S105  the form of a key, not a secret
"""Key of a Secret's or ConfigMap's data: one that begins with two dots could not be mounted."""

VERSION = r"^[A-Za-z0-9][-A-Za-z0-9_.+]*$"
"""Version as a cloud or a chart writes it: 1.35, v1.36.1+3, 41.3.0."""

SPACES = r"\x00-\x20\x7f-\xa0"
"""Spaces and control characters, inside a class. Python and the API server read \\s differently: an object
with a vertical tab would be stored, and could not be read."""

CIDR = r"^([0-9]{1,3}\.){3}[0-9]{1,3}/[0-9]{1,2}$"
"""Range of IPv4 addresses."""

QUANTITY = r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$"
"""Kubernetes quantity (apimachinery, resource.Quantity) that is not negative."""

SEMVER = (
    r"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$"
)
"""Semantic version 2.0.0, all three parts given."""

_DOMAIN_PART = "[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?"
_PATH_PART = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
IMAGE = (
    rf"^(({_DOMAIN_PART}(\.{_DOMAIN_PART})*|\[[0-9A-Fa-f:]+\])(:[0-9]+)?/)?{_PATH_PART}(/{_PATH_PART})*"
    r"(:[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?"
    r"(@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,})?$"
)
"""Reference of a container image (OCI distribution specification; distribution/reference, its grammar)."""

MAX_IMAGE = 512
"""Characters of an image's reference: a name has 255 at most, a tag 128, a digest 71."""

MOMENT = Meta(extra_json_schema={"maxLength": 35})
"""A time with nine digits of a second and a zone has 35 characters."""

FORMS = {
    CIDR: "a CIDR",
    DNS_LABEL: "a DNS label",
    DNS_SUBDOMAIN: "a DNS subdomain",
    DRIVER_NAME: "a driver's name",
    LABEL_VALUE: "a label value",
    QUALIFIED_NAME: "a label key",
    QUANTITY: "a quantity",
    SECRET_KEY: "a Secret's key",
    SEMVER: "a semantic version",
    VERSION: "a version",
}
"""Names for people of the formats that several fields share."""


class Rule(msgspec.Struct, frozen=True):
    """A CEL rule over one value, and the message if it does not hold."""

    expression: str
    message: str
    field_path: str = ""

    def build_schema(self) -> dict[str, str]:
        """Return the rule as an item of ``x-kubernetes-validations``."""
        item = {"rule": self.expression, "message": self.message}
        if self.field_path:
            item["fieldPath"] = self.field_path
        return item


QUALIFIED_KEYS = Rule(
    "self.all(key, !format.qualifiedName().validate(key).hasValue())",
    "a key has at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends, "
    "after an optional DNS subdomain and a slash",
)
"""On a map whose keys are those of labels or annotations; CEL wants its size bounded."""

IMAGE_RULE = Rule(
    f"self.matches(r'{IMAGE}')",
    "not an image reference: write REGISTRY/REPOSITORY:TAG, the repository in lower case",
)
"""On a text. A rule and no pattern, so that an image that is stored already can still be read."""


def about(  # noqa: PLR0913  one keyword for each thing a schema can say
    description: str,
    *,
    ge: int | None = None,
    le: int | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    pattern: str | None = None,
    keys: Sequence[str] = (),
    atomic: bool = False,
    whole: bool = False,
    unique: bool = False,
    rules: Sequence[Rule] = (),
    any_of: Sequence[Mapping[str, Any]] = (),
) -> Meta:
    """Describe a field.

    Lengths count characters of a string, items of a list or keys of a map. ``keys`` makes a list
    a map keyed by those fields, ``atomic`` one that is replaced whole, ``unique`` a set: how
    server-side apply merges it (Kubernetes API conventions, "list type"). ``whole`` makes an object
    one that is replaced and removed whole, with its defaults. ``any_of`` lists schemas of which one
    must hold, for a value without one type, which CEL cannot see.
    """
    limits = {
        "ge": ge,
        "le": le,
        "min_length": min_length,
        "max_length": max_length,
        "pattern": pattern,
    }
    extensions: dict[str, Any] = {}
    if keys:
        extensions |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
    elif atomic:
        extensions["x-kubernetes-list-type"] = "atomic"
    elif unique:
        extensions["x-kubernetes-list-type"] = "set"
    if whole:
        extensions["x-kubernetes-map-type"] = "atomic"
    if rules:
        extensions["x-kubernetes-validations"] = [rule.build_schema() for rule in rules]
    if any_of:
        extensions["anyOf"] = list(any_of)
    given: dict[str, Any] = {name: limit for name, limit in limits.items() if limit is not None}
    return Meta(description=description, extra_json_schema=extensions or None, **given)


LabelValue = Annotated[str, about("Value of a label.", max_length=63, pattern=LABEL_VALUE)]
