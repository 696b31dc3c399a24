"""Files of a local fleet's certificates and keys.

Apart from the module that makes them, so that the supervisor, which only
names them, does without a library of cryptography.
"""

from dataclasses import dataclass
from pathlib import Path

AUTHORITY = "ca"
SERVICE_ACCOUNTS = "service-accounts"


@dataclass(frozen=True, slots=True)
class Pki:
    """The files of one directory of certificates."""

    directory: Path

    def find_certificate(self, name: str) -> Path:
        """Return the certificate of an identity."""
        return self.directory / f"{name}.crt"

    def find_key(self, name: str) -> Path:
        """Return the private key of an identity."""
        return self.directory / f"{name}.key"

    @property
    def authority(self) -> Path:
        """The certificate that vouches for all others."""
        return self.find_certificate(AUTHORITY)

    @property
    def service_accounts(self) -> Path:
        """The key that signs the tokens of service accounts."""
        return self.find_key(SERVICE_ACCOUNTS)
