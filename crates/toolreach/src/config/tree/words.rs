//! The wording of text that is no YAML. The library's own messages are matched, never passed on: they speak
//! to programmers, and some quote the text that they stumbled over.

use serde_saphyr::Location;

use super::{Malformed, Place};

const TOO_DEEP: &str = "this nests too deeply";
const TOO_LARGE: &str = "this grows too large once its aliases are expanded";

/// The library's words turned into ours; never the value that it stumbled over.
pub(super) fn malformed(error: &serde_saphyr::Error) -> Malformed {
    use serde_saphyr::Error as Yaml;
    let error = error.without_snippet();
    let place = error
        .location()
        .filter(|at| *at != Location::UNKNOWN)
        .map_or_else(|| Place { line: 1, column: 1, ..Place::default() }, Place::from);
    let (message, fix) = match error {
        Yaml::Eof { .. } => ("the file ends too early", "check brackets and quotes"),
        Yaml::MultipleDocuments { .. } => {
            ("a second document starts here", "one file holds one document: take out `---`")
        }
        Yaml::Unexpected { expected: "string scalar", .. } => {
            ("a key has to be text", "put text that starts with `{` or `[` in quotes: \"{order_id}\"")
        }
        Yaml::UnknownAnchor { .. } => {
            ("this alias names no anchor", "declare the anchor (`&name`) above, or put the text in quotes")
        }
        Yaml::RecursiveReferencesRequireWeakTypes { .. } => ("this alias stands inside its own anchor", "write it out"),
        Yaml::MergeValueNotMapOrSeqOfMaps { .. } => ("`<<` takes a mapping", "write `<<: *anchor_of_a_mapping`"),
        Yaml::UnsupportedTag { .. } => ("tags (`!name`) are not read here", "take the tag out"),
        Yaml::InvalidScalar { .. } => ("the value does not fit its tag", "take the tag out"),
        Yaml::AliasReplayLimitExceeded { .. }
        | Yaml::AliasExpansionLimitExceeded { .. }
        | Yaml::AliasReplayStackDepthExceeded { .. }
        | Yaml::AliasReplayCounterOverflow { .. } => (TOO_LARGE, "write out what the aliases stand for"),
        Yaml::Budget { breach, .. } => match breach {
            serde_saphyr::budget::BudgetBreach::Documents { .. } => {
                ("a second document starts here", "one file holds one document: take out `---`")
            }
            serde_saphyr::budget::BudgetBreach::Depth { .. } => (TOO_DEEP, "a configuration is flatter"),
            _ => (TOO_LARGE, "write out what the aliases stand for, or split the file"),
        },
        _ => return scanned(error, place),
    };
    Malformed { place, message: message.to_owned(), fix: fix.to_owned() }
}

/// Complaints of the scanner about punctuation and indentation.
fn scanned(error: &serde_saphyr::Error, place: Place) -> Malformed {
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or_default();
    let known = [
        ("tabs disallowed", "a tab in the indentation", "indent with spaces"),
        (
            "mapping values are not allowed",
            "a colon where no key can end",
            "put text that holds `: ` in quotes, or check the indentation",
        ),
        ("illegal placement of ':'", "a colon where no key can end", "close the bracket or quote that is open above"),
        ("unclosed quote", "a quote that is not closed", "close it, or put the whole text in the other kind of quotes"),
        ("unclosed", "a bracket that is not closed", "close it"),
        ("unexpected character", "a character that text cannot start with", "put the text in quotes"),
        (
            "unknown escape character",
            "an escape that is not known in double quotes",
            "write `\\\\` for a backslash, or use single quotes",
        ),
        (
            "did not find expected",
            "this does not line up with anything above",
            "indent it like the line that it belongs with",
        ),
        ("budget breached", TOO_LARGE, "write out what the aliases stand for, or split the file"),
        ("recursion limit", TOO_DEEP, "a configuration is flatter"),
        (
            "unknown anchor",
            "this alias names no anchor",
            "declare the anchor (`&name`) above, or put the text in quotes",
        ),
    ];
    match known.iter().find(|(theirs, _, _)| text.contains(theirs)) {
        Some((_, message, fix)) => Malformed { place, message: (*message).to_owned(), fix: (*fix).to_owned() },
        None => Malformed {
            place,
            message: "this is no valid YAML".to_owned(),
            fix: "check indentation, colons, quotes and brackets here and on the line above".to_owned(),
        },
    }
}
