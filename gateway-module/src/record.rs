//! Record of a request for the access log, encoded by hand so that Envoy takes it in one call.

use serde::{Deserialize, Serialize};

/// Form of the record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum Form {
    /// Dynamic metadata: a `google.protobuf.Struct` in the wire format of Protocol Buffers.
    #[default]
    Metadata,
    /// Filter state: a JSON object as text.
    State,
    /// None is written.
    None,
}

/// Members of a record.
#[derive(Debug)]
pub struct Record {
    form: Form,
    encoded: Vec<u8>,
}

const USUAL_BYTES: usize = 512;

// Fields of google.protobuf.Value with their wire types (struct.proto).
const NUMBER: u8 = 2 << 3 | 1;
const STRING: u8 = 3 << 3 | 2;
const BOOL: u8 = 4 << 3;

/// Field of number 1 with a length: a member of a Struct, and the name in it.
const FIRST: u8 = 1 << 3 | 2;
const SECOND: u8 = 2 << 3 | 2;

impl Record {
    /// Return an empty record.
    pub fn new(form: Form) -> Self {
        let bytes = if form == Form::None { 0 } else { USUAL_BYTES };
        Record { form, encoded: Vec::with_capacity(bytes) }
    }

    /// Add a text; an empty one is left out.
    pub fn text(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        match self.form {
            Form::Metadata => {
                self.member(name, 1 + varint_bytes(value.len()) + value.len());
                self.bytes(STRING, value.as_bytes());
            }
            Form::State => self.json(name, value),
            Form::None => {}
        }
    }

    /// Add a number.
    pub fn number(&mut self, name: &str, value: u64) {
        match self.form {
            Form::Metadata => {
                self.member(name, 9);
                self.encoded.push(NUMBER);
                self.encoded.extend_from_slice(&(value as f64).to_le_bytes());
            }
            Form::State => self.json(name, value),
            Form::None => {}
        }
    }

    /// Add a truth.
    pub fn truth(&mut self, name: &str, value: bool) {
        match self.form {
            Form::Metadata => {
                self.member(name, 2);
                self.encoded.extend_from_slice(&[BOOL, value.into()]);
            }
            Form::State => self.json(name, value),
            Form::None => {}
        }
    }

    /// Return the encoded record; None if it is empty.
    pub fn encoded(mut self) -> Option<Vec<u8>> {
        if self.form == Form::State && !self.encoded.is_empty() {
            self.encoded.push(b'}');
        }
        (!self.encoded.is_empty()).then_some(self.encoded)
    }

    fn json(&mut self, name: &str, value: impl Serialize) {
        self.encoded.extend_from_slice(if self.encoded.is_empty() { b"{\"" } else { b",\"" });
        self.encoded.extend_from_slice(name.as_bytes());
        self.encoded.extend_from_slice(b"\":");
        // Nothing fails to be written to memory.
        let _ = serde_json::to_writer(&mut self.encoded, &value);
    }

    /// Begin a member whose encoded value has a length.
    fn member(&mut self, name: &str, value_bytes: usize) {
        let name_bytes = 1 + varint_bytes(name.len()) + name.len();
        self.length(FIRST, name_bytes + 1 + varint_bytes(value_bytes) + value_bytes);
        self.bytes(FIRST, name.as_bytes());
        self.length(SECOND, value_bytes);
    }

    fn bytes(&mut self, tag: u8, value: &[u8]) {
        self.length(tag, value.len());
        self.encoded.extend_from_slice(value);
    }

    fn length(&mut self, tag: u8, mut length: usize) {
        self.encoded.push(tag);
        while length > 0x7f {
            self.encoded.push(length as u8 | 0x80);
            length >>= 7;
        }
        self.encoded.push(length as u8);
    }
}

fn varint_bytes(mut length: usize) -> usize {
    let mut bytes = 1;
    while length > 0x7f {
        length >>= 7;
        bytes += 1;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(form: Form) -> Option<Vec<u8>> {
        let mut record = Record::new(form);
        record.text("a", "bc");
        record.number("n", 1);
        record.truth("t", true);
        record.text("empty", "");
        record.encoded()
    }

    #[test]
    fn metadata_is_encoded_as_protocol_buffers_are() {
        assert_eq!(Record::new(Form::Metadata).encoded(), None);
        let expected: &[u8] = b"\x0a\x09\x0a\x01a\x12\x04\x1a\x02bc\
            \x0a\x0e\x0a\x01n\x12\x09\x11\x00\x00\x00\x00\x00\x00\xf0\x3f\
            \x0a\x07\x0a\x01t\x12\x02\x20\x01";
        assert_eq!(encoded(Form::Metadata).unwrap(), expected);
    }

    #[test]
    fn a_long_text_has_a_length_of_several_bytes() {
        let mut record = Record::new(Form::Metadata);
        record.text("a", &"x".repeat(300));
        assert_eq!(record.encoded().unwrap()[..10], *b"\x0a\xb5\x02\x0a\x01a\x12\xaf\x02\x1a");
    }

    #[test]
    fn a_state_is_a_json_object() {
        assert_eq!(Record::new(Form::State).encoded(), None);
        assert_eq!(encoded(Form::State).unwrap(), br#"{"a":"bc","n":1,"t":true}"#);
        let mut record = Record::new(Form::State);
        record.text("a", "\"\n\\}");
        assert_eq!(record.encoded().unwrap(), br#"{"a":"\"\n\\}"}"#);
        assert_eq!(encoded(Form::None), None);
    }
}
