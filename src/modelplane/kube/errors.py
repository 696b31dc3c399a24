"""Errors of an API server.

One class per answer that a caller branches on; the rest is an ``ApiError``.
Reasons are those of ``metav1.Status.reason`` (Kubernetes API conventions,
"Response Status Kind").
"""


class KubernetesError(Exception):
    """Base of every failure to get an answer from an API server."""


class Unreachable(KubernetesError):
    """No answer: refused, timed out, or broken off. ``controllers/queue.py`` tries again later."""


class Fenced(KubernetesError):
    """Not sent, by ``kube/fence.py``: this process may not write any more."""


class ApiError(KubernetesError):
    """The API server answered with a failure."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message


class NotFound(ApiError):
    """404: no such object, or no such kind."""

    def is_of_namespace(self, name: str) -> bool:
        """Return True if a namespace is missing that an object was to be written into."""
        return bool(name) and f'namespaces "{name}" not found' in self.message


class NotInstalled(NotFound):
    """404, and by its own word the API server has no such kind."""

    def __init__(self, kind: str, api_version: str) -> None:
        message = f"kind {kind} of {api_version} is not installed: apply its CustomResourceDefinition"
        super().__init__(404, "NotInstalled", message)


class Conflict(ApiError):
    """409: another writer was first (``controllers/queue.py`` repeats the reconcile), or owns a field
    (``controllers/child_writer.py`` reports it, or forces the apply)."""


class Gone(ApiError):
    """410: the resource version is too old; ``kube/informer.py`` lists again."""


class Invalid(ApiError):
    """400 or 422: the object was refused; ``child_writer`` reports it in the owner's condition Synced."""


class Forbidden(ApiError):
    """401 or 403: this identity may not do that; reported as ``Invalid`` is."""


UNAUTHORIZED = "the API server does not accept the credential, which may have expired"
"""The message in place of "Unauthorized", which is all that an API server says."""

_BY_CODE: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
}


def from_status(code: int, reason: str, message: str) -> ApiError:
    """Return the error for one answer, given its HTTP status code."""
    return _BY_CODE.get(code, ApiError)(code, reason, UNAUTHORIZED if message == "Unauthorized" else message)


def describe_error(error: Exception) -> str:
    """Return the message of an error, or its class if it has none."""
    return str(error) or type(error).__name__
