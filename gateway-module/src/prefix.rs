//! Beginning of a prompt, by which requests for the same text go to the same backend.

use serde::Deserialize;
use serde_json::value::RawValue;

/// Bytes of the prompt that count.
const BYTES: usize = 2048;

/// Members that hold the prompt, in the APIs of OpenAI and Anthropic.
#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow)]
    system: Option<&'a RawValue>,
    #[serde(borrow)]
    instructions: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

/// Return the hash of the beginning of the prompt in a JSON body; None if it has none.
pub fn hash_of(body: &[u8]) -> Option<u64> {
    let members: Members = serde_json::from_slice(body).ok()?;
    let texts = [members.system, members.instructions, members.messages, members.prompt, members.input];
    let mut hash = Hash::default();
    let mut left = BYTES;
    for text in texts.into_iter().flatten().map(|raw| raw.get().as_bytes()) {
        let counted = &text[..text.len().min(left)];
        hash.add(counted);
        left -= counted.len();
    }
    (left < BYTES).then_some(hash.0)
}

/// Return the hash of bytes (FNV-1a), the same in every gateway.
pub fn hash(bytes: &[u8]) -> u64 {
    let mut hash = Hash::default();
    hash.add(bytes);
    hash.0
}

/// Return the hash of as many bytes as count.
pub fn hash_of_start(bytes: &[u8]) -> u64 {
    hash(&bytes[..bytes.len().min(BYTES)])
}

struct Hash(u64);

impl Default for Hash {
    fn default() -> Self {
        Hash(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_the_same_if_their_first_bytes_are() {
        let body = |text: &str, more: &str| {
            format!(r#"{{"model":"a","messages":[{{"role":"system","content":"{text}"}},{more}]}}"#)
        };
        let long = "x".repeat(BYTES);
        let hashes = [(&long[..], "1"), (&long, "2"), ("short", "1"), ("short", "2")]
            .map(|(text, more)| hash_of(body(text, more).as_bytes()).unwrap());
        assert_eq!(hashes[0], hashes[1]);
        assert!(hashes[2] != hashes[3] && hashes[0] != hashes[2]);
    }

    #[test]
    fn other_members_do_not_count_and_each_form_of_a_prompt_does() {
        let same = [r#"{"prompt":"a","seed":1}"#, r#"{"seed":2,"prompt":"a","model":"b"}"#];
        assert_eq!(hash_of(same[0].as_bytes()), hash_of(same[1].as_bytes()));
        for body in [r#"{"input":"a"}"#, r#"{"system":"a"}"#, r#"{"instructions":"a","input":"b"}"#] {
            assert!(hash_of(body.as_bytes()).is_some(), "{body}");
        }
        for body in [
            "",
            "{}",
            "[]",
            r#"{"model":"a"}"#,
            r#"{"prompt":"a","prompt":"b"}"#,
            "{\"prompt\":\"a\"",
            "\u{7f}",
        ] {
            assert_eq!(hash_of(body.as_bytes()), None, "{body}");
        }
    }
}
