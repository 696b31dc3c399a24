"""Hosts in URLs."""


def authority(host: str, port: int = 80) -> str:
    """Return the authority of an http URL: host and port (RFC 3986, section 3.2)."""
    host = f"[{host}]" if ":" in host else host
    return host if port == 80 else f"{host}:{port}"
