"""Scrape configuration for the operator of Prometheus, if a cluster has it (ServiceMonitor)."""

from modelplane.install import pods
from modelplane.install.identity import INSTALLATION, PART_OF, metadata
from modelplane.install.options import Options
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
                "endpoints": [{"port": pods.METRICS}],
            },
        }
    ]
