//! Limits of a request that the rate limit service counts, for all gateways together.
//!
//! Envoy's `ratelimit` filter comes after this one. It asks the service about the limits that stand in dynamic
//! metadata, and takes the tokens when the stream ends. A request without such metadata does not reach the service.

use crate::abi::{Headers, Stream};
use crate::errors::Refusal;
use crate::keys::Key;
use crate::limits::{Account, Exceeded, Kind};
use crate::names::LIMITS;
use crate::structs::{member, number, object, text};

/// Details of an answer with which the service refuses a request.
const REFUSED: &[u8] = b"request_rate_limited";

// Headers of the service's decision, in place of which a refusal has those of the module's own limits.
const LIMIT: &str = "x-ratelimit-limit";
const REMAINING: &str = "x-ratelimit-remaining";
const RESET: &str = "x-ratelimit-reset";

/// Maximum of tokens that Envoy takes at once.
const MOST_TOKENS: u64 = 1_000_000_000;

const MINUTE_S: u64 = 60;

/// Limit that the service counts.
struct Counted {
    owner: &'static str,
    /// Member of the metadata, and key of the service's counter.
    name: &'static str,
    id: String,
    kind: Kind,
    limit: u64,
}

impl Counted {
    /// Return the limit as the service compares it: a request is refused if more than this was used.
    fn compared(&self) -> u64 {
        match self.kind {
            // The request itself takes no tokens: as many as the limit are too many.
            Kind::Tokens => self.limit.saturating_sub(1),
            Kind::Requests | Kind::Streams => self.limit,
        }
    }

    fn member(&self) -> Vec<u8> {
        let limit = [
            member("id", &text(&self.id)),
            member("requests_per_unit", &number(self.compared())),
            member("unit", &text("MINUTE")),
        ];
        member(self.name, &object(&limit))
    }
}

/// Limits of one request that the service counts.
pub struct GlobalLimits(Vec<Counted>);

impl GlobalLimits {
    /// Return the limits of a key and its namespace that are global; None if there are none.
    pub fn of(key: &Key) -> Option<Self> {
        let namespace = key.grant.namespace.as_str();
        let mut found = vec![];
        let mut add = |account: &Account, owner, id: &str, names: [&'static str; 2]| {
            let limits = [account.limits.requests_per_minute, account.limits.tokens_per_minute];
            for ((limit, name), kind) in limits.into_iter().zip(names).zip([Kind::Requests, Kind::Tokens]) {
                if let Some(limit) = limit.filter(|_| account.is_global) {
                    found.push(Counted { owner, name, id: id.to_string(), kind, limit });
                }
            }
        };
        add(&key.account, "API key", &key.id, ["key_requests", "key_tokens"]);
        add(&key.grant.account, "namespace", namespace, ["namespace_requests", "namespace_tokens"]);
        (!found.is_empty()).then_some(GlobalLimits(found))
    }

    /// Hand the limits over to Envoy's filter.
    pub fn ask(&self, stream: &mut Stream) {
        stream.set_metadata(LIMITS, &self.members().concat());
    }

    /// Let Envoy's filter take the tokens of the answer.
    pub fn charge(&self, stream: &mut Stream, tokens: u64) {
        let ids: Vec<Vec<u8>> = self
            .0
            .iter()
            .filter(|counted| counted.kind == Kind::Tokens)
            .map(|counted| member(counted.name, &text(&counted.id)))
            .collect();
        if tokens == 0 || ids.is_empty() {
            return;
        }
        let mut members = self.members();
        members.push(member("tokens", &number(tokens.min(MOST_TOKENS))));
        members.push(member("charge", &object(&ids)));
        stream.set_metadata(LIMITS, &members.concat());
    }

    /// Drop the headers of the service's decision, and return the refusal if it refused the request.
    pub fn decision(&self, stream: &mut Stream) -> Option<Refusal> {
        let first = |name| stream.text(Headers::Response, name).and_then(leading_number);
        let [limit, reset] = [LIMIT, RESET].map(first);
        let is_refused = stream.details() == REFUSED;
        for name in [LIMIT, REMAINING, RESET] {
            stream.set_header(Headers::Response, name, None);
        }
        if !is_refused {
            return None;
        }
        let counted = self.0.iter().find(|counted| Some(counted.compared()) == limit).or(self.0.first())?;
        Some(Refusal::limited(&Exceeded {
            owner: counted.owner,
            kind: counted.kind,
            limit: counted.limit,
            remaining: 0,
            reset_s: reset.unwrap_or(MINUTE_S).max(1),
        }))
    }

    fn members(&self) -> Vec<Vec<u8>> {
        self.0.iter().map(Counted::member).collect()
    }
}

/// Return the number at the start of a header such as `10, 10;w=60`.
fn leading_number(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text[..digits].parse().ok()
}
