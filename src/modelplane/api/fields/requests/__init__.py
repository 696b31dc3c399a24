"""Fields about requests: prices, budgets, limits, names and regions."""
