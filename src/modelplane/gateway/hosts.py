"""Hosts as URLs have them."""


def authority(host: str, port: int = 80) -> str:
    """Return what stands for a host and its port in a URL of scheme http (RFC 3986, section 3.2)."""
    host = f"[{host}]" if ":" in host else host
    return host if port == 80 else f"{host}:{port}"
