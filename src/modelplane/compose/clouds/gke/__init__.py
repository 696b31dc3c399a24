"""Google Kubernetes Engine."""
