"""Which cluster and pool each replica of a deployment goes to, and why not the others."""
