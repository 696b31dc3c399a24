//! API keys by their SHA-256, and the grants of their namespaces.
//!
//! A key is looked up by its hash, so the time of a look-up says nothing about any key.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::limits::{Account, Gateways, Limits, State};
use crate::regions::Regions;

/// Reason why a key is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Blocked {
    /// Its owner blocked it.
    Key,
    /// Its budget is spent.
    Budget,
}

/// Services that a key or a namespace may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed(Vec<String>);

impl Allowed {
    /// Return whether a service, `NAMESPACE/SERVICE`, is among them.
    pub fn contains(&self, service: &str) -> bool {
        self.0.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(prefix) => service.starts_with(prefix),
            None => pattern == service,
        })
    }

    fn new(patterns: Vec<String>) -> Result<Self, String> {
        for pattern in &patterns {
            let valid = pattern == "*"
                || pattern.split_once('/').is_some_and(|(namespace, service)| {
                    is_name(namespace) && (service == "*" || is_name(service))
                });
            if !valid {
                return Err(format!("services: {pattern:?} is not NAMESPACE/SERVICE, NAMESPACE/* or *"));
            }
        }
        Ok(Allowed(patterns))
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|each| each.is_ascii_alphanumeric() || b"-._".contains(&each))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KeyEntry {
    sha256: String,
    id: String,
    namespace: String,
    services: Vec<String>,
    requests_per_minute: Option<u64>,
    tokens_per_minute: Option<u64>,
    streams: Option<u64>,
    #[serde(default)]
    global_limits: bool,
    max_body_bytes: Option<u64>,
    expires: Option<u64>,
    blocked: Option<Blocked>,
    regions: Option<Regions>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GrantEntry {
    services: Option<Vec<String>>,
    requests_per_minute: Option<u64>,
    tokens_per_minute: Option<u64>,
    streams: Option<u64>,
    #[serde(default)]
    global_limits: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeysFile {
    keys: Vec<KeyEntry>,
    namespaces: HashMap<String, GrantEntry>,
}

/// Grant of a platform to a namespace.
#[derive(Debug)]
pub struct Grant {
    /// Name of the namespace.
    pub namespace: String,
    /// What its keys use together, and may use.
    pub account: Account,
    services: Option<Allowed>,
}

/// API key without its secret.
#[derive(Debug)]
pub struct Key {
    /// Name in headers and logs.
    pub id: Arc<str>,
    /// What it uses, and may use.
    pub account: Account,
    /// Grant of its namespace.
    pub grant: Arc<Grant>,
    /// Maximum of a request's body.
    pub max_body_bytes: Option<u64>,
    /// Seconds since 1970 from which it is refused.
    pub expires: Option<u64>,
    /// Reason why it is refused.
    pub blocked: Option<Blocked>,
    /// Regions to which its requests may go; None for all.
    pub regions: Option<Regions>,
    services: Allowed,
}

impl Key {
    /// Return whether the key and its namespace may use a service.
    pub fn allows(&self, service: &str) -> bool {
        self.services.contains(service)
            && self.grant.services.as_ref().is_none_or(|granted| granted.contains(service))
    }
}

/// All keys of a gateway.
#[derive(Debug, Default)]
pub struct Keys {
    by_hash: HashMap<[u8; 32], Arc<Key>>,
    states: HashMap<Arc<str>, Arc<State>>,
    namespaces: HashMap<String, Arc<Grant>>,
}

impl Keys {
    /// Read the file of keys. What an id has used goes on from the keys before.
    pub fn parse(text: &[u8], before: Option<&Keys>) -> Result<Self, String> {
        let file: KeysFile = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let mut namespaces = HashMap::with_capacity(file.namespaces.len());
        for (name, entry) in file.namespaces {
            let state = before.and_then(|keys| keys.namespaces.get(&name));
            let grant = grant(&name, entry, state.map(|grant| grant.account.state.clone()))?;
            namespaces.insert(name, Arc::new(grant));
        }
        let mut states = HashMap::with_capacity(file.keys.len());
        let mut by_hash = HashMap::with_capacity(file.keys.len());
        let used = |id: &Arc<str>| before.and_then(|keys| keys.states.get(id)).cloned().unwrap_or_default();
        for entry in file.keys {
            let hash = hash_of(&entry.sha256)
                .ok_or_else(|| format!("key {:?}: sha256 is not 64 hexadecimal digits", entry.id))?;
            let id: Arc<str> = entry.id.as_str().into();
            let state = states.entry(id.clone()).or_insert_with(|| used(&id)).clone();
            let key = key(entry, id, state, &namespaces)?;
            if let Some(other) = by_hash.insert(hash, Arc::new(key)) {
                return Err(format!("key {:?}: another key has the same sha256", other.id));
            }
        }
        Ok(Keys { by_hash, states, namespaces })
    }

    /// Return the entry of a key.
    pub fn find(&self, secret: &[u8]) -> Option<&Arc<Key>> {
        let hash: [u8; 32] = Sha256::digest(secret).into();
        self.by_hash.get(&hash)
    }
}

fn grant(name: &str, entry: GrantEntry, state: Option<Arc<State>>) -> Result<Grant, String> {
    let services = entry.services.map(Allowed::new).transpose();
    let limits = Limits {
        requests_per_minute: entry.requests_per_minute,
        tokens_per_minute: entry.tokens_per_minute,
        streams: entry.streams,
    };
    Ok(Grant {
        namespace: name.to_string(),
        account: Account { state: state.unwrap_or_default(), limits, is_global: entry.global_limits },
        services: services.map_err(|error| format!("namespace {name:?}: {error}"))?,
    })
}

fn key(
    entry: KeyEntry,
    id: Arc<str>,
    state: Arc<State>,
    namespaces: &HashMap<String, Arc<Grant>>,
) -> Result<Key, String> {
    if entry.id.is_empty() || !entry.id.bytes().all(|each| each.is_ascii_graphic()) {
        return Err(format!("key {:?}: id is not a word of visible ASCII characters", entry.id));
    }
    let limits = Limits {
        requests_per_minute: entry.requests_per_minute,
        tokens_per_minute: entry.tokens_per_minute,
        streams: entry.streams,
    };
    let problem = |error: String| format!("key {:?}: {error}", entry.id);
    let services = Allowed::new(entry.services).map_err(problem)?;
    let grant = namespaces
        .get(&entry.namespace)
        .ok_or_else(|| problem(format!("namespaces has no {:?}", entry.namespace)))?
        .clone();
    Ok(Key {
        id,
        account: Account { state, limits, is_global: entry.global_limits },
        grant,
        max_body_bytes: entry.max_body_bytes,
        expires: entry.expires,
        blocked: entry.blocked,
        regions: entry.regions,
        services,
    })
}

fn hash_of(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    let mut hash = [0; 32];
    if digits.len() != 64 {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |each: u8| (each as char).to_digit(16);
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Some(hash)
}

/// Number of gateways that share the limits.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shares {
    gateways: NonZeroU32,
}

impl Shares {
    /// Read the file of shares.
    pub fn parse(text: &[u8], _before: Option<&Shares>) -> Result<Self, String> {
        serde_json::from_slice(text).map_err(|error| error.to_string())
    }

    /// Return the number of gateways.
    pub fn gateways(&self) -> Gateways {
        Gateways(self.gateways)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Return a file with one key of a namespace, with members that replace or add to its own.
    pub fn file(secret: &str, changes: serde_json::Value) -> Vec<u8> {
        let mut key = serde_json::json!({
            "sha256": hex(secret), "id": "ml/ci", "namespace": "ml", "services": ["ml/*"],
        });
        for (name, value) in changes.as_object().unwrap() {
            key[name] = value.clone();
        }
        serde_json::json!({"keys": [key], "namespaces": {"ml": {}}}).to_string().into_bytes()
    }

    pub fn hex(secret: &str) -> String {
        Sha256::digest(secret).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn problem(changes: serde_json::Value) -> String {
        Keys::parse(&file("a", changes), None).unwrap_err()
    }

    #[test]
    fn a_key_is_found_by_itself_only() {
        let keys = Keys::parse(&file("sk-1", serde_json::json!({})), None).unwrap();
        assert_eq!(keys.find(b"sk-1").unwrap().id.as_ref(), "ml/ci");
        for other in ["", "sk-", "sk-2", "sk-1 ", &hex("sk-1")] {
            assert!(keys.find(other.as_bytes()).is_none());
        }
    }

    #[test]
    fn services_match_whole_names() {
        let allowed = |patterns: &[&str]| Allowed::new(patterns.iter().map(ToString::to_string).collect());
        let mine = allowed(&["ml/*", "shared/qwen"]).unwrap();
        assert!(mine.contains("ml/anything") && mine.contains("shared/qwen"));
        assert!(!mine.contains("mlx/a") && !mine.contains("shared/qwen2") && !mine.contains("ml"));
        assert!(allowed(&["*"]).unwrap().contains("any/thing"));
        assert!(!allowed(&[]).unwrap().contains("ml/qwen"));
        for wrong in ["", "m*", "ml/q*", "*/qwen", "ml", "ml/a/b", "/"] {
            assert!(allowed(&[wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_namespace_narrows_what_its_keys_may_use() {
        let mut file: serde_json::Value =
            serde_json::from_slice(&file("a", serde_json::json!({"services": ["*"]}))).unwrap();
        file["namespaces"]["ml"]["services"] = serde_json::json!(["ml/qwen"]);
        let keys = Keys::parse(file.to_string().as_bytes(), None).unwrap();
        let key = keys.find(b"a").unwrap();
        assert!(key.allows("ml/qwen") && !key.allows("ml/llama"));
    }

    #[test]
    fn a_damaged_file_is_refused_with_its_cause() {
        assert!(problem(serde_json::json!({"sha256": "ab"})).contains("64 hexadecimal digits"));
        assert!(problem(serde_json::json!({"sha256": "é".repeat(32)})).contains("64 hexadecimal digits"));
        assert!(problem(serde_json::json!({"namespace": "other"})).contains("namespaces has no \"other\""));
        assert!(problem(serde_json::json!({"id": "a b"})).contains("id is not a word"));
        assert!(problem(serde_json::json!({"id": ""})).contains("id is not a word"));
        assert!(problem(serde_json::json!({"rpm": 5})).contains("unknown field `rpm`"));
        assert!(problem(serde_json::json!({"requestsPerMinute": -1})).contains("invalid value"));
        assert!(problem(serde_json::json!({"blocked": "Other"})).contains("unknown variant"));
        assert!(Keys::parse(b"", None).is_err() && Keys::parse(b"{}", None).is_err());
    }

    #[test]
    fn one_secret_cannot_be_two_keys() {
        let mut file: serde_json::Value = serde_json::from_slice(&file("a", serde_json::json!({}))).unwrap();
        let mut other = file["keys"][0].clone();
        other["id"] = "ml/other".into();
        file["keys"].as_array_mut().unwrap().push(other);
        assert!(Keys::parse(file.to_string().as_bytes(), None).unwrap_err().contains("the same sha256"));
    }

    #[test]
    fn what_an_id_has_used_outlives_the_file_and_a_rotation() {
        let before = Keys::parse(&file("old", serde_json::json!({})), None).unwrap();
        let after = Keys::parse(&file("new", serde_json::json!({})), Some(&before)).unwrap();
        let (old, new) = (before.find(b"old").unwrap(), after.find(b"new").unwrap());
        assert!(Arc::ptr_eq(&old.account.state, &new.account.state));
        assert!(Arc::ptr_eq(&old.grant.account.state, &new.grant.account.state));
    }

    #[test]
    fn at_least_one_gateway_has_the_limits() {
        for wrong in ["{}", r#"{"gateways":0}"#, r#"{"gateways":-1}"#, r#"{"gateways":2,"x":1}"#] {
            assert!(Shares::parse(wrong.as_bytes(), None).is_err(), "{wrong}");
        }
        let shares = Shares::parse(br#"{"gateways":1}"#, None).unwrap();
        assert_eq!(shares.gateways(), Gateways::ONE);
    }
}
