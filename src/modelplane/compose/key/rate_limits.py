"""Condition of a ModelKey whose limits the rate limit service is to count."""

from modelplane.api.conditions.reasons import ModelKeyCondition
from modelplane.api.conditions.reasons import ModelKeyReason as Reason
from modelplane.api.fields.requests.key_limits import RateLimitType
from modelplane.api.inference_gateway import DEFAULT_NAME, InferenceGateway, KeyGrant
from modelplane.api.model_key import ModelKey
from modelplane.compose.conditions import Condition, false, true
from modelplane.gateway.module_files.key_rights import is_counted_by_service, must_count_by_service

_INSTEAD = "so each gateway enforces its part of the limits"


def limited_globally(
    key: ModelKey, grant: KeyGrant | None, gateway: InferenceGateway | None
) -> tuple[Condition, ...]:
    """Return the condition of a key with global limits; none for another."""
    type_ = ModelKeyCondition.SETTINGS_SUPPORTED
    asks = key.spec.rate_limit_type is RateLimitType.GLOBAL
    if grant is None or gateway is None or not (asks or must_count_by_service(grant)):
        return ()
    if not is_counted_by_service(grant, asks):
        message = (
            f'the grant of namespace "{key.metadata.namespace}" allows only rateLimitType Local, {_INSTEAD}: '
            "remove spec.rateLimitType, or ask your platform team"
        )
        return (false(type_, Reason.TYPE_NOT_GRANTED, message),)
    if gateway.spec.rate_limit_service is None:
        message = (
            f'InferenceGateway "{DEFAULT_NAME}" has no spec.rateLimitService, {_INSTEAD}: ask your platform '
            "team to add one"
        )
        return (false(type_, Reason.NO_RATE_LIMIT_SERVICE, message),)
    service = gateway.spec.rate_limit_service
    message = f"{service.host}:{service.port} counts requests and tokens a minute, for all gateways together"
    return (true(type_, Reason.RATE_LIMIT_SERVICE, message),)
