//! Headers of a request that the filter `front` decides on, read in one call.

use std::borrow::Cow;

use crate::abi::Lent;
use crate::names::{ADDRESS, API_KEY, AUTHORIZATION, CLIENT, HOPS, INTERNAL};
use crate::paths;
use crate::prompt::is_identity;
use crate::record::{Record, member};

/// Maximum of what a record has of a request's id, method and path.
const MOST_BYTES: [usize; 3] = [128, 16, 1024];

/// Values that almost every request has, and that need no copy.
const USUAL: [&str; 3] = ["POST", "GET", "application/json"];

/// Names as bytes, for comparison.
const CLIENT_NAME: &[u8] = CLIENT.as_bytes();
const AUTHORIZATION_NAME: &[u8] = AUTHORIZATION.as_bytes();
const API_KEY_NAME: &[u8] = API_KEY.as_bytes();
const HOPS_NAME: &[u8] = HOPS.as_bytes();
const ADDRESS_NAME: &[u8] = ADDRESS.as_bytes();

/// Values of one header.
#[derive(Debug, Default)]
pub struct Values<'a> {
    /// The first value.
    pub first: Option<&'a [u8]>,
    /// True if there are more.
    pub several: bool,
}

impl<'a> Values<'a> {
    fn add(&mut self, value: &'a [u8]) {
        if self.first.is_none() {
            self.first = Some(value);
        } else {
            self.several = true;
        }
    }
}

/// Headers that can have the key. They are lent, because no other headers are changed before the key is known.
#[derive(Debug, Default)]
pub struct Secrets<'a> {
    /// Key in the form of OpenAI's clients.
    pub authorization: Values<'a>,
    /// Key in the form of Anthropic's clients.
    pub api_key: Values<'a>,
}

/// Headers of a request. A text is its first value, and empty if that is absent or not UTF-8.
#[derive(Debug, Default)]
pub struct Head {
    /// `:method`.
    pub method: Cow<'static, str>,
    /// `:path`.
    pub path: String,
    /// `content-type`.
    pub content_type: Cow<'static, str>,
    /// `content-length`, if it is a number.
    pub content_length: Option<u64>,
    /// True if it has `content-length`.
    pub has_length: bool,
    /// True if it becomes a websocket, whose data is no body.
    pub is_upgrade: bool,
    /// True if its body is compressed.
    pub is_compressed: bool,
    /// True if it has `accept-encoding`.
    pub accepts_encodings: bool,
    /// True if it has the header that names the key.
    pub names_client: bool,
    /// True if it has a key in the form of OpenAI's clients.
    pub has_authorization: bool,
    /// True if it has a key in the form of Anthropic's clients.
    pub has_api_key: bool,
    /// Marks of the gateways before; None without any.
    pub hops: Option<Vec<u8>>,
    /// Names of headers that only the gateway may set.
    pub internal: Vec<String>,
    /// True if Envoy has set the address of the client.
    pub has_address: bool,
}

impl Head {
    /// Read the headers, and add to a record what they say, but for the query: it may hold a secret.
    pub fn read<'a>(headers: &[Lent<'a>], record: &mut Record) -> (Self, Secrets<'a>) {
        let [most_id, most_method, most_path] = MOST_BYTES;
        let (mut head, mut secrets) = (Head::default(), Secrets::default());
        let (mut encoding, mut length, mut hops, mut kind) = (None, None, None, None);
        let (mut method, mut path) = (None, None);
        for (name, value) in headers.iter().map(Lent::pair) {
            match name {
                b":method" => {
                    method = method.or(Some(value));
                    record.bytes(member!("method"), value, most_method);
                }
                b":path" => {
                    path = path.or(Some(value));
                    record.bytes(member!("path"), paths::before_query(value), most_path);
                }
                b"x-request-id" => record.bytes(member!("requestId"), value, most_id),
                // Servers differ in which of several they read, so several are none that can be read.
                b"content-type" => kind = Some(kind.map_or(value, |_| b"")),
                b"content-length" => length = length.or(Some(value)),
                b"content-encoding" => encoding = Some(encoding.map_or(value, |_| b"several")),
                b"upgrade" => head.is_upgrade = true,
                b"accept-encoding" => head.accepts_encodings = true,
                CLIENT_NAME => head.names_client = true,
                AUTHORIZATION_NAME => secrets.authorization.add(value),
                API_KEY_NAME => secrets.api_key.add(value),
                HOPS_NAME => hops = hops.or(Some(value)),
                ADDRESS_NAME => head.has_address = true,
                _ if INTERNAL.iter().any(|prefix| name.starts_with(prefix.as_bytes())) => {
                    head.internal.push(String::from_utf8_lossy(name).into_owned());
                }
                _ => {}
            }
        }
        head.method = usual(method);
        head.path = text(path).to_string();
        head.content_type = usual(kind);
        head.has_length = length.is_some();
        head.content_length = length.and_then(|length| std::str::from_utf8(length).ok()?.parse().ok());
        head.is_compressed = encoding.is_some_and(|encoding| !is_identity(encoding));
        head.hops = hops.map(<[u8]>::to_vec);
        head.has_authorization = secrets.authorization.first.is_some();
        head.has_api_key = secrets.api_key.first.is_some();
        (head, secrets)
    }
}

/// Headers of an answer, of which each text is the first value.
#[derive(Debug, Default)]
pub struct AnswerHead<'a> {
    /// `:status`.
    pub status: &'a [u8],
    /// `content-type`.
    pub content_type: &'a [u8],
    /// True if its body is compressed.
    pub is_compressed: bool,
    /// True if it has `content-length`.
    pub has_length: bool,
}

impl<'a> AnswerHead<'a> {
    /// Read the headers.
    pub fn read(headers: &[Lent<'a>]) -> Self {
        let mut head = AnswerHead::default();
        let (mut kind, mut encoding) = (None, None);
        for (name, value) in headers.iter().map(Lent::pair) {
            match name {
                b":status" => head.status = value,
                b"content-type" => kind = kind.or(Some(value)),
                b"content-encoding" => encoding = encoding.or(Some(value)),
                b"content-length" => head.has_length = true,
                _ => {}
            }
        }
        head.content_type = kind.unwrap_or_default();
        head.is_compressed = encoding.is_some_and(|encoding| encoding != b"identity");
        head
    }
}

fn text(value: Option<&[u8]>) -> &str {
    value.and_then(|value| std::str::from_utf8(value).ok()).unwrap_or_default()
}

fn usual(value: Option<&[u8]>) -> Cow<'static, str> {
    let same = USUAL.into_iter().find(|usual| value == Some(usual.as_bytes()));
    same.map_or_else(|| text(value).to_string().into(), Cow::Borrowed)
}
