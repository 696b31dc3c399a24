//! Errors of the module's own answers, in the form of the OpenAI API.

use crate::limits::Exceeded;

const RETRY_AFTER_S: &str = "5";

/// Row of the table of errors in `README.md`.
#[derive(Debug, PartialEq, Eq)]
pub struct Code {
    /// Status of the answer.
    pub status: u32,
    /// `code` of the error, and details of the answer in the access log.
    pub name: &'static str,
}

macro_rules! codes {
    ($($constant:ident $status:literal $name:literal)*) => {
        $(
            #[doc = concat!("`", $name, "`, see `README.md`.")]
            pub const $constant: Code = Code { status: $status, name: $name };
        )*
        #[cfg(test)]
        const ALL: &[Code] = &[$($constant),*];
    };
}

codes! {
    AMBIGUOUS_API_KEY 400 "ambiguous_api_key"
    INVALID_BODY 400 "invalid_body"
    INVALID_QUERY 400 "invalid_query"
    MISSING_API_KEY 401 "missing_api_key"
    INVALID_API_KEY 401 "invalid_api_key"
    EXPIRED_API_KEY 401 "expired_api_key"
    KEY_BLOCKED 403 "key_blocked"
    SERVICE_NOT_ALLOWED 403 "service_not_allowed"
    MODEL_NOT_FOUND 404 "model_not_found"
    ROUTE_NOT_FOUND 404 "route_not_found"
    METHOD_NOT_ALLOWED 405 "method_not_allowed"
    REQUEST_OVERALL_TIMEOUT 408 "request_overall_timeout"
    MODEL_AMBIGUOUS 409 "model_ambiguous"
    REQUEST_TOO_LARGE 413 "request_too_large"
    UNSUPPORTED_MEDIA_TYPE 415 "unsupported_media_type"
    RATE_LIMIT_EXCEEDED 429 "rate_limit_exceeded"
    INSUFFICIENT_QUOTA 429 "insufficient_quota"
    INTERNAL_ERROR 500 "internal_error"
    REGION_NOT_ALLOWED 503 "region_not_allowed"
    CREDENTIAL_MISSING 503 "credential_missing"
    HOLD_TIMEOUT 503 "hold_timeout"
    TOO_MANY_HELD 503 "too_many_held"
}

/// Answer to a request that is refused.
#[derive(Debug)]
pub struct Refusal {
    /// Status and code.
    pub code: &'static Code,
    kind: &'static str,
    message: String,
    headers: Vec<(String, String)>,
}

impl Refusal {
    /// Refuse with a code and a sentence for the user.
    pub fn new(code: &'static Code, message: impl Into<String>) -> Self {
        let (kind, headers) = match code.status {
            401 => ("invalid_request_error", vec![("www-authenticate".into(), "Bearer".into())]),
            405 => ("invalid_request_error", vec![("allow".into(), "POST".into())]),
            500.. => ("server_error", vec![]),
            _ => ("invalid_request_error", vec![]),
        };
        Refusal { code, kind, message: message.into(), headers }
    }

    /// Refuse because a limit is exceeded.
    pub fn limited(exceeded: &Exceeded) -> Self {
        let (kind, reset) = (exceeded.kind.name(), exceeded.reset_s);
        let (owner, limit, unit) = (exceeded.owner, exceeded.limit, exceeded.kind.unit());
        let message = format!("the {owner}'s limit of {limit} {unit} is reached: try again in {reset} s");
        let header = |part: &str, value: u64| (format!("x-ratelimit-{part}-{kind}"), value.to_string());
        Refusal {
            code: &RATE_LIMIT_EXCEEDED,
            kind,
            message,
            headers: vec![
                ("retry-after".into(), reset.to_string()),
                header("limit", limit),
                header("remaining", exceeded.remaining),
                header("reset", reset),
            ],
        }
    }

    /// Refuse for now, and say when to try again.
    pub fn later(code: &'static Code, message: String) -> Self {
        let headers = vec![("retry-after".into(), RETRY_AFTER_S.into())];
        Refusal { headers, ..Refusal::new(code, message) }
    }

    /// Refuse because the budget is spent.
    pub fn out_of_budget() -> Self {
        let message = "the budget of this API key is spent: ask the owner of the key to raise it";
        Refusal { kind: "insufficient_quota", ..Refusal::new(&INSUFFICIENT_QUOTA, message) }
    }

    /// Refuse a body that cannot be read, and say why.
    pub fn invalid(cause: String) -> Self {
        Refusal::new(&INVALID_BODY, format!("the body cannot be read: {cause}"))
    }

    /// Refuse a body of a form that cannot be read.
    pub fn unreadable() -> Self {
        let message = "send the body as application/json or multipart/form-data, and not compressed";
        Refusal::new(&UNSUPPORTED_MEDIA_TYPE, message)
    }

    /// Return the headers of the answer.
    pub fn headers(&self) -> Vec<(&str, &str)> {
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        std::iter::once(("content-type", "application/json")).chain(own).collect()
    }

    /// Return the body of the answer.
    pub fn body(&self) -> String {
        let error = serde_json::json!({
            "message": self.message, "type": self.kind, "param": null, "code": self.code.name,
        });
        serde_json::json!({ "error": error }).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_lists_exactly_these_codes() {
        let section = include_str!("../README.md").split("## Errors").nth(1).unwrap();
        let listed: Vec<String> = section
            .lines()
            .filter_map(|line| line.strip_prefix("| "))
            .filter(|line| line.starts_with(|first: char| first.is_ascii_digit()))
            .map(|line| line.split(" | ").take(2).collect::<Vec<_>>().join(" "))
            .collect();
        let own: Vec<String> = ALL.iter().map(|code| format!("{} `{}`", code.status, code.name)).collect();
        assert_eq!(listed, own);
    }

    #[test]
    fn an_error_has_the_form_of_the_openai_api() {
        let refusal = Refusal::new(&INVALID_API_KEY, "say \"no\"");
        let body: serde_json::Value = serde_json::from_str(&refusal.body()).unwrap();
        let error = serde_json::json!({
            "message": "say \"no\"", "type": "invalid_request_error", "param": null, "code": "invalid_api_key",
        });
        assert_eq!(body, serde_json::json!({ "error": error }));
        assert!(refusal.headers().contains(&("www-authenticate", "Bearer")));
    }
}
