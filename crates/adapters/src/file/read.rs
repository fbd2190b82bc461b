//! `read`: the text of one file, whole or some of its lines.

use encoding_rs::{Encoding, UTF_8};
use reach_core::{Answer, Object, Payload};
use serde_json::{Value, json};

use super::decode::{Decoded, decode};
use super::failure::Error;
use super::path::RelativePath;
use super::root::Root;

/// The settings of a `read`.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) max_bytes: u64,
    pub(super) encoding: Option<&'static Encoding>,
    /// Whether the tool declares `start_line` or `end_line`.
    pub(super) takes_lines: bool,
}

/// Lines from 1, both ends included; an absent end is the file's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lines {
    start: Option<usize>,
    end: Option<usize>,
}

impl Read {
    /// The lines asked for.
    pub(super) fn lines(&self, arguments: &Object) -> Result<Lines, Error> {
        if !self.takes_lines {
            return Ok(Lines::default());
        }
        let line = |name: &str| match arguments.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_u64().and_then(|line| usize::try_from(line).ok()) {
                Some(line) if line > 0 => Ok(Some(line)),
                _ => Err(Error::Refused(format!("`{name}` is a line number, from 1"))),
            },
        };
        let lines = Lines { start: line("start_line")?, end: line("end_line")? };
        match (lines.start, lines.end) {
            (Some(start), Some(end)) if end < start => {
                Err(Error::Refused(format!("`end_line` {end} is before `start_line` {start}")))
            }
            _ => Ok(lines),
        }
    }

    pub(super) fn run(&self, root: &Root, path: &RelativePath, lines: Lines) -> Result<Answer, Error> {
        let bytes = root.bytes(path, self.max_bytes)?;
        let size = bytes.len();
        let (text, encoding) = match decode(&bytes, self.encoding) {
            Some(Decoded::Text(text, encoding)) => (text, encoding),
            Some(Decoded::Binary(media_type)) => {
                return Ok(Answer::from(Payload::Binary { media_type: media_type.to_owned(), bytes }));
            }
            None => {
                let encoding = self.encoding.map_or(UTF_8.name(), Encoding::name);
                return Err(Error::NotText { path: path.as_str().to_owned(), encoding });
            }
        };
        let count = text.lines().count();
        let mut data = json!({"path": path.as_str(), "text": "", "lines": count, "bytes": size});
        if encoding != UTF_8.name() {
            data["encoding"] = encoding.into();
        }
        data["text"] = match (lines.start, lines.end) {
            (None, None) => text.into(),
            (start, end) => {
                let start = start.unwrap_or(1);
                if start > count.max(1) {
                    return Err(Error::NoSuchLine { path: path.as_str().to_owned(), lines: count, asked: start });
                }
                let end = end.unwrap_or(count).min(count);
                data["start_line"] = start.into();
                data["end_line"] = end.into();
                let wanted = text.split_inclusive('\n').skip(start - 1).take((end + 1).saturating_sub(start));
                wanted.collect::<String>().into()
            }
        };
        Ok(super::answer(data))
    }
}
