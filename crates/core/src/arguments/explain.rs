//! From validation errors to faults that a model can mend.
//!
//! A validator says what failed; a model needs to know what to send. A union reports the branch that came
//! nearest, a field with two broken rules is told once, and the two most common slips (white space at an
//! end, a number in quotes) are named as such. Runs only when arguments are refused.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Cause;
use serde_json::Value;

use super::coerce;
use super::family::Document;
use super::fault::{Fault, Kind, SHOWN};
use super::field::{clipped, step};
use super::places::{escape, parent, segments};
use super::schema::Schema;
use super::wanted;
use crate::nearest::nearest;
use crate::redact;

/// Faults gathered before the rest is only counted.
const GATHERED: usize = 2 * SHOWN;

/// Explains why values do not fit one schema.
pub(super) struct Explainer<'a> {
    /// The compiled schema.
    pub(super) schema: &'a Schema,
    /// The same schema as a document.
    pub(super) document: &'a Document<'a>,
    /// What is judged.
    pub(super) instance: &'a Value,
    /// The arguments with secrets masked, to quote from.
    pub(super) masked: &'a Value,
}

impl Explainer<'_> {
    /// The faults, and how many there are in all.
    pub(super) fn faults(&self) -> (Vec<Fault>, usize) {
        let mut faults: Vec<Fault> = Vec::new();
        let mut total = 0;
        for error in self.schema.errors(self.instance) {
            if total >= GATHERED {
                total += 1;
                continue;
            }
            for fault in self.explain(&error) {
                match faults.iter_mut().find(|known| known.pointer == fault.pointer) {
                    // Two rules broken at one place: the one that says more about what to send.
                    Some(known) if fault.kind < known.kind => *known = fault,
                    Some(_) => {}
                    None => {
                        total += 1;
                        faults.push(fault);
                    }
                }
            }
        }
        (faults, total)
    }

    fn explain(&self, error: &ValidationError<'_>) -> Vec<Fault> {
        let place = error.instance_path().as_str();
        let node = parent(error.schema_path().as_str());
        match error.kind() {
            Cause::Required { property } => {
                property.as_str().map(|name| self.missing(place, node, name)).into_iter().collect()
            }
            Cause::AdditionalProperties { unexpected } => {
                unexpected.iter().map(|name| self.unknown(place, node, name)).collect()
            }
            Cause::UnevaluatedProperties { unexpected } => self.unevaluated(place, node, unexpected),
            Cause::AnyOf { context } | Cause::OneOfNotValid { context } => self.nearest_branch(place, node, context),
            Cause::OneOfMultipleValid { .. } => {
                let advice = "send the fields of one of them only";
                vec![self.fault(place, Kind::Other, "a value that fits one of the alternatives, not several", advice)]
            }
            Cause::FalseSchema => {
                vec![self.fault(place, Kind::Unknown, "nothing here", "leave it out")]
            }
            Cause::PropertyNames { error } => {
                let advice = format!("rename the field {}", clipped(&error.instance().to_string()));
                vec![self.fault(place, Kind::Other, "field names as the tool describes them", &advice)]
            }
            Cause::UniqueItems => {
                vec![self.fault(place, Kind::Other, "items that all differ", "take the repeated items out")]
            }
            Cause::Type { .. } => vec![self.wrong_type(place, node)],
            Cause::Enum { .. } | Cause::Constant { .. } => vec![self.wrong_value(place, node)],
            Cause::Pattern { .. } => vec![self.broken(place, node, Kind::Pattern)],
            Cause::Format { .. } => vec![self.broken(place, node, Kind::Format)],
            Cause::MinLength { .. } | Cause::MaxLength { .. } => {
                let count = error.instance().as_str().map_or(0, |text| text.chars().count());
                vec![self.broken(place, node, Kind::Length).or_advice(&format!("it has {count} characters"))]
            }
            Cause::MinItems { .. }
            | Cause::MaxItems { .. }
            | Cause::AdditionalItems { .. }
            | Cause::UnevaluatedItems { .. } => {
                let count = error.instance().as_array().map_or(0, Vec::len);
                vec![self.broken(place, node, Kind::Length).or_advice(&format!("it has {count} items"))]
            }
            Cause::MinProperties { .. } | Cause::MaxProperties { .. } => {
                let count = error.instance().as_object().map_or(0, |object| object.len());
                vec![self.broken(place, node, Kind::Length).or_advice(&format!("it has {count} fields"))]
            }
            Cause::Minimum { .. }
            | Cause::Maximum { .. }
            | Cause::ExclusiveMinimum { .. }
            | Cause::ExclusiveMaximum { .. }
            | Cause::MultipleOf { .. } => vec![self.broken(place, node, Kind::Range)],
            _ => {
                let masked = error.masked_with("the value").to_string();
                vec![self.fault(place, Kind::Other, &wanted::words(self.document, node), &clipped(&masked))]
            }
        }
    }

    /// A number that lost digits on its way here, or would on its way out.
    pub(super) fn too_big(&self, place: &str) -> Fault {
        self.fault(place, Kind::IntegerTooBig, "integer that fits into 64 bits", "digits of it would be lost")
    }

    fn fault(&self, place: &str, kind: Kind, wanted: &str, advice: &str) -> Fault {
        Fault {
            pointer: place.to_owned(),
            kind,
            sent: self.sent(place),
            wanted: wanted.to_owned(),
            advice: advice.to_owned(),
            send: None,
        }
    }

    fn missing(&self, place: &str, node: &str, name: &str) -> Fault {
        let schema = self.field_schema(node, name).or_else(|| self.field_schema("", name).filter(|_| place.is_empty()));
        let mut wanted =
            schema.as_ref().map_or_else(|| "a value".to_owned(), |schema| wanted::words(self.document, schema));
        if let Some(text) = schema.and_then(|schema| wanted::description(self.document, &schema)) {
            wanted.push_str(&format!(" ({text})"));
        }
        Fault {
            pointer: format!("{place}/{}", escape(name)),
            kind: Kind::Missing,
            sent: None,
            wanted,
            advice: String::new(),
            send: None,
        }
    }

    fn unknown(&self, place: &str, node: &str, name: &str) -> Fault {
        let pointer = format!("{place}/{}", escape(name));
        let family = self.document.family([node.to_owned()], true);
        let known = family.names();
        let present = self.instance.pointer(place).and_then(Value::as_object);
        let free = known.iter().copied().filter(|known| !present.is_some_and(|present| present.contains_key(*known)));
        let advice = match (nearest(name, free, 1).first(), known.len()) {
            (Some(meant), _) => format!("did you mean `{meant}`?"),
            (None, 0) => "this tool takes no fields here; leave it out".to_owned(),
            (None, count) => {
                let shown: Vec<String> = known.iter().take(20).map(|name| format!("`{}`", clipped(name))).collect();
                let more = if count > 20 { format!(" and {} more", count - 20) } else { String::new() };
                format!("leave it out; the fields are {}{more}", shown.join(", "))
            }
        };
        let sent = self.sent(&pointer);
        Fault {
            pointer,
            kind: Kind::Unknown,
            sent,
            wanted: "only the fields the tool names".to_owned(),
            advice,
            send: None,
        }
    }

    /// A field that a failing branch declares is not unknown: the branch's own fault is the one to tell.
    fn unevaluated(&self, place: &str, node: &str, unexpected: &[String]) -> Vec<Fault> {
        let family = self.document.family([node.to_owned()], true);
        let known = family.names();
        let (declared, unknown): (Vec<&String>, Vec<&String>) =
            unexpected.iter().partition(|name| known.contains(&name.as_str()));
        let others_fail = self.schema.errors(self.instance).any(|error| {
            error.instance_path().as_str().starts_with(place)
                && !matches!(error.kind(), Cause::UnevaluatedProperties { .. })
        });
        let mut faults: Vec<Fault> = unknown.into_iter().map(|name| self.unknown(place, node, name)).collect();
        if !others_fail {
            faults.extend(declared.into_iter().map(|name| {
                let pointer = format!("{place}/{}", escape(name));
                self.fault(
                    &pointer,
                    Kind::Unknown,
                    "only fields that go together",
                    "it does not go with the other fields; leave it out",
                )
            }));
        }
        faults
    }

    /// A union is told by the branch that came nearest; branches of equal distance by what all of them want.
    fn nearest_branch(&self, place: &str, node: &str, context: &[Vec<ValidationError<'static>>]) -> Vec<Fault> {
        let names: Option<Vec<&str>> = context
            .iter()
            .map(|branch| match branch.as_slice() {
                [only] if only.instance_path().as_str() == place => match only.kind() {
                    Cause::Required { property } => property.as_str(),
                    _ => None,
                },
                _ => None,
            })
            .collect();
        if let Some(names) = names.filter(|names| names.len() > 1) {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            let wanted = format!("one of the fields {}", names.join(", "));
            return vec![Fault { sent: None, ..self.fault(place, Kind::Missing, &wanted, "") }];
        }
        let distance =
            |branch: &[ValidationError<'static>]| branch.iter().map(|error| weight(error, place)).sum::<usize>();
        let best = context.iter().map(|branch| distance(branch)).min().unwrap_or(FAR);
        let all_far = best >= FAR;
        let mut nearest = context.iter().filter(|branch| distance(branch) == best);
        match (nearest.next(), nearest.next()) {
            (Some(branch), None) if !all_far => branch.iter().flat_map(|error| self.explain(error)).collect(),
            _ if all_far => vec![self.wrong_type(place, node)],
            (Some(branch), Some(_)) if place_of_all(branch) != Some(place) => {
                branch.iter().flat_map(|error| self.explain(error)).collect()
            }
            (first, _) => {
                let told =
                    first.and_then(|branch| branch.first()).and_then(|error| self.explain(error).into_iter().next());
                let kind = told.map_or(Kind::Other, |fault| fault.kind);
                vec![self.told_simply(self.fault(place, kind, &wanted::words(self.document, node), ""))]
            }
        }
    }

    fn wrong_type(&self, place: &str, node: &str) -> Fault {
        let mut fault = self.fault(place, Kind::Type, &wanted::words(self.document, node), "");
        let Some(value) = self.instance.pointer(place) else { return fault };
        let family = self.document.family([node.to_owned()], true);
        let types = family.types();
        let (advice, send) = match value {
            Value::Null if self.is_optional(place) => ("leave the field out".to_owned(), None),
            Value::String(text) => match coerce::converted(value, &types)
                .or_else(|| coerce::converted(&Value::from(coerce::trimmed(text)), &types))
            {
                Some(converted @ (Value::Number(_) | Value::Bool(_))) => {
                    let kind = if converted.is_number() { "number" } else { "value" };
                    let fits = self.fits(place, &converted);
                    (format!("send the {kind} {converted} without quotes"), fits.then_some(converted))
                }
                Some(converted) => {
                    let kind = if converted.is_array() { "array" } else { "object" };
                    (format!("send the {kind} itself, not its text"), None)
                }
                None if types.contains(&"integer") && coerce::is_long_integer(text) => {
                    fault.kind = Kind::IntegerTooBig;
                    ("it is larger than 64 bits can hold".to_owned(), None)
                }
                None => (String::new(), None),
            },
            Value::Number(_) | Value::Bool(_) if types.contains(&"string") => {
                let text = Value::from(value.to_string());
                let fits = self.fits(place, &text);
                (format!("send it as text: {text}"), fits.then_some(text))
            }
            Value::Number(_) if types.contains(&"integer") => ("send a whole number".to_owned(), None),
            Value::Number(_) | Value::Bool(_) | Value::Object(_) | Value::Null if types.contains(&"array") => {
                ("send a list, in square brackets".to_owned(), None)
            }
            _ => (String::new(), None),
        };
        let is_list_wanted = types.contains(&"array") && value.is_string() && advice.is_empty();
        fault.advice = if is_list_wanted { "send a list, in square brackets".to_owned() } else { advice };
        fault.send = send;
        self.discreet(fault)
    }

    fn wrong_value(&self, place: &str, node: &str) -> Fault {
        let fault = self.told_simply(self.fault(place, Kind::Enum, &wanted::words(self.document, node), ""));
        if fault.kind == Kind::WhiteSpace {
            return fault;
        }
        let Some(value) = self.instance.pointer(place) else { return fault };
        let values: Vec<&Value> = match wanted::lookup(self.document, node, "enum").and_then(Value::as_array) {
            Some(values) => values.iter().collect(),
            None => wanted::lookup(self.document, node, "const").into_iter().collect(),
        };
        if value.is_null() && self.is_optional(place) {
            return Fault { kind: Kind::Type, advice: "leave the field out".to_owned(), ..fault };
        }
        if let Some(quoted) = values.iter().find(|one| !one.is_string() && value.as_str() == Some(&one.to_string())) {
            let advice = format!("send {quoted} without quotes");
            return self.discreet(Fault { kind: Kind::Type, advice, send: Some((*quoted).clone()), ..fault });
        }
        let texts = values.iter().filter_map(|value| value.as_str());
        match value.as_str().map(|text| nearest(text, texts, 1)).as_deref() {
            Some([meant]) => {
                Fault { advice: format!("did you mean {}?", clipped(&Value::from(*meant).to_string())), ..fault }
            }
            _ => fault,
        }
    }

    fn broken(&self, place: &str, node: &str, kind: Kind) -> Fault {
        self.told_simply(self.fault(place, kind, &wanted::words(self.document, node), ""))
    }

    /// Says so when white space at an end is the whole trouble.
    fn told_simply(&self, fault: Fault) -> Fault {
        let Some(text) = self.instance.pointer(&fault.pointer).and_then(Value::as_str) else { return fault };
        let trimmed = coerce::trimmed(text);
        if trimmed.len() == text.len() || trimmed.is_empty() || !self.fits(&fault.pointer, &Value::from(trimmed)) {
            return fault;
        }
        let start = &text[..text.len() - text.trim_start_matches(coerce::is_blank).len()];
        let end = &text[text.trim_end_matches(coerce::is_blank).len()..];
        let advice = match (blank_name(start), blank_name(end)) {
            (Some(start), None) => format!("remove {start} at the start"),
            (None, Some(end)) => format!("remove {end} at the end"),
            _ => "remove the white space at both ends".to_owned(),
        };
        self.discreet(Fault { kind: Kind::WhiteSpace, advice, send: Some(Value::from(trimmed)), ..fault })
    }

    /// Takes the value out of the advice about a secret.
    fn discreet(&self, fault: Fault) -> Fault {
        if !self.is_secret(&fault.pointer) {
            return fault;
        }
        let advice = match (&fault.send, fault.kind) {
            (Some(Value::Number(_)), _) => "send the number without quotes".to_owned(),
            (Some(Value::String(_)), Kind::Type) => "send it as text, in quotes".to_owned(),
            (_, Kind::WhiteSpace) => fault.advice,
            _ => String::new(),
        };
        Fault { advice, send: None, ..fault }
    }

    /// Whether another value at this place would mend what is wrong there, and break nothing.
    fn fits(&self, place: &str, value: &Value) -> bool {
        let mut tried = self.instance.clone();
        let Some(slot) = tried.pointer_mut(place) else { return false };
        *slot = value.clone();
        let before = self.schema.errors(self.instance).count();
        let mut after = 0;
        let stays = self.schema.errors(&tried).any(|error| {
            after += 1;
            error.instance_path().as_str() == place
        });
        !stays && after < before
    }

    /// Whether the field at this place may be left out: it is a field, and no schema above requires it.
    fn is_optional(&self, place: &str) -> bool {
        let Some(name) = segments(place).last() else { return false };
        let mut tried = self.instance.clone();
        let Some(object) = tried.pointer_mut(parent(place)).and_then(Value::as_object_mut) else { return false };
        object.shift_remove(&name);
        let before = self.schema.errors(self.instance).count();
        self.schema.errors(&tried).count() < before
    }

    /// What was sent at this place, masked and clipped.
    fn sent(&self, place: &str) -> Option<String> {
        self.instance.pointer(place)?;
        if self.is_secret(place) {
            return Some(redact::MASK.to_owned());
        }
        self.masked.pointer(place).map(|value| clipped(&value.to_string()))
    }

    /// Whether the value at this place, or one it is inside of, is masked or has a secret's name.
    fn is_secret(&self, place: &str) -> bool {
        let mut here = Some(self.masked);
        for segment in segments(place) {
            here = here.and_then(|value| step(value, &segment));
            if redact::is_secret_name(&segment) || here.is_some_and(|value| value == redact::MASK) {
                return true;
            }
        }
        false
    }

    /// The schema of a field in the family that the schema at `node` belongs to.
    fn field_schema(&self, node: &str, name: &str) -> Option<String> {
        self.document.family([node.to_owned()], true).of_field(name).into_iter().next()
    }
}

impl Fault {
    /// Takes this advice unless there is a better one already.
    fn or_advice(mut self, advice: &str) -> Self {
        if self.advice.is_empty() {
            advice.clone_into(&mut self.advice);
        }
        self
    }
}

/// A branch this far away was meant for another type of value.
const FAR: usize = 1_000;

/// How far an error puts a branch away.
fn weight(error: &ValidationError<'_>, place: &str) -> usize {
    match error.kind() {
        Cause::Type { .. } | Cause::FalseSchema if error.instance_path().as_str() == place => FAR,
        // A constant that differs is most often the field that tells the branches apart.
        Cause::Constant { .. } => 20,
        Cause::Enum { options } if options.as_array().is_some_and(|options| options.len() == 1) => 20,
        Cause::AnyOf { context } | Cause::OneOfNotValid { context } => {
            let inside = error.instance_path().as_str();
            let here =
                context.iter().map(|branch| branch.iter().map(|error| weight(error, inside)).sum::<usize>()).min();
            let here = here.unwrap_or(1);
            if inside == place { here } else { here.min(FAR - 1) }
        }
        _ => 1,
    }
}

/// The place all errors of a branch are at, if it is one.
fn place_of_all<'a>(branch: &'a [ValidationError<'static>]) -> Option<&'a str> {
    let first = branch.first()?.instance_path().as_str();
    branch.iter().all(|error| error.instance_path().as_str() == first).then_some(first)
}

fn blank_name(blank: &str) -> Option<String> {
    let mut characters = blank.chars();
    let first = characters.next()?;
    Some(match (first, characters.next()) {
        (' ', None) => "the space".to_owned(),
        ('\n' | '\r', None) => "the line break".to_owned(),
        ('\t', None) => "the tab".to_owned(),
        (other, None) => format!("the white space (U+{:04X})", u32::from(other)),
        _ => "the white space".to_owned(),
    })
}
