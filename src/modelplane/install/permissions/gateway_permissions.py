"""Permissions about what the controllers publish for the gateway.

A role cannot select Secrets by their label. So the gateway's have a namespace of their own, and the gateway's
identity reads no others.
"""

from modelplane.api.meta import GATEWAY_NAMESPACE, SYSTEM_NAMESPACE
from modelplane.install.installation_names import CONTROLLER, GATEWAY, build_labels
from modelplane.install.permissions.roles import Role, Rule, build_account
from modelplane.kube.resources import Object

_READ = ("list", "watch")

PODS = (
    Rule("", ("services",), _READ, "The address of the gateway for clients."),
    Rule(
        "discovery.k8s.io",
        ("endpointslices",),
        _READ,
        "The number of the gateway's pods, which have equal parts of the limits of API keys.",
    ),
)
"""About the gateway's pods, in the namespace of the installation; for whoever publishes its configuration."""

PUBLISHER = (
    Rule("", ("secrets",), _READ, "The private part of the gateway's configuration, as it was published."),
    Rule(
        "",
        ("secrets",),
        ("create", "patch", "delete"),
        "The private part of the gateway's configuration, such as the hashes of API keys.",
        unseen="only a gateway that asks for keys has one",
    ),
    Rule("", ("configmaps",), _READ, "What each gateway has counted, for budgets of API keys."),
    Rule(
        "",
        ("configmaps",),
        ("delete",),
        "The sums of days and months that are over.",
        unseen="a day has to end",
    ),
)
"""In the namespace of the gateway's Secrets."""

COMPANION = (Rule("", ("configmaps",), _READ, "The configuration that the controllers publish for it."),)
"""For the gateway's own identity, in the namespace of the installation."""

COMPANION_PRIVATE = (
    Rule("", ("secrets",), _READ, "The private part of its configuration. No other Secrets are there."),
    Rule(
        "",
        ("configmaps",),
        ("create", "patch"),
        "What it has counted, for budgets of API keys. No other ConfigMaps are there.",
        unseen="only a gateway that asks for keys counts",
    ),
)
"""For the gateway's own identity, in the namespace of its Secrets."""


def build_roles() -> list[Object]:
    """Return the roles of an installation and their bindings."""
    publisher = Role("Role", f"{CONTROLLER}-private", PUBLISHER, build_labels("controller"))
    return [*publisher.bound_to(build_account(CONTROLLER), GATEWAY_NAMESPACE), *build_gateway_roles()]


def build_gateway_roles() -> list[Object]:
    """Return the roles of the gateway's own identity and their bindings."""
    gateway = build_labels("gateway")
    private = Role("Role", f"{GATEWAY}-private", COMPANION_PRIVATE, gateway)
    return [
        *Role("Role", GATEWAY, COMPANION, gateway).bound_to(build_account(GATEWAY), SYSTEM_NAMESPACE),
        *private.bound_to(build_account(GATEWAY), GATEWAY_NAMESPACE),
    ]
