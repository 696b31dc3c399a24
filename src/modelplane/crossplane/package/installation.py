"""Installation: the objects that an operator applies to install the packages.

The Configuration alone would do, because Crossplane installs its dependencies. They are listed here so that
their versions and the provider's options are visible and can be changed.
"""

import textwrap

from modelplane import __version__
from modelplane.crossplane.package.documents import Document, to_yaml
from modelplane.crossplane.package.metadata import PackageKind
from modelplane.crossplane.package.package_addresses import (
    CONFIGURATION,
    FUNCTION,
    Registry,
    Version,
    installed_name,
)
from modelplane.crossplane.package.package_contents import (
    HELM_VERSION,
    PROVIDER_HELM,
    PROVIDER_KUBERNETES,
    PROVIDER_VERSION,
)

_RUNTIME_CONFIG = "modelplane-provider-kubernetes"
_PROVIDER_OPTIONS = ("--enable-watches", "--sanitize-secrets")


_OPTIONS_PURPOSE = (
    "The provider's options: watch what is on inference clusters, and keep the data of Secrets out of the "
    "status of Objects."
)
_PROVIDER_PURPOSE = (
    "The provider, which writes to inference clusters. Leave it out where it is installed already: "
    "Crossplane refuses a second one under another name."
)
_HELM_PURPOSE = (
    "The provider that installs the charts of serving stacks on inference clusters. Leave it out where it is "
    "installed already."
)
_FUNCTION_PURPOSE = (
    "The function, which composes every kind. Compositions call it by this name, which Crossplane derives "
    "from the address."
)
_CONFIGURATION_PURPOSE = "The Configuration: Modelplane's kinds, and their Compositions."


def installation() -> tuple[Document, ...]:
    """Return the provider with its options, the function and the Configuration, dependencies first."""
    return tuple(document for _, document in _explained())


def manifest() -> str:
    """Return them as YAML, each below a comment with its purpose."""
    return "---\n".join(f"{_comment(purpose)}{to_yaml(document)}" for purpose, document in _explained())


def _explained() -> tuple[tuple[str, Document], ...]:
    registry, tag = Registry(), Version(__version__).tag
    function, configuration = registry.address(FUNCTION), registry.address(CONFIGURATION)
    provider = _package(
        PackageKind.PROVIDER,
        installed_name(PROVIDER_KUBERNETES),
        f"{PROVIDER_KUBERNETES}:{PROVIDER_VERSION.tag}",
        runtimeConfigRef={"name": _RUNTIME_CONFIG},
    )
    helm = f"{PROVIDER_HELM}:{HELM_VERSION.tag}"
    return (
        (_OPTIONS_PURPOSE, _runtime_config()),
        (_PROVIDER_PURPOSE, provider),
        (_HELM_PURPOSE, _package(PackageKind.PROVIDER, installed_name(PROVIDER_HELM), helm)),
        (_FUNCTION_PURPOSE, _package(PackageKind.FUNCTION, installed_name(function), f"{function}:{tag}")),
        (
            _CONFIGURATION_PURPOSE,
            _package(PackageKind.CONFIGURATION, "modelplane", f"{configuration}:{tag}"),
        ),
    )


def _package(kind: PackageKind, name: str, address: str, **options: object) -> Document:
    return {
        "apiVersion": "pkg.crossplane.io/v1",
        "kind": str(kind),
        "metadata": {"name": name},
        "spec": {"package": address, **options},
    }


def _runtime_config() -> Document:
    container = {"name": "package-runtime", "args": list(_PROVIDER_OPTIONS)}
    pods = {"selector": {}, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": "pkg.crossplane.io/v1beta1",
        "kind": "DeploymentRuntimeConfig",
        "metadata": {"name": _RUNTIME_CONFIG},
        "spec": {"deploymentTemplate": {"spec": pods}},
    }


def _comment(text: str) -> str:
    return "".join(f"# {line}\n" for line in textwrap.wrap(text, 100))
