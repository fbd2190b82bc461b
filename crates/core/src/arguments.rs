//! The argument check: the gate before anything is sent.

use serde_json::Value;

use crate::Object;
use crate::problem::Problem;

/// A tool's `input_schema`, compiled once.
#[derive(Debug)]
pub struct ArgumentCheck {}

impl ArgumentCheck {
    /// Compiles a schema. `coerce`: convert lossless near misses instead of refusing them.
    pub fn compile(_schema: &Value, _coerce: bool) -> Result<Self, Vec<Problem>> {
        Ok(Self {})
    }

    /// Checks one call's arguments.
    pub fn check(&self, arguments: Object) -> Result<Checked, Refusal> {
        Ok(Checked { arguments, coerced: Vec::new() })
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

/// Arguments that may not be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// For the model: names each field, what was sent, what is wanted, the nearest known field.
    pub message: String,
    /// The same for a program, a list of `{"field","sent","wanted","problem"}`.
    pub problems: Value,
}

/// TEMP
#[derive(Debug)]
pub struct Schema {}
impl Schema {
    /// TEMP
    pub fn compile(_s: &Value) -> Result<Self, Vec<Problem>> {
        Ok(Self {})
    }
    /// TEMP
    pub fn problems(&self, _v: &Value) -> Vec<String> {
        Vec::new()
    }
}
