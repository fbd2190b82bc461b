//! The third pass: the tree against the generated schema, and each violation in words that help.
//!
//! The `jsonschema` crate finds the violations; the words are ours: an unknown key names the nearest known
//! one, a wrong type says what was found, what is wanted and how that looks. Text that came from the
//! environment and lands where the schema wants a number or a boolean becomes one, if it is one as a whole.

mod words;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, PatternOptions, ValidationError, Validator};
use reach_core::Problem;
use serde_json::{Number, Value};

use super::schema::SCHEMA;
use super::tree::{Data, Node, escape};

/// The compiled schema; the message if our own schema did not compile, which a test rules out.
static VALIDATOR: LazyLock<Result<Validator, String>> = LazyLock::new(|| {
    jsonschema::options()
        .with_pattern_options(PatternOptions::regex())
        .build(&SCHEMA)
        .map_err(|error| error.to_string())
});

/// What the structural check found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Every violation, with an absolute pointer.
    pub(crate) problems: Vec<Problem>,
    /// Pointers of keys that are not known; whatever is below them is not shown.
    pub(crate) unknown: BTreeSet<String>,
}

/// Checks the whole tree, and turns text from the environment into the type that is wanted.
pub(crate) fn check(root: &mut Node) -> Found {
    let mut leaves = violations(root);
    let mut retyped = false;
    for leaf in &leaves {
        if let What::Type(wanted) = &leaf.what {
            retyped |= root.at_mut(&leaf.pointer).is_some_and(|node| retype(node, wanted));
        }
    }
    if retyped {
        leaves = violations(root);
    }
    let mut found = Found::default();
    let wrong_types: BTreeSet<String> =
        leaves.iter().filter(|leaf| matches!(leaf.what, What::Type(_))).map(|leaf| leaf.pointer.clone()).collect();
    // What has the wrong type has the wrong value, too; that is no news.
    leaves.retain(|leaf| matches!(leaf.what, What::Type(_)) || !wrong_types.contains(&leaf.pointer));
    for leaf in leaves {
        if let What::Unknown(keys) = &leaf.what {
            found.unknown.extend(keys.iter().map(|key| format!("{}/{}", leaf.pointer, escape(key))));
        }
        found.problems.extend(words::explain(&leaf, root));
    }
    found
}

/// One violation, freed of the library's types.
#[derive(Clone, Debug)]
struct Leaf {
    /// Where in the document.
    pointer: String,
    /// The schema whose keyword was violated, as a pointer into the schema.
    schema: String,
    /// What was violated.
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    /// Keys that the schema does not know.
    Unknown(Vec<String>),
    /// A key that has to be there.
    Missing(String),
    /// Another type; these are the ones wanted.
    Type(Vec<JsonType>),
    /// Not one of these values.
    Choice(Vec<Value>),
    /// Below or above a bound.
    Bound { least: bool, limit: Value },
    /// Too few or too many characters, items or keys.
    Length { least: bool, limit: u64, of: &'static str },
    /// Does not match this pattern.
    Pattern(String),
    /// Any other keyword.
    Other(String),
}

fn violations(root: &Node) -> Vec<Leaf> {
    match VALIDATOR.as_ref() {
        Ok(validator) => {
            let mut all: Vec<Leaf> = validator.iter_errors(&root.to_value()).flat_map(|error| leaves(&error)).collect();
            for leaf in &mut all {
                if let (What::Unknown(keys), Some(Data::Map(entries))) =
                    (&mut leaf.what, root.at(&leaf.pointer).map(|node| &node.data))
                    && keys.is_empty()
                {
                    keys.extend(entries.iter().map(|entry| entry.key.clone()));
                }
            }
            all
        }
        Err(message) => vec![Leaf {
            pointer: String::new(),
            schema: String::new(),
            what: What::Other(format!("the schema of this program does not compile: {message}")),
        }],
    }
}

/// The leaves of one error: of alternatives, those of the one that was most likely meant.
fn leaves(error: &ValidationError<'_>) -> Vec<Leaf> {
    let schema = error.schema_path().as_str();
    let schema = schema.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
    let pointer = error.instance_path().as_str().to_owned();
    let leaf = |what| vec![Leaf { pointer: pointer.clone(), schema: schema.clone(), what }];
    let number = |limit: u64, least, of| leaf(What::Length { least, limit, of });
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => leaf(What::Unknown(unexpected.clone())),
        ValidationErrorKind::Required { property } => {
            leaf(What::Missing(property.as_str().unwrap_or_default().to_owned()))
        }
        ValidationErrorKind::Type { kind } => leaf(What::Type(match kind {
            TypeKind::Single(only) => vec![*only],
            TypeKind::Multiple(types) => types.iter().collect(),
        })),
        ValidationErrorKind::Constant { expected_value } => leaf(What::Choice(vec![expected_value.as_ref().clone()])),
        ValidationErrorKind::Enum { options } => leaf(What::Choice(options.as_array().cloned().unwrap_or_default())),
        ValidationErrorKind::Minimum { limit } | ValidationErrorKind::ExclusiveMinimum { limit } => {
            leaf(What::Bound { least: true, limit: limit.clone() })
        }
        ValidationErrorKind::Maximum { limit } | ValidationErrorKind::ExclusiveMaximum { limit } => {
            leaf(What::Bound { least: false, limit: limit.clone() })
        }
        ValidationErrorKind::MinLength { limit } => number(*limit, true, "character"),
        ValidationErrorKind::MaxLength { limit } => number(*limit, false, "character"),
        ValidationErrorKind::MinItems { limit } => number(*limit, true, "item"),
        ValidationErrorKind::MaxItems { limit } => number(*limit, false, "item"),
        ValidationErrorKind::MinProperties { limit } => number(*limit, true, "key"),
        ValidationErrorKind::MaxProperties { limit } => number(*limit, false, "key"),
        ValidationErrorKind::Pattern { pattern } => leaf(What::Pattern(pattern.clone())),
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            let branches: Vec<Vec<Leaf>> =
                context.iter().map(|branch| branch.iter().flat_map(leaves).collect()).collect();
            most_likely(branches, &pointer, &schema)
        }
        // A mapping that knows no key at all is refused as a whole; `violations` fills in its keys.
        ValidationErrorKind::FalseSchema if error.schema_path().as_str().ends_with("/additionalProperties") => {
            leaf(What::Unknown(Vec::new()))
        }
        other => leaf(What::Other(other.keyword().to_owned())),
    }
}

/// Of several alternatives that all failed, the violations worth telling.
fn most_likely(branches: Vec<Vec<Leaf>>, pointer: &str, schema: &str) -> Vec<Leaf> {
    // Alternatives told apart by a fixed value, here or one key below (`kind: bearer`): if no alternative
    // has the value that was written, all of them together are the choice.
    let is_tag = |leaf: &&Leaf| {
        let parent = leaf.pointer.rsplit_once('/').map(|(parent, _)| parent);
        matches!(leaf.what, What::Choice(_)) && (leaf.pointer == pointer || parent == Some(pointer))
    };
    let tags: Vec<Vec<&Leaf>> = branches.iter().map(|branch| branch.iter().filter(is_tag).collect()).collect();
    let common = tags
        .first()
        .into_iter()
        .flatten()
        .map(|leaf| leaf.pointer.clone())
        .find(|at| tags.iter().all(|leaves| leaves.iter().any(|leaf| leaf.pointer == *at)));
    if let Some(at) = common {
        let options = tags.iter().flatten().filter(|leaf| leaf.pointer == at);
        let options = options.filter_map(|leaf| match &leaf.what {
            What::Choice(options) => Some(options.clone()),
            _ => None,
        });
        let options = options.flatten().collect();
        return vec![Leaf { pointer: at, schema: schema.to_owned(), what: What::Choice(options) }];
    }
    let tags: Vec<bool> = tags.into_iter().map(|leaves| !leaves.is_empty()).collect();
    // A key that all of them need tells them apart as well: without it, nothing else is worth telling.
    let missing: Vec<Vec<&String>> = branches
        .iter()
        .map(|branch| {
            let missing = branch.iter().filter(|leaf| leaf.pointer == pointer).filter_map(|leaf| match &leaf.what {
                What::Missing(key) => Some(key),
                _ => None,
            });
            missing.collect()
        })
        .collect();
    let common = missing.first().into_iter().flatten().find(|key| missing.iter().all(|keys| keys.contains(key)));
    if let Some(key) = common {
        let what = What::Missing((*key).clone());
        return vec![Leaf { pointer: pointer.to_owned(), schema: schema.to_owned(), what }];
    }
    // Alternatives of another type altogether were not meant, unless all are.
    let wanted: Vec<Option<Vec<JsonType>>> = branches
        .iter()
        .map(|branch| {
            branch.iter().find_map(|leaf| match &leaf.what {
                What::Type(wanted) if leaf.pointer == pointer => Some(wanted.clone()),
                _ => None,
            })
        })
        .collect();
    if wanted.iter().all(Option::is_some) {
        let mut types: Vec<JsonType> = Vec::new();
        for wanted in wanted.into_iter().flatten().flatten() {
            if !types.contains(&wanted) {
                types.push(wanted);
            }
        }
        return vec![Leaf { pointer: pointer.to_owned(), schema: schema.to_owned(), what: What::Type(types) }];
    }
    branches
        .into_iter()
        .zip(wanted)
        .zip(&tags)
        .filter(|((_, other_type), _)| other_type.is_none())
        .min_by_key(|((branch, _), tag)| (*tag, branch.len()))
        .map(|((branch, _), _)| branch)
        .unwrap_or_default()
}

/// Turns text from the environment into a wanted type, if it is one as a whole.
fn retype(node: &mut Node, wanted: &[JsonType]) -> bool {
    let (true, Data::Text(text)) = (node.from_environment, &node.data) else { return false };
    let number = || -> Option<Number> {
        let whole = text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from)).ok();
        let plain = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'.' | b'e' | b'E'));
        let leading_zero = text.trim_start_matches('-').len() > 1
            && text.trim_start_matches('-').starts_with('0')
            && !text.contains('.');
        if leading_zero || !plain {
            return None;
        }
        match (whole, wanted.contains(&JsonType::Number)) {
            (Some(whole), _) => Some(whole),
            (None, true) => text.parse::<f64>().ok().and_then(Number::from_f64),
            (None, false) => None,
        }
    };
    let numeric = wanted.iter().any(|wanted| matches!(wanted, JsonType::Integer | JsonType::Number));
    let data = match text.as_str() {
        "true" if wanted.contains(&JsonType::Boolean) => Some(Data::Bool(true)),
        "false" if wanted.contains(&JsonType::Boolean) => Some(Data::Bool(false)),
        _ if numeric => number().map(Data::Number),
        _ => None,
    };
    match data {
        Some(data) => {
            node.data = data;
            true
        }
        None => false,
    }
}
