"""Scrape configuration for the operator of Prometheus, if a cluster has it (ServiceMonitor)."""

from modelplane.install import deployment_pods
from modelplane.install.installation_names import INSTALLATION, PART_OF, metadata
from modelplane.install.installation_options import Options
from modelplane.kube.resources import Object


def manifests(options: Options) -> list[Object]:
    """Return the monitor of every Service that has metrics."""
    if not options.service_monitor:
        return []
    return [
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "ServiceMonitor",
            "metadata": metadata("modelplane"),
            "spec": {
                "selector": {"matchLabels": {PART_OF: INSTALLATION}},
                "endpoints": [{"port": deployment_pods.METRICS}],
            },
        }
    ]
