"""Plans: where deployments are placed on a fleet of files."""
