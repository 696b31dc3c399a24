//! Credentials of backends: secrets that only the attempt at their own backend carries.

use std::collections::HashMap;

use serde::Deserialize;

/// Headers that may carry a credential. Only these are restored for the next attempt.
pub const HEADERS: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    header: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CredentialsFile {
    credentials: HashMap<String, Entry>,
}

/// Header with a secret.
#[derive(Clone)]
pub struct Credential {
    /// One of `HEADERS`.
    pub header: &'static str,
    /// Its value.
    pub value: String,
}

/// All credentials of a gateway.
pub struct Credentials(HashMap<String, Credential>);

impl Credentials {
    /// Read the file of credentials. No error quotes a value.
    pub fn parse(text: &[u8], _before: Option<&Credentials>) -> Result<Self, String> {
        let file: CredentialsFile = serde_json::from_slice(text).map_err(|error| {
            format!("not of the form of credentials.json: line {}, column {}", error.line(), error.column())
        })?;
        let mut credentials = HashMap::with_capacity(file.credentials.len());
        for (name, Entry { header, value }) in file.credentials {
            let known = HEADERS.into_iter().find(|known| *known == header);
            let header =
                known.ok_or_else(|| format!("credential {name:?}: header is none of {HEADERS:?}"))?;
            if value.is_empty() || !value.bytes().all(|each| each == b' ' || each.is_ascii_graphic()) {
                return Err(format!("credential {name:?}: value is empty or has invisible characters"));
            }
            credentials.insert(name, Credential { header, value });
        }
        Ok(Credentials(credentials))
    }

    /// Return a credential by its name.
    pub fn get(&self, name: &str) -> Option<&Credential> {
        self.0.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_refused_without_its_secrets() {
        for wrong in [
            r#"{"credentials":{"a":{"header":"cookie","value":"sk-secret"}}}"#,
            r#"{"credentials":{"a":{"header":"api-key","value":"sk-secret\r\nx: y"}}}"#,
            r#"{"credentials":{"a":{"header":"api-key","value":""}}}"#,
            r#"{"credentials":{"a":{"header":"api-key","value":["sk-secret"]}}}"#,
            r#"{"credentials":{"a":{"header":"api-key","valu":"sk-secret"}}}"#,
            r#"{"credentials":"sk-secret"}"#,
        ] {
            let error = Credentials::parse(wrong.as_bytes(), None).err().unwrap();
            assert!(!error.contains("sk-secret"), "{error}");
        }
        let right = r#"{"credentials":{"a":{"header":"api-key","value":"sk-secret"}}}"#;
        let credentials = Credentials::parse(right.as_bytes(), None).ok().unwrap();
        assert_eq!(credentials.get("a").map(|each| each.value.as_str()), Some("sk-secret"));
        assert!(credentials.get("b").is_none());
    }
}
