"""Gateway configuration: routes of services and endpoints, as Envoy or Gateway API resources."""
