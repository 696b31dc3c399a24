"""Files of the gateway's module: keys, models, services and credentials."""
