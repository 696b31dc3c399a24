//! Encoding of a `google.protobuf.Struct`, the form of dynamic metadata.
//!
//! A Struct is its encoded members, one after the other. A value is an encoded `google.protobuf.Value`.

/// Return a member of a Struct.
pub fn member(name: &str, value: &[u8]) -> Vec<u8> {
    field(1, &[field(1, name.as_bytes()), field(2, value)].concat())
}

/// Return the value of a number.
pub fn number(value: u64) -> Vec<u8> {
    const DOUBLE: u8 = 2 << 3 | 1;
    let mut encoded = vec![DOUBLE];
    encoded.extend_from_slice(&(value as f64).to_le_bytes());
    encoded
}

/// Return the value of a text.
pub fn text(value: &str) -> Vec<u8> {
    field(3, value.as_bytes())
}

/// Return the value of a Struct with these members.
pub fn object(members: &[Vec<u8>]) -> Vec<u8> {
    field(5, &members.concat())
}

/// Return the value of a list of values.
pub fn list(values: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    field(6, &values.flat_map(|value| field(1, &value)).collect::<Vec<u8>>())
}

/// Return a field with a length.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut encoded = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        encoded.push(length as u8 | 0x80);
        length >>= 7;
    }
    encoded.push(length as u8);
    encoded.extend_from_slice(content);
    encoded
}
