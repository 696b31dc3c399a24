//! Services by the model that a request names, and the list of models.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;

use crate::errors::{MODEL_AMBIGUOUS, MODEL_NOT_FOUND, Refusal, SERVICE_NOT_ALLOWED};
use crate::keys::Key;

const EVERY_NAMESPACE: &str = "*";

/// Services that a refusal names, of those that fit: any namespace can have one of the name.
const MOST_NAMED: usize = 5;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceEntry {
    name: String,
    #[serde(default)]
    created: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AliasEntry {
    name: String,
    service: String,
    namespaces: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelsFile {
    services: Vec<ServiceEntry>,
    #[serde(default)]
    aliases: Vec<AliasEntry>,
}

struct Alias {
    service: String,
    namespaces: Vec<String>,
}

/// Services that a gateway serves, and other names for them.
#[derive(Default)]
pub struct Models {
    services: BTreeMap<String, u64>,
    by_short_name: HashMap<String, Vec<String>>,
    aliases: BTreeMap<String, Vec<Alias>>,
}

impl Alias {
    fn counts_for(&self, key: Option<&Key>) -> bool {
        self.namespaces.iter().any(|namespace| {
            namespace == EVERY_NAMESPACE || key.is_some_and(|key| key.grant.namespace == *namespace)
        })
    }
}

fn may_use(key: Option<&Key>, service: &str) -> bool {
    key.is_none_or(|key| key.allows(service))
}

impl Models {
    /// Read the file of models.
    pub fn parse(text: &[u8], _before: Option<&Models>) -> Result<Self, String> {
        let file: ModelsFile = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let mut models = Models::default();
        for service in file.services {
            let Some((_, short)) = service.name.split_once('/') else {
                return Err(format!("service {:?} is not NAMESPACE/SERVICE", service.name));
            };
            models.by_short_name.entry(short.to_string()).or_default().push(service.name.clone());
            models.services.insert(service.name, service.created);
        }
        for alias in file.aliases {
            if alias.name.contains('/') {
                return Err(format!("alias {:?} has a slash, as only services do", alias.name));
            }
            let entry = Alias { service: alias.service, namespaces: alias.namespaces };
            models.aliases.entry(alias.name).or_default().push(entry);
        }
        Ok(models)
    }

    /// Return the service that a model names, among those that the key may use.
    pub fn resolve(&self, model: &str, key: Option<&Key>) -> Result<String, Refusal> {
        if model.contains('/') {
            return self.service(model, key);
        }
        let fitting: BTreeSet<&str> = self
            .named(model, key)
            .filter(|service| self.services.contains_key(*service) && may_use(key, service))
            .collect();
        let mut fitting = fitting.into_iter();
        match (fitting.next(), fitting.next()) {
            (None, _) => Err(not_found(model)),
            (Some(service), None) => Ok(service.to_string()),
            (Some(one), Some(other)) => {
                let named = [one, other].into_iter().chain(fitting.by_ref().take(MOST_NAMED - 2));
                let named: Vec<_> = named.map(|service| format!("{service:?}")).collect();
                let more = match fitting.count() {
                    0 => String::new(),
                    more => format!(", and {more} more"),
                };
                let services = named.join(", ");
                let message =
                    format!("the model {model:?} is several services: name one of them: {services}{more}");
                Err(Refusal::new(&MODEL_AMBIGUOUS, message))
            }
        }
    }

    /// Return the list of models, or one of them, in the form of the OpenAI API.
    pub fn list(&self, only: Option<&str>, key: Option<&Key>) -> Result<String, Refusal> {
        let services = self.services.iter().map(|(name, created)| (name.as_str(), name.as_str(), *created));
        let aliases = self.aliases.iter().flat_map(|(name, aliases)| {
            let counting = aliases.iter().find(|alias| alias.counts_for(key) && may_use(key, &alias.service));
            counting.and_then(|alias| {
                Some((name.as_str(), alias.service.as_str(), *self.services.get(&alias.service)?))
            })
        });
        let mut data = services
            .filter(|(_, service, _)| may_use(key, service))
            .chain(aliases)
            .filter(|(name, ..)| only.is_none_or(|only| *name == only))
            .map(|(name, service, created)| {
                let owner = service.split('/').next();
                serde_json::json!({"id": name, "object": "model", "created": created, "owned_by": owner})
            });
        match only {
            None => {
                let data: Vec<_> = data.collect();
                Ok(serde_json::json!({"object": "list", "data": data}).to_string())
            }
            Some(name) => data.next().map(|model| model.to_string()).ok_or_else(|| not_found(name)),
        }
    }

    /// Return a service by its full name. Whether it exists is told only to a key that may use it.
    fn service(&self, name: &str, key: Option<&Key>) -> Result<String, Refusal> {
        if !may_use(key, name) {
            return Err(not_allowed(name));
        }
        match self.services.contains_key(name) {
            true => Ok(name.to_string()),
            false => Err(not_found(name)),
        }
    }

    fn named<'a>(&'a self, name: &str, key: Option<&'a Key>) -> impl Iterator<Item = &'a str> {
        let short = self.by_short_name.get(name).into_iter().flatten().map(String::as_str);
        let aliases = self.aliases.get(name).into_iter().flatten();
        short.chain(aliases.filter(move |alias| alias.counts_for(key)).map(|alias| alias.service.as_str()))
    }
}

fn not_found(model: &str) -> Refusal {
    let message = format!("there is no model {model:?} that you may use: GET /v1/models lists them");
    Refusal::new(&MODEL_NOT_FOUND, message)
}

/// Refuse a service that a key may not use.
pub fn not_allowed(service: &str) -> Refusal {
    let message = format!("this API key may not use {service:?}: ask the owner of the key to add it");
    Refusal::new(&SERVICE_NOT_ALLOWED, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{Keys, tests::file};

    const MODELS: &[u8] = br#"{
        "services": [{"name": "ml/qwen", "created": 5}, {"name": "ml/llama"}, {"name": "web/qwen"}, {"name": "web/own"}],
        "aliases": [
            {"name": "gpt", "service": "ml/qwen", "namespaces": ["*"]},
            {"name": "gpt", "service": "web/qwen", "namespaces": ["web"]},
            {"name": "mine", "service": "ml/llama", "namespaces": ["ml"]},
            {"name": "gone", "service": "ml/gone", "namespaces": ["*"]}
        ]}"#;

    fn resolve(model: &str, services: Option<&[&str]>) -> Result<String, &'static str> {
        let models = Models::parse(MODELS, None).unwrap();
        let keys =
            Keys::parse(&file("a", serde_json::json!({"services": services.unwrap_or(&[])})), None).unwrap();
        let key = services.map(|_| keys.find(b"a").unwrap().as_ref());
        models.resolve(model, key).map_err(|refusal| refusal.code.name)
    }

    #[test]
    fn a_full_name_is_that_service_and_nothing_else() {
        assert_eq!(resolve("ml/qwen", Some(&["*"])).unwrap(), "ml/qwen");
        assert_eq!(resolve("ml/none", Some(&["*"])).unwrap_err(), "model_not_found");
        // Whether a service exists is no business of a key that may not use it.
        assert_eq!(resolve("web/own", Some(&["ml/*"])).unwrap_err(), "service_not_allowed");
        assert_eq!(resolve("web/none", Some(&["ml/*"])).unwrap_err(), "service_not_allowed");
    }

    #[test]
    fn a_short_name_is_looked_up_among_the_services_of_the_key() {
        assert_eq!(resolve("qwen", Some(&["ml/*"])).unwrap(), "ml/qwen");
        assert_eq!(resolve("qwen", Some(&["web/qwen"])).unwrap(), "web/qwen");
        assert_eq!(resolve("qwen", Some(&["*"])).unwrap_err(), "model_ambiguous");
        assert_eq!(resolve("own", Some(&["ml/*"])).unwrap_err(), "model_not_found");
        assert_eq!(resolve("qwen", Some(&[])).unwrap_err(), "model_not_found");
        assert_eq!(resolve("", Some(&["*"])).unwrap_err(), "model_not_found");
    }

    #[test]
    fn an_alias_of_another_namespace_does_not_count() {
        // The keys of these tests are of namespace ml.
        assert_eq!(resolve("gpt", Some(&["*"])).unwrap(), "ml/qwen");
        assert_eq!(resolve("mine", Some(&["*"])).unwrap(), "ml/llama");
        assert_eq!(resolve("mine", Some(&["web/*"])).unwrap_err(), "model_not_found");
        assert_eq!(resolve("gone", Some(&["*"])).unwrap_err(), "model_not_found");
        assert_eq!(resolve("mine", None).unwrap_err(), "model_not_found");
        assert_eq!(resolve("gpt", None).unwrap(), "ml/qwen");
    }

    #[test]
    fn a_refusal_names_those_that_fit() {
        let models = Models::parse(MODELS, None).unwrap();
        let body = models.resolve("qwen", None).unwrap_err().body();
        assert!(body.contains(r#"\"ml/qwen\", \"web/qwen\""#), "{body}");
        let services: Vec<_> = (1..=8).map(|number| format!(r#"{{"name":"n{number}/qwen"}}"#)).collect();
        let file = format!(r#"{{"services":[{}]}}"#, services.join(","));
        let models = Models::parse(file.as_bytes(), None).unwrap();
        let body = models.resolve("qwen", None).unwrap_err().body();
        assert!(body.contains(r#"\"n5/qwen\", and 3 more""#), "{body}");
    }

    #[test]
    fn the_list_has_what_the_key_may_use() {
        let models = Models::parse(MODELS, None).unwrap();
        let keys = Keys::parse(&file("a", serde_json::json!({"services": ["ml/*"]})), None).unwrap();
        let key = keys.find(b"a").map(AsRef::as_ref);
        let list: serde_json::Value = serde_json::from_str(&models.list(None, key).unwrap()).unwrap();
        let ids: Vec<_> = list["data"].as_array().unwrap().iter().map(|each| each["id"].clone()).collect();
        assert_eq!(ids, ["ml/llama", "ml/qwen", "gpt", "mine"]);
        let expected = r#"{"created":5,"id":"gpt","object":"model","owned_by":"ml"}"#;
        assert_eq!(models.list(Some("gpt"), key).unwrap(), expected);
        assert_eq!(models.list(Some("web/own"), key).unwrap_err().code, &MODEL_NOT_FOUND);
    }

    #[test]
    fn a_damaged_file_is_refused() {
        for wrong in [
            r#"{"services":[{"name":"qwen"}]}"#,
            r#"{"services":[],"aliases":[{"name":"a/b","service":"c/d","namespaces":[]}]}"#,
            r#"{"services":[],"other":1}"#,
            "[]",
        ] {
            assert!(Models::parse(wrong.as_bytes(), None).is_err(), "{wrong}");
        }
    }
}
