//! Configuration of the filters; see `README.md`.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use crate::credentials::Credentials;
use crate::keys::{Keys, Shares};
use crate::models::Models;
use crate::services::Services;
use crate::watch::{Parse, Report, Watched};

const MAX_BODY_BYTES: u64 = 20 << 20;

/// Room beyond the limit of a body, for what the filters add, and so that they refuse it before Envoy does.
pub const SPARE_BYTES: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Authentication {
    APIKey,
    None,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FrontOptions {
    authentication: Authentication,
    keys: Option<String>,
    shares: Option<String>,
    models: Option<String>,
    services: Option<String>,
    usage: Option<bool>,
    include_usage: Option<bool>,
    global_limits: Option<bool>,
    max_body_bytes: Option<u64>,
    internal_headers: Option<bool>,
    record: Option<bool>,
    direct: Option<bool>,
    request_timeout_seconds: Option<u64>,
}

/// Configuration of the filter `front`.
pub struct Front {
    /// Keys, if they are demanded.
    pub keys: Option<Arc<Watched<Keys>>>,
    /// Number of gateways that share the limits.
    pub shares: Option<Arc<Watched<Shares>>>,
    /// Services by model, if `/v1/...` is routed by it.
    pub models: Option<Arc<Watched<Models>>>,
    /// Settings of services.
    pub services: Option<Arc<Watched<Services>>>,
    /// True to read token counts.
    pub usage: bool,
    /// True to ask engines for them.
    pub include_usage: bool,
    /// True if Envoy asks the rate limit service after this filter.
    pub global_limits: bool,
    /// Maximum of a body that is held.
    pub max_body_bytes: u64,
    /// True to drop internal headers of the client and to count the hop.
    pub internal_headers: bool,
    /// True to write the record for the access log.
    pub record: bool,
    /// True if requests on routes with one endpoint have no filter of attempts.
    pub direct: bool,
    /// Time for a request with its body.
    pub request_timeout: Option<Duration>,
}

fn open<T: Send + Sync + 'static>(
    path: Option<String>,
    parse: Parse<T>,
    follow: Option<Report>,
) -> Result<Option<Arc<Watched<T>>>, String> {
    path.map(|path| Watched::open(&path, parse, follow)).transpose()
}

impl Front {
    /// Read the configuration and its files, and follow these if asked.
    pub fn read(text: &[u8], follow: Option<Report>) -> Result<Self, String> {
        let options: FrontOptions = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        match options.authentication {
            Authentication::APIKey if options.keys.is_none() => {
                return Err("authentication APIKey needs keys".into());
            }
            Authentication::None if options.keys.is_some() || options.shares.is_some() => {
                return Err("authentication None allows neither keys nor shares".into());
            }
            _ => {}
        }
        if options.global_limits == Some(true) && options.keys.is_none() {
            return Err("globalLimits needs keys".into());
        }
        let usage = options.usage.unwrap_or(true);
        let include_usage = options.include_usage.unwrap_or(usage);
        if include_usage && !usage {
            return Err("includeUsage needs usage".into());
        }
        Ok(Front {
            keys: open(options.keys, Keys::parse, follow)?,
            shares: open(options.shares, Shares::parse, follow)?,
            models: open(options.models, Models::parse, follow)?,
            services: open(options.services, Services::parse, follow)?,
            usage,
            include_usage,
            global_limits: options.global_limits.unwrap_or(false),
            max_body_bytes: options.max_body_bytes.unwrap_or(MAX_BODY_BYTES),
            internal_headers: options.internal_headers.unwrap_or(false),
            record: options.record.unwrap_or(true),
            direct: options.direct.unwrap_or(false),
            request_timeout: options.request_timeout_seconds.map(Duration::from_secs),
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BackendOptions {
    credentials: Option<String>,
    max_body_bytes: Option<u64>,
}

/// Configuration of the filter `backend`.
pub struct Backend {
    /// Credentials of backends.
    pub credentials: Option<Arc<Watched<Credentials>>>,
    /// Maximum of a body in which the model gets another name.
    pub max_body_bytes: u64,
}

impl Backend {
    /// Read the configuration and its file, and follow it if asked.
    pub fn read(text: &[u8], follow: Option<Report>) -> Result<Self, String> {
        let options: BackendOptions = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        Ok(Backend {
            credentials: open(options.credentials, Credentials::parse, follow)?,
            max_body_bytes: options.max_body_bytes.unwrap_or(MAX_BODY_BYTES),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_closed_unless_it_says_otherwise() {
        for (wrong, cause) in [
            ("{}", "missing field `authentication`"),
            ("", "EOF"),
            (r#"{"authentication":"APIKey"}"#, "needs keys"),
            (r#"{"authentication":"None","keys":"k"}"#, "allows neither"),
            (r#"{"authentication":"None","shares":"s"}"#, "allows neither"),
            (r#"{"authentication":"apikey","keys":"k"}"#, "unknown variant"),
            (r#"{"authentication":"APIKey","keys":"/nonexistent"}"#, "cannot read /nonexistent"),
            (r#"{"authentication":"None","models":"/nonexistent"}"#, "cannot read /nonexistent"),
            (r#"{"authentication":"None","limits":true}"#, "unknown field"),
            (r#"{"authentication":"None","globalLimits":true}"#, "needs keys"),
            (r#"{"authentication":"None","record":"Other"}"#, "expected a boolean"),
            (r#"{"authentication":"None","usage":false,"includeUsage":true}"#, "needs usage"),
        ] {
            let error = Front::read(wrong.as_bytes(), None).err().unwrap();
            assert!(error.contains(cause), "{error}");
        }
        let front = Front::read(br#"{"authentication":"None"}"#, None).ok().unwrap();
        assert!(front.keys.is_none() && front.usage && front.include_usage);
    }

    #[test]
    fn credentials_that_are_named_must_be_there() {
        assert!(Backend::read(br#"{"credentials":"/nonexistent"}"#, None).is_err());
        assert!(Backend::read(b"{}", None).ok().unwrap().credentials.is_none());
    }
}
