"""Hosts in URLs."""

HTTP_PORT = 80
HTTPS_PORT = 443


def authority(host: str, port: int = HTTP_PORT, usual: int = HTTP_PORT) -> str:
    """Return the authority of a URL: host, and port unless it is the scheme's (RFC 3986, section 3.2)."""
    host = f"[{host}]" if ":" in host else host
    return host if port == usual else f"{host}:{port}"
