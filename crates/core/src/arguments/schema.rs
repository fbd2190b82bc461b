//! A JSON Schema as written, compiled once: nothing closed, nothing coerced.
//!
//! This is the plain judge under the argument check, and the one for results (`output_schema`). Patterns
//! run in linear time whatever the text; references never leave the document; nothing is fetched.

use jsonschema::{PatternOptions, ValidationOptions, Validator};
use serde_json::Value;

use super::{lint, places};
use crate::problem::Problem;

/// A compiled schema. Draft 2020-12 unless `$schema` says otherwise; formats are annotations there, as
/// the standard has it.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
}

/// The most problems of one value that are reported.
const SHOWN: usize = 20;

impl Schema {
    /// Compiles a schema; all its problems at once. Costs some tens of microseconds.
    pub fn compile(schema: &Value) -> Result<Self, Vec<Problem>> {
        let problems = lint::schema(schema);
        if problems.is_empty() { Self::build(schema, false) } else { Err(problems) }
    }

    /// Compiles a schema that was looked over before.
    pub(super) fn build(schema: &Value, formats: bool) -> Result<Self, Vec<Problem>> {
        let options = if formats { options().should_validate_formats(true) } else { options() };
        match options.build(schema) {
            Ok(validator) => Ok(Self { validator }),
            Err(error) => Err(vec![lint::of_error(&error)]),
        }
    }

    /// Whether the value fits. No allocation for most schemas.
    pub fn is_valid(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }

    /// What is wrong with a value, at most 20 problems, each with the pointer into the value; values
    /// themselves are not repeated, since they may be secret.
    pub fn problems(&self, value: &Value) -> Vec<Problem> {
        self.validator
            .iter_errors(value)
            .take(SHOWN)
            .map(|error| {
                let keyword = places::segments(error.schema_path().as_str()).last().unwrap_or_default();
                Problem::new(
                    error.instance_path().as_str(),
                    error.masked_with("the value").to_string(),
                    format!("see `{keyword}` at {} in the schema", error.schema_path()),
                )
            })
            .collect()
    }

    pub(super) fn errors<'i>(&'i self, value: &'i Value) -> jsonschema::ErrorIterator<'i> {
        self.validator.iter_errors(value)
    }
}

fn options<'i>() -> ValidationOptions<'i> {
    jsonschema::options().with_pattern_options(PatternOptions::regex()).offline()
}

/// Whether `text` is a pattern the linear engine can run.
pub(super) fn is_pattern(pattern: &str) -> bool {
    options().build(&serde_json::json!({ "pattern": pattern })).is_ok()
}

/// Whether `text` matches; false for a pattern that cannot run. Compiles: for messages only.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    options()
        .build(&serde_json::json!({ "type": "string", "pattern": pattern }))
        .is_ok_and(|validator| validator.is_valid(&Value::from(text)))
}
