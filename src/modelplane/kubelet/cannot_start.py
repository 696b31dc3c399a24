"""Refusal or delay of a container: the reasons, and the exception that carries a rejection."""

from enum import StrEnum

from modelplane.api.rejected import Rejected


class WaitingReason(StrEnum):
    """Reasons of a waiting container in the status of its pod, as ``kubectl`` shows them."""

    CLAIM_NOT_READY = "ClaimNotReady"
    CONFIG_ERROR = "CreateContainerConfigError"
    CREATE_ERROR = "CreateContainerError"
    ENGINE_NOT_INSTALLED = "EngineNotInstalled"
    IMAGE_NEVER_PULLED = "ErrImageNeverPull"
    IMAGE_NOT_PULLED = "ErrImagePull"
    IMAGE_PULL_BACK_OFF = "ImagePullBackOff"
    MOUNT_FAILED = "MountFailed"
    NAMESPACE_REFUSED = "NamespaceRefused"
    NO_LAUNCHER = "NoLauncher"
    PORT_IN_USE = "PortInUse"
    PULLING = "Pulling"
    RUNTIME_UNAVAILABLE = "ContainerEngineUnavailable"
    UNSUPPORTED_POD = "UnsupportedPod"
    VOLUME_NOT_READY = "VolumeNotReady"


class CannotStart(Exception):
    """A container that cannot start now; it may later."""

    def __init__(self, rejected: Rejected) -> None:
        super().__init__(rejected.message)
        self.rejected = rejected
