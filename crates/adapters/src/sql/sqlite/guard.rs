//! What a connection to a SQLite file may do.
//!
//! The file is opened without the right to create it. The authoriser is asked while a statement is
//! prepared, so that a forbidden one never starts: no schema changes, no other files, no settings, no
//! extensions, whatever the text looks like.

use std::path::Path;

use reach_core::Failure;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, OpenFlags};

use super::LOCK_WAIT;
use crate::sql::failure as words;

/// Opens the file for one kind of tool.
pub(super) fn open(file: &Path, reads: bool) -> Result<Connection, Failure> {
    let mode = if reads { OpenFlags::SQLITE_OPEN_READ_ONLY } else { OpenFlags::SQLITE_OPEN_READ_WRITE };
    let broken = |error: rusqlite::Error| {
        let what = if file.exists() {
            "the file of this tool cannot be opened as a SQLite database"
        } else {
            "the database file of this tool does not exist"
        };
        words::unreachable(what, words::chain(&error))
    };
    let mut connection = Connection::open_with_flags(file, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(broken)?;
    connection.busy_timeout(LOCK_WAIT).map_err(broken)?;
    connection.authorizer(Some(move |context: AuthContext<'_>| decide(&context, reads))).map_err(broken)?;
    Ok(connection)
}

fn decide(context: &AuthContext<'_>, reads: bool) -> Authorization {
    let allowed = match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => true,
        AuthAction::Function { function_name } => !["load_extension", "fts3_tokenizer", "edit", "writefile"]
            .iter()
            .any(|name| function_name.eq_ignore_ascii_case(name)),
        // Ours alone: a statement that begins or ends a transaction is refused when the tool is declared.
        AuthAction::Transaction { .. } => !reads,
        AuthAction::Insert { table_name }
        | AuthAction::Delete { table_name }
        | AuthAction::Update { table_name, .. } => !reads && !table_name.to_lowercase().starts_with("sqlite_"),
        AuthAction::Pragma { pragma_name, pragma_value } => is_harmless(pragma_name, pragma_value),
        _ => false,
    };
    if allowed { Authorization::Allow } else { Authorization::Deny }
}

/// Pragmas that only describe: tables and their columns, and what a full-text table asks of itself.
fn is_harmless(name: &str, value: Option<&str>) -> bool {
    let described = ["table_info", "table_xinfo", "table_list", "index_list", "index_info", "foreign_key_list"];
    let name = name.to_lowercase();
    described.contains(&name.as_str()) || (name == "data_version" && value.is_none())
}
