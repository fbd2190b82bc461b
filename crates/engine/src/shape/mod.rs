//! Shaping results: from whatever the upstream answered to what a model can read.
use reach_core::{Object, Payload, tool::Shape};
pub(crate) enum Decoded {
    Data(Object),
    Binary { media_type: String, bytes: Vec<u8> },
}
pub(crate) fn data_of(payload: Payload) -> Decoded {
    match payload {
        Payload::Empty => Decoded::Data(Object::new()),
        Payload::Json(serde_json::Value::Object(o)) => Decoded::Data(o),
        Payload::Json(v) => {
            let mut o = Object::new();
            o.insert("value".into(), v);
            Decoded::Data(o)
        }
        Payload::Text(v) => {
            let mut o = Object::new();
            o.insert("value".into(), v.into());
            Decoded::Data(o)
        }
        Payload::Binary { media_type, bytes } => Decoded::Binary { media_type, bytes },
    }
}
pub(crate) struct Cut {
    pub shown: u64,
    pub total: u64,
    pub how: &'static str,
}
pub(crate) struct Shaped {
    pub data: Object,
    pub truncated: Option<Cut>,
}
pub(crate) fn shorten(data: Object, _limit: usize, _how: Shape, _query: &str) -> Shaped {
    Shaped { data, truncated: None }
}
