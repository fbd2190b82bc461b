//! Whether a statement only reads, as far as its text can tell.
//!
//! The text is parsed by its dialect's grammar: exactly one statement, of a kind that makes sense as a
//! tool. A function may still write where its name does not show it, which is why a reading tool also runs
//! under what the database itself offers: a read-only transaction, a read-only file. This check is the
//! guard where the database has none (MySQL commits DDL inside a read-only transaction), and it gives a
//! statement its default effect.

use reach_core::Problem;
use sqlparser::ast::{Query, SetExpr, Statement};
use sqlparser::dialect::{Dialect as Grammar, MySqlDialect, PostgreSqlDialect, SQLiteDialect};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Tokenizer};

use super::statement::Dialect;

/// What a statement does, by its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Reads,
    Writes,
}

/// Words that stand in a reading statement only as quoted names.
const WRITING_WORDS: [&str; 6] = ["insert", "update", "delete", "merge", "into", "replace"];

/// Functions whose effect outlives a query, or a rollback.
const WRITING_FUNCTIONS: [&str; 29] = [
    "nextval",
    "setval",
    "set_config",
    "pg_notify",
    "pg_terminate_backend",
    "pg_cancel_backend",
    "pg_reload_conf",
    "pg_rotate_logfile",
    "pg_switch_wal",
    "pg_promote",
    "pg_create_restore_point",
    "pg_logical_emit_message",
    "lo_create",
    "lo_creat",
    "lo_import",
    "lo_export",
    "lo_unlink",
    "lo_put",
    "lo_from_bytea",
    "lowrite",
    "dblink",
    "dblink_exec",
    "dblink_send_query",
    "get_lock",
    "release_lock",
    "release_all_locks",
    "load_extension",
    "sys_exec",
    "writefile",
];

/// Reads the text of one statement.
pub(super) fn classify(sql: &str, dialect: Dialect) -> Result<Access, Problem> {
    let grammar: &dyn Grammar = match dialect {
        Dialect::Sqlite => &SQLiteDialect {},
        Dialect::Postgres => &PostgreSqlDialect {},
        Dialect::MySql => &MySqlDialect {},
    };
    let problem = |message: String, fix: &str| Err(Problem::new("/statement", message, fix));
    let statements = match Parser::parse_sql(grammar, sql) {
        Ok(statements) => statements,
        Err(error) => {
            let words = error.to_string();
            let words = words.trim_start_matches("sql parser error: ");
            return problem(
                format!("the statement cannot be read: {words}"),
                "mend it, and try it in the database's own shell",
            );
        }
    };
    let [statement] = statements.as_slice() else {
        return problem(
            format!("there are {} statements here", statements.len()),
            "write one statement; declare a tool for each, or a procedure in the database",
        );
    };
    match statement {
        Statement::Query(query) if reads(query) && !names_a_write(sql, grammar) => Ok(Access::Reads),
        Statement::Query(_)
        | Statement::Insert(_)
        | Statement::Update(_)
        | Statement::Delete(_)
        | Statement::Merge(_)
        | Statement::Call(_) => Ok(Access::Writes),
        other => {
            let words = other.to_string();
            let first = words.split_whitespace().next().unwrap_or_default().to_uppercase();
            problem(
                format!("{first} is no statement for a tool"),
                "use select, insert, update, delete, merge or call: schemas, settings and transactions are not a caller's business",
            )
        }
    }
}

fn reads(query: &Query) -> bool {
    let clauses = query.with.iter().flat_map(|with| &with.cte_tables);
    query.locks.is_empty() && clauses.map(|clause| &clause.query).all(|inner| reads(inner)) && reads_body(&query.body)
}

fn reads_body(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => select.into.is_none(),
        SetExpr::Query(query) => reads(query),
        SetExpr::SetOperation { left, right, .. } => reads_body(left) && reads_body(right),
        SetExpr::Values(_) | SetExpr::Table(_) => true,
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => false,
    }
}

/// Looks at every bare word, so that a corner of the grammar which the walk does not visit cannot hide one.
fn names_a_write(sql: &str, grammar: &dyn Grammar) -> bool {
    let Ok(tokens) = Tokenizer::new(grammar, sql).tokenize() else { return true };
    let solid: Vec<&Token> = tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    solid.iter().enumerate().any(|(at, token)| {
        let Token::Word(word) = token else { return false };
        let name = word.value.to_lowercase();
        let called = matches!(solid.get(at + 1), Some(Token::LParen));
        if called
            && (WRITING_FUNCTIONS.contains(&name.as_str())
                || name.starts_with("pg_advisory")
                || name.starts_with("pg_try_advisory"))
        {
            return true;
        }
        // `replace(text, from, to)` is a plain function everywhere.
        word.quote_style.is_none() && WRITING_WORDS.contains(&name.as_str()) && !(called && name == "replace")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Dialect; 3] = [Dialect::Sqlite, Dialect::Postgres, Dialect::MySql];

    #[test]
    fn what_only_reads_is_known_to() {
        for sql in [
            "select 1",
            "with t as (select 1 as a) select a from t union all select 2",
            "values (1), (2)",
            "select replace(name, 'a', 'b'), 'delete from t', count(*) from t where a in (select b from u) order by 1 limit 5",
        ] {
            for dialect in ALL {
                if !(dialect == Dialect::MySql && sql.starts_with("values")) {
                    assert_eq!(classify(sql, dialect), Ok(Access::Reads), "{dialect:?}: {sql}");
                }
            }
        }
        for sql in [
            "select * from t where tags @> $1::jsonb and a = any($2) and data ? 'x' and data->>'y' ilike $3",
            "select distinct on (a) a, row_number() over (partition by b order by c) from t left join lateral (select 1) x on true",
            "select * from t order by \"update\" nulls last fetch first 5 rows only",
        ] {
            assert_eq!(classify(sql, Dialect::Postgres), Ok(Access::Reads), "{sql}");
        }
    }

    #[test]
    fn what_writes_locks_or_calls_a_writing_function_is_no_read() {
        for sql in [
            "insert into t values ($1) returning a",
            "insert into t (a) values ($1) on conflict (a) do update set a = excluded.a",
            "update t set a = $1",
            "delete from t",
            "with gone as (delete from t returning *) select * from gone",
            "select * into u from t",
            "select * from t for update skip locked",
            "select nextval('s')",
            "select \"nextval\" ('s')",
            "select a, (select pg_catalog.setval('s', 1)) from t",
            "select pg_advisory_lock(1)",
            "select * from dblink('host=x', 'delete from t') as t(a int)",
            "call work($1)",
            "merge into t using u on t.a = u.a when matched then delete",
        ] {
            assert_eq!(classify(sql, Dialect::Postgres), Ok(Access::Writes), "{sql}");
        }
        for sql in [
            "replace into t values (?)",
            "insert ignore into t values (?)",
            "select * from t lock in share mode",
            "select get_lock('a', 1)",
        ] {
            assert_ne!(classify(sql, Dialect::MySql), Ok(Access::Reads), "{sql}");
        }
        for sql in ["select 1 into outfile '/tmp/x'", "select a into @x from t"] {
            assert_ne!(classify(sql, Dialect::MySql), Ok(Access::Reads), "{sql}");
        }
    }

    #[test]
    fn schemas_settings_transactions_and_lists_are_refused() {
        for sql in [
            "create table t (a int)",
            "drop table t",
            "alter table t add b int",
            "truncate table t",
            "begin",
            "commit",
            "rollback",
            "set a = 1",
            "grant select on t to u",
            "explain analyze delete from t",
            "select 1; select 2",
            "select 1; drop table t",
            "selct 1",
            "",
        ] {
            for dialect in ALL {
                assert!(classify(sql, dialect).is_err(), "{dialect:?}: {sql}");
            }
        }
        for sql in ["pragma journal_mode = delete", "attach database 'x' as y", "vacuum"] {
            assert!(classify(sql, Dialect::Sqlite).is_err(), "{sql}");
        }
        for sql in ["copy t to program 'sh'", "do $$ begin end $$", "listen a", "vacuum t", "prepare p as select 1"] {
            assert!(classify(sql, Dialect::Postgres).is_err(), "{sql}");
        }
        for sql in ["load data infile 'x' into table t", "use other", "kill 5", "show tables", "handler t open"] {
            assert!(classify(sql, Dialect::MySql).is_err(), "{sql}");
        }
    }
}
