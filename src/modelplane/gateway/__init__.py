"""Services and endpoints become routes, and routes become what a gateway reads."""
