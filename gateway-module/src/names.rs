//! Names that the module shares with Envoy's configuration and with clients.

/// Filter state with the record of the request.
pub const RECORD: &str = "modelplane.record";

/// Namespace of the metadata of routes and clusters that the module reads.
pub const REWRITE: &str = "modelplane.rewrite";

/// Key of a cluster's metadata with the region of the backend.
pub const REGION: &str = "region";

/// Filter state with the regions to which a request may go, each between commas.
pub const BOUND: &str = "modelplane.regions";

/// Namespace of the dynamic metadata with the limits that the rate limit service counts.
pub const LIMITS: &str = "modelplane.limits";

/// Key of a route's metadata that is set if the route holds requests, because it has no backend.
pub const HOLD: &str = "hold";

/// Key of a route's metadata with the prefix to remove.
pub const STRIP: &str = "strip";

/// Key of a route's metadata with its one endpoint, if Envoy itself rewrites its requests.
pub const DIRECT: &str = "direct";

/// Namespace of the metadata of clusters with the name of the backend.
pub const BACKEND: &str = "modelplane.usage";

/// Filter state with the number of the attempt that was begun with the order.
pub const ATTEMPT: &str = "modelplane.attempt";

/// Namespace of the dynamic metadata with the order of a route's backends.
pub const ORDER: &str = "modelplane.order";

/// Key of a cluster's metadata with what the filter `backend` needs of it.
pub const WANTED: &str = "attempt";

/// Filter state with the path as it was before the first attempt, behind one of the two marks that follow.
pub const CLIENT_PATH: &str = "modelplane.replaced.:path";

/// The path has chosen the service.
pub const BY_PATH: u8 = b'p';

/// The `model` of the body has chosen the service.
pub const BY_MODEL: u8 = b'm';

/// Filter state that is set once a request is held, and that its further routes match.
pub const HELD: &str = "modelplane.held";

/// Filter state that is set if the request has passed too many gateways, and that the route which refuses it matches.
pub const LOOP: &str = "modelplane.loop";

/// Prefix of the filter states with other headers as they were before the first attempt.
pub const REPLACED: &str = "modelplane.replaced.";

/// Prefix of the details of the module's own answers, which Envoy's `local_reply_config` leaves alone.
pub const DETAILS: &str = "modelplane:";

/// Header with the id of the key, for the engine.
pub const CLIENT: &str = "modelplane-client";

/// Header of a key in the form of OpenAI's clients.
pub const AUTHORIZATION: &str = "authorization";

/// Header of a key in the form of Anthropic's clients.
pub const API_KEY: &str = "x-api-key";

/// Header by which a request asks an engine for its load.
pub const LOAD_FORMAT: &str = "endpoint-load-metrics-format";

/// Header or trailer with which an engine reports its load.
pub const LOAD: &str = "endpoint-load-metrics";

/// Header with a mark of each gateway that has forwarded the request.
pub const HOPS: &str = "modelplane-hops";

/// Mark of one gateway in it.
pub const HOP: u8 = b'1';

/// Maximum of gateways that forward a request.
pub const MOST_HOPS: usize = 4;

/// Header that Envoy itself sets on almost every request: the address of the client.
pub const ADDRESS: &str = "x-envoy-external-address";

/// Prefixes of headers that only the gateway may set: a client's would change timeouts and retries, or say that it is a
/// gateway to the gateway of a cluster.
pub const INTERNAL: [&str; 4] = ["x-envoy-", "x-modelplane-", "modelplane-gateway-", "modelplane-attempt"];
