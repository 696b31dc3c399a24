"""Objects that install the packages of Modelplane under Crossplane, dependencies first.

The Configuration alone would do, because Crossplane installs its dependencies. They are listed here so that
their versions and the provider's options are visible and can be changed.
"""

from modelplane import __version__
from modelplane.crossplane.package.metadata import (
    CONFIGURATION,
    FUNCTION,
    Document,
    PackageKind,
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


def build_installation() -> tuple[Document, ...]:
    """Return the options of provider-kubernetes, both providers, the function and the Configuration."""
    registry, tag = Registry(), Version(__version__).tag
    function, configuration = registry.address(FUNCTION), registry.address(CONFIGURATION)
    provider = _package(
        PackageKind.PROVIDER,
        installed_name(PROVIDER_KUBERNETES),
        f"{PROVIDER_KUBERNETES}:{PROVIDER_VERSION.tag}",
        runtimeConfigRef={"name": _RUNTIME_CONFIG},
    )
    container = {"name": "package-runtime", "args": list(_PROVIDER_OPTIONS)}
    pods = {"selector": {}, "template": {"spec": {"containers": [container]}}}
    return (
        {
            "apiVersion": "pkg.crossplane.io/v1beta1",
            "kind": "DeploymentRuntimeConfig",
            "metadata": {"name": _RUNTIME_CONFIG},
            "spec": {"deploymentTemplate": {"spec": pods}},
        },
        provider,
        _package(PackageKind.PROVIDER, installed_name(PROVIDER_HELM), f"{PROVIDER_HELM}:{HELM_VERSION.tag}"),
        _package(PackageKind.FUNCTION, installed_name(function), f"{function}:{tag}"),
        _package(PackageKind.CONFIGURATION, "modelplane", f"{configuration}:{tag}"),
    )


def _package(kind: PackageKind, name: str, address: str, **options: object) -> Document:
    return {
        "apiVersion": "pkg.crossplane.io/v1",
        "kind": str(kind),
        "metadata": {"name": name},
        "spec": {"package": address, **options},
    }
