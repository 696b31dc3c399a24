//! Body of a request: the model that it names, and changes that leave the rest byte for byte.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::abi::{Headers, Stream};
use crate::multipart;

/// Request for the token counts of a stream.
const ASK: &str = r#""stream_options":{"include_usage":true},"#;

/// A longer name of a model is refused: it would be in errors, logs and headers.
const MOST_MODEL_BYTES: usize = 512;

/// Form of a body that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form<'a> {
    /// JSON.
    Json,
    /// `multipart/form-data` with its boundary.
    Multipart(&'a str),
}

impl<'a> Form<'a> {
    /// Return the form that a `content-type` announces.
    pub fn of(content_type: &'a str) -> Option<Self> {
        let (kind, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
        let kind = kind.trim();
        if kind.eq_ignore_ascii_case("application/json") {
            return Some(Form::Json);
        }
        let kind = kind.to_ascii_lowercase();
        match kind.as_str() {
            "multipart/form-data" => multipart::boundary(parameters).map(Form::Multipart),
            _ => (kind.starts_with("application/") && kind.ends_with("+json")).then_some(Form::Json),
        }
    }
}

/// Return whether a request becomes a websocket, whose data is no body.
pub fn is_upgrade(stream: &Stream) -> bool {
    stream.count(Headers::Request, "upgrade") > 0
}

/// Return whether the body of a request is compressed.
pub fn is_compressed(stream: &Stream) -> bool {
    let encoding = stream.header(Headers::Request, "content-encoding");
    encoding.is_some_and(|encoding| !is_identity(encoding))
}

/// Return whether a `content-encoding` is none.
pub fn is_identity(encoding: &[u8]) -> bool {
    encoding.eq_ignore_ascii_case(b"identity")
}

/// Members that the module reads. A member that occurs twice is an error: servers differ in which one they take.
#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    stream: Option<bool>,
    #[serde(borrow, default, deserialize_with = "present")]
    stream_options: Option<&'a RawValue>,
}

/// Tell null, which has a place in the body, from an absent member.
fn present<'a, D: Deserializer<'a>>(value: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

#[derive(Deserialize, Default)]
struct StreamOptions {
    include_usage: Option<bool>,
}

/// What the module knows of a body.
#[derive(Debug, PartialEq)]
pub struct Prompt<'a> {
    /// Value of `model`.
    pub model: Option<Cow<'a, str>>,
    place: Option<Range<usize>>,
    quoted: bool,
    ask: Option<Edit>,
}

#[derive(Debug, PartialEq)]
struct Edit(Range<usize>, String);

impl<'a> Prompt<'a> {
    /// Read a body.
    pub fn read(body: &'a [u8], form: Form) -> Result<Self, String> {
        let prompt = match form {
            Form::Json => Self::read_json(body),
            Form::Multipart(boundary) => {
                let place = multipart::field(body, boundary, "model")?;
                let model = place.clone().map(|place| std::str::from_utf8(&body[place]));
                let model = model.transpose().map_err(|_| "the model is not UTF-8")?.map(Cow::Borrowed);
                Ok(Prompt { model, place, quoted: false, ask: None })
            }
        }?;
        match prompt.model.as_deref().map(str::len) {
            Some(length) if length > MOST_MODEL_BYTES => {
                Err(format!("the model's name is longer than {MOST_MODEL_BYTES} bytes"))
            }
            _ => Ok(prompt),
        }
    }

    fn read_json(body: &'a [u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(body).map_err(|_| "the body is not UTF-8")?;
        if !text.trim_start().starts_with('{') {
            return Err("the body is not a JSON object".into());
        }
        let members: Members = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let model = members.model.map(|raw| serde_json::from_str(raw.get()));
        let model = model.transpose().map_err(|_| "model is not a string")?;
        let place = |raw: &RawValue| {
            let start = raw.get().as_ptr() as usize - text.as_ptr() as usize;
            start..start + raw.get().len()
        };
        let ask = (members.stream == Some(true)).then(|| ask(text, members.stream_options, place)).flatten();
        Ok(Prompt { model, place: members.model.map(place), quoted: true, ask })
    }

    /// Return the body with the request for token counts; None if the client asked itself or cannot ask.
    pub fn asking(&self, body: &[u8]) -> Option<Vec<u8>> {
        self.ask.as_ref().map(|edit| edit.apply(body))
    }

    /// Return the body with another model; None if it names none.
    pub fn renamed(&self, body: &[u8], model: &str) -> Option<Vec<u8>> {
        let place = self.place.clone()?;
        let model = if self.quoted { serde_json::json!(model).to_string() } else { model.to_string() };
        Some(Edit(place, model).apply(body))
    }
}

impl Edit {
    fn apply(&self, body: &[u8]) -> Vec<u8> {
        let Edit(place, text) = self;
        [&body[..place.start], text.as_bytes(), &body[place.end..]].concat()
    }
}

fn ask(text: &str, options: Option<&RawValue>, place: impl Fn(&RawValue) -> Range<usize>) -> Option<Edit> {
    let Some(options) = options else {
        // An object with `stream` has a member, which the comma separates.
        let start = text.find('{')? + 1;
        return Some(Edit(start..start, ASK.into()));
    };
    let asked: Option<StreamOptions> = serde_json::from_str(options.get()).ok()?;
    if asked.unwrap_or_default().include_usage == Some(true) {
        return None;
    }
    let mut value: serde_json::Value = serde_json::from_str(options.get()).ok()?;
    if value.is_null() {
        value = serde_json::json!({});
    }
    value.as_object_mut()?.insert("include_usage".into(), true.into());
    Some(Edit(place(options), value.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(body: &str) -> Option<String> {
        let prompt = Prompt::read(body.as_bytes(), Form::Json).unwrap();
        prompt.asking(body.as_bytes()).map(|body| String::from_utf8(body).unwrap())
    }

    fn model(body: &str) -> Result<Option<String>, String> {
        Prompt::read(body.as_bytes(), Form::Json).map(|prompt| prompt.model.map(Cow::into_owned))
    }

    #[test]
    fn the_model_is_read_wherever_it_is_and_however_it_is_written() {
        assert_eq!(model(r#"{"a":{"model":"no"},"model":"ml/qwen"}"#).unwrap().unwrap(), "ml/qwen");
        assert_eq!(model(r#" {"m\u006fdel" : "a\/b"}"#).unwrap().unwrap(), "a/b");
        assert_eq!(model("{}").unwrap(), None);
        assert_eq!(model(r#"{"model":null}"#).unwrap(), None);
    }

    #[test]
    fn a_body_that_servers_could_read_differently_is_refused() {
        for wrong in [
            r#"{"model":"a","model":"b"}"#,
            r#"{"model":"a","m\u006fdel":"b"}"#,
            r#"{"model":["a"]}"#,
            r#"{"model":"a"} {"model":"b"}"#,
            r#"{"stream":true,"stream":false}"#,
            r#"["model"]"#,
            r#"["ml/qwen",true,null]"#,
            "",
            "{",
            "model=a",
        ] {
            assert!(model(wrong).is_err(), "{wrong}");
        }
        assert!(Prompt::read(b"{\"model\":\"\xff\"}", Form::Json).is_err());
        assert!(
            model(&format!(r#"{{"model":"{}"}}"#, "x".repeat(513))).unwrap_err().contains("longer than 512")
        );
    }

    #[test]
    fn token_counts_are_asked_for_only_where_the_client_did_not() {
        assert_eq!(
            asking(r#"{"stream":true,"x":1.0}"#).unwrap(),
            r#"{"stream_options":{"include_usage":true},"stream":true,"x":1.0}"#
        );
        for (options, expected) in [
            ("null", r#"{"include_usage":true}"#),
            ("{}", r#"{"include_usage":true}"#),
            (r#"{"include_usage":false,"other":1}"#, r#"{"include_usage":true,"other":1}"#),
        ] {
            let body = |options: &str| format!(r#"{{"stream":true,"stream_options":{options}}}"#);
            assert_eq!(asking(&body(options)).unwrap(), body(expected));
        }
        assert_eq!(asking(r#"{"stream":true,"stream_options":{"include_usage":true}}"#), None);
        assert_eq!(asking(r#"{"stream":true,"stream_options":5}"#), None);
        assert_eq!(asking(r#"{"stream":false}"#), None);
        assert_eq!(asking(r#"{"model":"a"}"#), None);
    }

    #[test]
    fn a_renamed_body_differs_in_the_model_only() {
        let body = br#"{ "n": 1.00, "model" : "a" , "x":"\u00e9"}"#;
        let prompt = Prompt::read(body, Form::Json).unwrap();
        let renamed = prompt.renamed(body, "b\"c").unwrap();
        assert_eq!(renamed, br#"{ "n": 1.00, "model" : "b\"c" , "x":"\u00e9"}"#);
        assert_eq!(Prompt::read(b"{}", Form::Json).unwrap().renamed(b"{}", "b"), None);
    }

    #[test]
    fn the_form_follows_from_the_content_type() {
        for (kind, expected) in [
            ("application/json", Some(Form::Json)),
            ("Application/JSON; charset=utf-8", Some(Form::Json)),
            ("application/vnd.api+json", Some(Form::Json)),
            ("multipart/form-data; boundary=x", Some(Form::Multipart("x"))),
            ("multipart/form-data", None),
            ("text/plain", None),
            ("", None),
        ] {
            assert_eq!(Form::of(kind), expected, "{kind}");
        }
    }
}
