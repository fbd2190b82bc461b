//! The argument check: the gate before anything is sent.
//!
//! A tool's `input_schema` is compiled once, with every problem of it reported at once, objects closed so
//! that unknown fields are refused ([`closed`]), and patterns that run in linear time. A call's arguments
//! either pass untouched, pass after lossless conversion where the tool asks for that, or come back with a
//! message that tells a model how to mend each field. It never guesses, trims or fills in a default.

mod close;
mod coerce;
mod explain;
mod family;
mod fault;
pub(crate) mod field;
mod lint;
mod places;
mod schema;
mod wanted;

use serde_json::Value;

pub use close::closed;
pub(crate) use fault::{Fault, Kind, refusal};
pub use schema::Schema;

use crate::problem::Problem;
use crate::{Object, redact};
use explain::Explainer;
use family::{Document, types_of};

/// A tool's `input_schema`, compiled once.
#[derive(Debug)]
pub struct ArgumentCheck {
    schema: Schema,
    enforced: Value,
    coerce: bool,
    /// Some value must be an integer, so that floats deserve a look.
    has_integers: bool,
}

impl ArgumentCheck {
    /// Compiles a schema. `coerce`: convert lossless near misses instead of refusing them.
    ///
    /// Errors: all problems of the schema, each with its pointer. Costs tens of microseconds and more.
    pub fn compile(schema: &Value, coerce: bool) -> Result<Self, Vec<Problem>> {
        let problems = lint::input_schema(schema);
        if !problems.is_empty() {
            return Err(problems);
        }
        let enforced = closed(schema);
        let schema = Schema::build(&enforced, true)?;
        let mut has_integers = false;
        places::walk(&enforced, |_, node| has_integers |= types_of(node).contains(&"integer"));
        Ok(Self { schema, enforced, coerce, has_integers })
    }

    /// The schema as it is enforced; what models should be shown.
    pub fn enforced(&self) -> &Value {
        &self.enforced
    }

    /// Checks one call's arguments. Valid ones cost one validation and come back as they were.
    pub fn check(&self, arguments: Object) -> Result<Checked, Refusal> {
        let value = Value::Object(arguments);
        let is_valid = self.schema.is_valid(&value);
        if is_valid && !(self.has_integers && coerce::has_odd_number(&value, self.coerce)) {
            return Ok(Checked::of(value, Vec::new()));
        }
        self.look_closer(value, is_valid)
    }

    /// The long way: converts what may be converted, and explains what is left.
    fn look_closer(&self, sent: Value, is_valid: bool) -> Result<Checked, Refusal> {
        let document = Document::of(&self.enforced);
        let (mut value, mut done) = match (self.coerce, is_valid) {
            (true, false) => coerce::coerced(&self.schema, &document, &sent),
            _ => (sent.clone(), Vec::new()),
        };
        let too_big = coerce::settle_integers(&document, &mut value, self.coerce, &mut done);
        if too_big.is_empty() && self.schema.is_valid(&value) {
            return Ok(Checked::of(value, done));
        }
        let masked = match &sent {
            Value::Object(arguments) => redact::arguments(arguments, &self.enforced),
            other => other.clone(),
        };
        let explainer = Explainer { schema: &self.schema, document: &document, instance: &value, masked: &masked };
        let (mut faults, total) = explainer.faults();
        faults.extend(too_big.iter().map(|place| explainer.too_big(place)));
        Err(refusal(faults, total + too_big.len(), Some(&value)))
    }
}

/// Arguments that may be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// The arguments, after coercion.
    pub arguments: Object,
    /// JSON pointers of the values that were converted.
    pub coerced: Vec<String>,
}

impl Checked {
    fn of(value: Value, coerced: Vec<String>) -> Self {
        let arguments = match value {
            Value::Object(arguments) => arguments,
            // The check starts from an object and only ever changes what is inside.
            _ => Object::new(),
        };
        Self { arguments, coerced }
    }
}

/// Arguments that may not be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// For the model: names each field, what was sent, what is wanted, the nearest known field. Up to ten
    /// faults, one a line.
    pub message: String,
    /// The same for a program: a list of `{"field","pointer","sent","wanted","problem"}`, with `"send"` where
    /// one value would do. `problem` is `missing`, `unknown`, `type`, `white_space`, `pattern`, `enum`,
    /// `range`, `length`, `format`, `integer_too_big` or `other`.
    pub problems: Value,
}
