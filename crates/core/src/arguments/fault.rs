//! One thing wrong with the arguments, and the two ways it is told: a line for a model, an object for a
//! program. What was sent is clipped and secrets are masked before they get here.

use serde_json::{Value, json};

use super::Refusal;
use super::field;

/// Faults told in one refusal; more are counted.
pub(super) const SHOWN: usize = 10;

/// What kind of fault, in words that stay the same between versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Missing,
    Unknown,
    WhiteSpace,
    IntegerTooBig,
    Type,
    Enum,
    Pattern,
    Format,
    Length,
    Range,
    Other,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Kind::Missing => "missing",
            Kind::Unknown => "unknown",
            Kind::WhiteSpace => "white_space",
            Kind::IntegerTooBig => "integer_too_big",
            Kind::Type => "type",
            Kind::Enum => "enum",
            Kind::Pattern => "pattern",
            Kind::Format => "format",
            Kind::Length => "length",
            Kind::Range => "range",
            Kind::Other => "other",
        }
    }
}

/// One fault.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// Where, as a JSON pointer into the arguments.
    pub(crate) pointer: String,
    /// What kind.
    pub(crate) kind: Kind,
    /// What was sent, as JSON; null when nothing was.
    pub(crate) sent: Option<String>,
    /// What is wanted.
    pub(crate) wanted: String,
    /// What to do about it, as a fragment; may be empty.
    pub(crate) advice: String,
    /// The one value that would do, where there is one and it is no secret.
    pub(crate) send: Option<Value>,
}

/// Tells the faults of `arguments`; `total` counts those that are not in the list, too.
pub(crate) fn refusal(mut faults: Vec<Fault>, total: usize, arguments: Option<&Value>) -> Refusal {
    faults.truncate(SHOWN);
    let lines: Vec<String> = faults.iter().map(|fault| line(fault, arguments)).collect();
    let more = total.saturating_sub(faults.len());
    let message = match (lines.as_slice(), more) {
        ([only], 0) => only.clone(),
        (_, 0) => format!("{total} problems in the arguments:\n- {}", lines.join("\n- ")),
        _ => format!("{total} problems in the arguments:\n- {}\n- and {more} more", lines.join("\n- ")),
    };
    let problems = faults.iter().map(|fault| object(fault, arguments)).collect();
    Refusal { message, problems: Value::Array(problems) }
}

fn line(fault: &Fault, arguments: Option<&Value>) -> String {
    let field = field::path(&fault.pointer, arguments);
    let field = if fault.pointer.is_empty() { field } else { format!("`{field}`") };
    let is_there = arguments.is_some_and(|arguments| arguments.pointer(&fault.pointer).is_some());
    let fact = match (fault.kind, &fault.sent) {
        // An object that lacks one of several fields.
        (Kind::Missing, _) if is_there => format!("{field}: send {}", fault.wanted),
        (Kind::Missing, _) => format!("{field} is missing: send {}", fault.wanted),
        (Kind::Unknown, _) => format!("{field} is not a field of this tool"),
        (Kind::WhiteSpace, Some(sent)) => format!("{field} is {sent}, with white space that does not belong there"),
        (_, Some(sent)) => format!("{field} is {sent}; wanted: {}", fault.wanted),
        (_, None) => format!("{field}: wanted: {}", fault.wanted),
    };
    if fault.advice.is_empty() { fact } else { format!("{fact}; {}", fault.advice) }
}

fn object(fault: &Fault, arguments: Option<&Value>) -> Value {
    let mut object = json!({
        "field": field::path(&fault.pointer, arguments),
        "pointer": fault.pointer,
        "sent": fault.sent,
        "wanted": fault.wanted,
        "problem": fault.kind.as_str(),
    });
    if let Some(send) = &fault.send {
        object["send"] = send.clone();
    }
    object
}
