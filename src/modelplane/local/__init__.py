"""A fleet on one machine: control planes, controllers, node agents and Envoy, assembled and supervised."""
