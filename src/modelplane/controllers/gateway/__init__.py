"""Control loops about the gateway: its routes, its keys, its certificates."""
