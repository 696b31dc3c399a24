//! Settings of services, beside their routes.

use std::collections::HashMap;

use serde::Deserialize;

use crate::hold::Hold;
use crate::order::Balancing;
use crate::outstanding;

/// Settings of one service.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Service {
    /// Limits of the requests that wait for its first endpoint; without them none waits.
    pub hold: Option<Hold>,
    /// Choice among its backends; None leaves it to the route.
    pub balancing: Option<Balancing>,
    /// Choice for requests that are bound to regions, where the route decides about all others.
    pub bound: Option<Balancing>,
}

/// Settings of the services that have any.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Services {
    services: HashMap<String, Service>,
}

impl Services {
    /// Read the file of services.
    pub fn parse(text: &[u8], _before: Option<&Services>) -> Result<Self, String> {
        let services = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        outstanding::prune();
        Ok(services)
    }

    /// Return the settings of a service, `NAMESPACE/SERVICE`.
    pub fn get(&self, name: &str) -> Option<&Service> {
        self.services.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_without_settings_is_not_in_the_file() {
        let services = Services::parse(br#"{"services":{"ml/qwen":{}}}"#, None).unwrap();
        assert!(services.get("ml/qwen").is_some() && services.get("ml/other").is_none());
        assert!(Services::parse(br#"{"services":{"ml/qwen":{"other":1}}}"#, None).is_err());
        let hold = br#"{"services":{"ml/qwen":{"hold":{"timeoutSeconds":60,"maxRequests":9}}}}"#;
        assert!(Services::parse(hold, None).unwrap().get("ml/qwen").unwrap().hold.is_some());
        assert!(Services::parse(br#"{"services":{"ml/qwen":{"hold":{}}}}"#, None).is_err());
    }
}
