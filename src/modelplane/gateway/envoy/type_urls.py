"""Type URLs of Envoy's messages: each typed configuration names its type by one."""

ENVOY = "type.googleapis.com/envoy."
CONFIG = f"{ENVOY}config."
HTTP_FILTERS = f"{ENVOY}extensions.filters.http."
RESOURCE_MONITORS = f"{ENVOY}extensions.resource_monitors."
