"""The Gateway API: routes and pools of clusters, and routes of services."""
