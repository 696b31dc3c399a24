//! Token counts in answers of the OpenAI and Anthropic APIs.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::scan::Scan;

/// A count above this is not believed.
const MOST_TOKENS: u64 = 1 << 32;

/// Name of the member with the counts. Within a string its quotes would have backslashes.
pub static NAME: LazyLock<Finder> = LazyLock::new(|| Finder::new(b"\"usage\""));

/// Tokens of one answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Counts")]
pub struct Usage {
    /// Tokens of the prompt, also those that a cache had.
    pub prompt: u64,
    /// Tokens of the answer.
    pub completion: u64,
}

impl Usage {
    /// Return the sum.
    pub fn total(self) -> u64 {
        self.prompt + self.completion
    }

    /// Return the larger of each count. Anthropic's events tell them one after the other.
    pub fn max(self, other: Usage) -> Usage {
        Usage { prompt: self.prompt.max(other.prompt), completion: self.completion.max(other.completion) }
    }
}

#[derive(Default, Deserialize)]
struct Counts {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
}

impl From<Counts> for Usage {
    fn from(counts: Counts) -> Self {
        let known = |count: Option<u64>| count.filter(|count| *count <= MOST_TOKENS).unwrap_or_default();
        let cached = known(counts.cache_creation_input_tokens) + known(counts.cache_read_input_tokens);
        let completion = known(counts.completion_tokens.or(counts.output_tokens));
        let prompt = match counts.prompt_tokens {
            None if counts.input_tokens.is_none() && cached == 0 => {
                known(counts.total_tokens).saturating_sub(completion)
            }
            None => known(counts.input_tokens) + cached,
            Some(prompt) => known(Some(prompt)),
        };
        Usage { prompt, completion }
    }
}

#[derive(Deserialize)]
struct Inner {
    usage: Option<Usage>,
}

/// Answer or event: OpenAI's has `usage`, an event of its responses API and of Anthropic's API has it one level below.
#[derive(Deserialize)]
struct Holder {
    usage: Option<Usage>,
    choices: Option<Vec<IgnoredAny>>,
    response: Option<Inner>,
    message: Option<Inner>,
}

/// Token counts of an answer or event.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// The counts.
    pub usage: Usage,
    /// True if it is an event with nothing but counts, as OpenAI's API sends it to those who ask.
    pub alone: bool,
}

/// Return the token counts of an answer or event, if it has any.
pub fn find(json: &[u8]) -> Option<Found> {
    // An engine may say in each event that it does not know them yet.
    match only_value(json) {
        Some(value) if value.starts_with(b"null") => None,
        None if NAME.find(json).is_none() => None,
        _ => scan_event(json).or_else(|| read(json)),
    }
}

/// Return the token counts of a document that has `usage` once, wherever that is, without reading the rest.
pub fn find_only(json: &[u8]) -> Option<Usage> {
    let json = only_value(json)?;
    scan_counts(&mut Scan::of(json)).or_else(|| value(json))
}

/// Return a document from the value of its one member `usage`.
fn only_value(json: &[u8]) -> Option<&[u8]> {
    let mut places = NAME.find_iter(json);
    let (place, None) = (places.next()?, places.next()) else { return None };
    let value = json[place + NAME.needle().len()..].trim_ascii_start().strip_prefix(b":")?;
    Some(value.trim_ascii_start())
}

/// Return the token counts of an event in the usual form; None leaves it to the other reader.
pub fn scan_event(json: &[u8]) -> Option<Found> {
    let (mut usage, mut choices) = (None, None);
    Scan::of(json).document(|scan, name| {
        match name {
            b"usage" if usage.is_none() => usage = Some(scan_counts(scan)?),
            b"choices" if choices.is_none() => choices = Some(scan.value()?),
            b"usage" | b"choices" | b"response" | b"message" => return None,
            _ => _ = scan.value()?,
        }
        Some(())
    })?;
    let choices = choices?.strip_prefix(b"[")?.trim_ascii_start();
    Some(Found { usage: usage?, alone: choices == b"]" })
}

/// Return the counts of a value of `usage` in the usual form; None leaves it to the other reader.
fn scan_counts(scan: &mut Scan) -> Option<Usage> {
    let mut counts = Counts::default();
    scan.object(|scan, name| {
        let count = match name {
            b"prompt_tokens" => &mut counts.prompt_tokens,
            b"completion_tokens" => &mut counts.completion_tokens,
            b"total_tokens" => &mut counts.total_tokens,
            b"input_tokens" => &mut counts.input_tokens,
            b"output_tokens" => &mut counts.output_tokens,
            b"cache_creation_input_tokens" => &mut counts.cache_creation_input_tokens,
            b"cache_read_input_tokens" => &mut counts.cache_read_input_tokens,
            _ => return scan.value().map(|_| ()),
        };
        count.replace(scan.integer()?).is_none().then_some(())
    })?;
    Some(counts.into())
}

/// Return the token counts of an event in any form.
pub fn read(json: &[u8]) -> Option<Found> {
    let holder: Holder = serde_json::from_slice(json).ok()?;
    let alone = holder.usage.is_some() && holder.choices.is_some_and(|choices| choices.is_empty());
    let below = |inner: Option<Inner>| inner.and_then(|inner| inner.usage);
    let usage = holder.usage.or_else(|| below(holder.response)).or_else(|| below(holder.message))?;
    Some(Found { usage, alone })
}

/// Return the counts of a value of `usage` at the begin of a text.
pub fn value(json: &[u8]) -> Option<Usage> {
    serde_json::Deserializer::from_slice(json).into_iter().next()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(json: &str) -> Option<(u64, u64)> {
        find(json.as_bytes()).map(|found| (found.usage.prompt, found.usage.completion))
    }

    #[test]
    fn counts_of_each_api_are_read() {
        for (json, expected) in [
            (r#"{"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}"#, Some((3, 4))),
            (r#"{"usage":{"prompt_tokens":3,"total_tokens":3}}"#, Some((3, 0))),
            (r#"{"usage":{"total_tokens":5}}"#, Some((5, 0))),
            (r#"{"usage":{"input_tokens":3,"output_tokens":4,"cache_read_input_tokens":10}}"#, Some((13, 4))),
            (
                r#"{"type":"response.completed","response":{"usage":{"input_tokens":1,"output_tokens":2}}}"#,
                Some((1, 2)),
            ),
            (
                r#"{"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":1}}}"#,
                Some((9, 1)),
            ),
            (r#"{"usage":null}"#, None),
            (r#"{"usage":{"prompt_tokens":-1}}"#, None),
            (r#"{"usage":5}"#, None),
            (r#"[1]"#, None),
            ("", None),
        ] {
            assert_eq!(usage(json), expected, "{json}");
        }
        assert_eq!(
            usage(r#"{"usage":{"prompt_tokens":18446744073709551615,"completion_tokens":1}}"#),
            Some((0, 1))
        );
    }

    #[test]
    fn counts_are_read_alone_where_there_is_no_doubt() {
        let found = |json: &str| find_only(json.as_bytes()).map(|usage| (usage.prompt, usage.completion));
        let counts = r#""usage" : {"prompt_tokens":3,"completion_tokens":4}"#;
        assert_eq!(found(&format!(r#"{{"a":"\"usage\":{{}}",{counts}}}"#)), Some((3, 4)));
        assert_eq!(found(&format!(r#"{{"a":"usage",{counts}}}"#)), None);
        assert_eq!(found(&format!(r#"{{"a":{{{counts}}},{counts}}}"#)), None);
        assert_eq!(found(r#"{"a":"usage"}"#), None);
        assert_eq!(usage(r#"{"choices":[{"usage":{}}],"usage":{"prompt_tokens":1}}"#), Some((1, 0)));
    }

    #[test]
    fn an_event_with_nothing_but_counts_is_known() {
        let alone = |json: &str| find(json.as_bytes()).unwrap().alone;
        assert!(alone(r#"{"choices":[],"usage":{"prompt_tokens":1}}"#));
        assert!(!alone(r#"{"choices":[{}],"usage":{"prompt_tokens":1}}"#));
        assert!(!alone(r#"{"usage":{"prompt_tokens":1}}"#));
    }
}
