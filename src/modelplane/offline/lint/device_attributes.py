"""Attributes and capacities that no device can have."""

import re
from collections.abc import Iterator
from typing import Final

from modelplane.api.meta import GROUP
from modelplane.api.model_deployment import ModelDeployment
from modelplane.offline.files.diagnostics import quote
from modelplane.offline.lint.advice import Advice, walk_members


def check(deployment: ModelDeployment) -> Iterator[Advice]:
    """Warn of attributes that no device can have."""
    for path, _, member in walk_members(deployment):
        for index, request in enumerate(member.node_selector.devices if member.node_selector else ()):
            for number, selector in enumerate(request.selectors):
                where = (*path, "nodeSelector", "devices", index, "selectors", number, "cel")
                messages = dict.fromkeys(filter(None, map(_impossible, re.finditer(_READ, selector.cel))))
                yield from (Advice(where, message) for message in messages)


_READ: Final = (
    r"""device\s*\.\s*(?P<of>attributes|capacity)\s*\[\s*(["'])(?P<domain>[^"']*)\2\s*\]"""
    r"""\s*(?:\.\s*(?P<name>\w+)|\[\s*(["'])(?P<key>[^"']*)\5\s*\])?"""
)
_IDENTIFIER: Final = "[A-Za-z_][A-Za-z0-9_]{0,31}"


def _impossible(reading: re.Match[str]) -> str | None:
    """Return the reason why no device has an attribute that a selector reads; None if one may."""
    what, domain, name = reading["of"], reading["domain"], reading["name"] or reading["key"] or ""
    if "/" in domain:
        driver, _, rest = domain.partition("/")
        return f"{quote(domain)} is not the domain of a driver: write device.{what}[{quote(driver)}].{rest}"
    if name and not re.fullmatch(_IDENTIFIER, name):
        return f"{quote(name)} is not an identifier, so no device has this attribute: use the driver's name"
    if domain == GROUP:
        return (
            f"no driver publishes {what} of {quote(domain)}, so the selector matches no device: use an "
            "attribute that the driver publishes, or a Synthetic device"
        )
    return None
