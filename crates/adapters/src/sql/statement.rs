//! The statement of a tool: its `:named` parameters and `{identifiers}` found, and turned into places.
//!
//! A scanner that knows each dialect's quotes, dollar quotes and comments finds them; what is inside a
//! quote or a comment is never touched. Parameters become `$1`, `?1` or `?` once, when the tool is
//! declared: no value is ever part of the text that a database parses. Identifiers are chosen from the
//! operator's own list and quoted.

use std::borrow::Cow;
use std::collections::BTreeMap;

use reach_core::Problem;

use super::config::Choices;
use super::scan::{Lexeme, Scanner};

/// How a database writes SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Sqlite,
    Postgres,
    MySql,
}

/// A statement with its places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    pieces: Vec<Piece>,
    /// The argument of each place, in the order in which values are bound.
    pub(super) parameters: Vec<String>,
    dialect: Dialect,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// SQL of the operator, parameters already places.
    Text(String),
    /// One of the declared identifiers.
    Identifier(String),
}

/// A statement as read, and whatever is wrong with it.
pub(super) struct Scanned {
    pub(super) statement: Statement,
    pub(super) problems: Vec<Problem>,
}

impl Statement {
    /// Finds the places of `source`.
    pub(super) fn parse(source: &str, dialect: Dialect, identifiers: &BTreeMap<String, Choices>) -> Scanned {
        let mut statement = Statement { pieces: Vec::new(), parameters: Vec::new(), dialect };
        let mut problems = Vec::new();
        let mut text = String::new();
        let mut say = |message: String, fix: String| problems.push(Problem::new("/statement", message, fix));
        for lexeme in Scanner::new(source.trim_end_matches([';', ' ', '\t', '\r', '\n']), dialect) {
            match lexeme {
                Lexeme::Text(part) => text.push_str(part),
                Lexeme::Parameter(name) => text.push_str(&statement.place(name)),
                Lexeme::Identifier(name) => {
                    if !identifiers.contains_key(name) {
                        say(
                            format!("`{{{name}}}` is not among the identifiers of this tool"),
                            format!(
                                "add `{name}` to identifiers with the names it may stand for, or write `:{name}` for a value"
                            ),
                        );
                    }
                    statement.pieces.push(Piece::Text(std::mem::take(&mut text)));
                    statement.pieces.push(Piece::Identifier(name.to_owned()));
                }
                Lexeme::ForeignParameter(written) => {
                    say(
                        format!("`{written}` is a parameter without a name of ours"),
                        "write `:name` with the name of an argument".to_owned(),
                    );
                    text.push_str(written);
                }
                Lexeme::HiddenCode(part) => {
                    say(
                        "a comment of the form `/*! ... */` is run by the server".to_owned(),
                        "write what is in it as plain SQL, or remove it".to_owned(),
                    );
                    text.push_str(part);
                }
                Lexeme::Unclosed(part) => {
                    say("a quote or comment is not closed".to_owned(), "close it".to_owned());
                    text.push_str(part);
                }
            }
        }
        statement.pieces.push(Piece::Text(text));
        if statement.pieces.iter().all(|piece| matches!(piece, Piece::Text(text) if text.trim().is_empty())) {
            problems.push(Problem::new("/statement", "the statement is empty", "write one SQL statement"));
        }
        Scanned { statement, problems }
    }

    /// The place of the parameter `name`; the same name has the same place where the dialect can say so.
    fn place(&mut self, name: &str) -> String {
        if self.dialect == Dialect::MySql {
            self.parameters.push(name.to_owned());
            return "?".to_owned();
        }
        let number = match self.parameters.iter().position(|known| known == name) {
            Some(at) => at + 1,
            None => {
                self.parameters.push(name.to_owned());
                self.parameters.len()
            }
        };
        match self.dialect {
            Dialect::Postgres => format!("${number}"),
            Dialect::Sqlite | Dialect::MySql => format!("?{number}"),
        }
    }

    /// The names of the `{identifiers}` used.
    pub(super) fn identifiers(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Identifier(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// The text for the database; `choose` gives the identifier for a name.
    pub(super) fn render<'a, E>(
        &'a self,
        mut choose: impl FnMut(&str) -> Result<&'a str, E>,
    ) -> Result<Cow<'a, str>, E> {
        if let [Piece::Text(text)] = self.pieces.as_slice() {
            return Ok(Cow::Borrowed(text));
        }
        let mut out = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Identifier(name) => quote(choose(name)?, self.dialect, &mut out),
            }
        }
        Ok(Cow::Owned(out))
    }

    /// The text with the first choice of each identifier: what is checked and prepared ahead of any call.
    pub(super) fn render_first(&self, identifiers: &BTreeMap<String, Choices>) -> String {
        let mut out = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Identifier(name) => {
                    let first = identifiers.get(name).and_then(|choices| choices.pairs().next());
                    quote(first.map_or("x", |(_, identifier)| identifier), self.dialect, &mut out);
                }
            }
        }
        out
    }
}

/// Writes an identifier, each dotted part quoted as the dialect quotes.
fn quote(identifier: &str, dialect: Dialect, out: &mut String) {
    let mark = match dialect {
        Dialect::MySql => '`',
        Dialect::Sqlite | Dialect::Postgres => '"',
    };
    for (index, part) in identifier.split('.').enumerate() {
        if index > 0 {
            out.push('.');
        }
        out.push(mark);
        for letter in part.chars() {
            out.push(letter);
            if letter == mark {
                out.push(mark);
            }
        }
        out.push(mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(source: &str, dialect: Dialect) -> Scanned {
        let identifiers = BTreeMap::from([("sort".to_owned(), Choices::List(vec!["t.a\"`".to_owned()]))]);
        Statement::parse(source, dialect, &identifiers)
    }

    fn text(source: &str, dialect: Dialect) -> String {
        let scanned = parse(source, dialect);
        assert_eq!(scanned.problems, [], "{source}");
        scanned.statement.render(|_| Ok::<_, ()>("t.a\"`")).unwrap().into_owned()
    }

    #[test]
    fn names_become_places_in_the_way_of_each_dialect() {
        let source = "select * from t where a = :a and b = :b or c = :a;";
        assert_eq!(text(source, Dialect::Postgres), "select * from t where a = $1 and b = $2 or c = $1");
        assert_eq!(text(source, Dialect::Sqlite), "select * from t where a = ?1 and b = ?2 or c = ?1");
        assert_eq!(text(source, Dialect::MySql), "select * from t where a = ? and b = ? or c = ?");
        assert_eq!(parse(source, Dialect::MySql).statement.parameters, ["a", "b", "a"]);
        assert_eq!(parse(source, Dialect::Sqlite).statement.parameters, ["a", "b"]);
    }

    #[test]
    fn quotes_comments_and_casts_are_left_alone() {
        let postgres = [
            "select ':a', ':a''s :a', \":a\", $$ :a $$, $x$ :a $$ :a $x$, e'\\':a', '{\"a\":1}' -- :a {x} '\n/* :a /* :a */ :a */",
            "select '2026-01-01'::date, x::text[], a[1:2]",
            "select '\\', now()::text",
            "select data ? 'key' from t",
        ];
        for source in postgres {
            assert_eq!(text(source, Dialect::Postgres), source.trim());
        }
        let mysql = ["select ':a\\':a', \":a\\\":a\", `:a``:a` # :a\n, 1 -- :a\n", "select @v := 1, @@version"];
        for source in mysql {
            assert_eq!(text(source, Dialect::MySql), source.trim_end());
        }
        let sqlite = ["select ':a', \":a\", [:a], `:a` -- :a\n, /* :a */ 1"];
        for source in sqlite {
            assert_eq!(text(source, Dialect::Sqlite), source);
        }
        assert_eq!(text("select :a::int, '\\', :b", Dialect::Postgres), "select $1::int, '\\', $2");
        assert_eq!(text("select 5--:a\n", Dialect::MySql), "select 5--?");
    }

    #[test]
    fn identifiers_are_quoted_part_by_part() {
        assert_eq!(text("select 1 order by {sort}", Dialect::Postgres), "select 1 order by \"t\".\"a\"\"`\"");
        assert_eq!(text("select 1 order by {sort}", Dialect::MySql), "select 1 order by `t`.`a\"```");
    }

    #[test]
    fn what_cannot_be_a_place_of_ours_is_refused_by_name() {
        for (source, dialect) in [
            ("select ?", Dialect::MySql),
            ("select ?", Dialect::Sqlite),
            ("select @a", Dialect::Sqlite),
            ("select $a", Dialect::Sqlite),
            ("select $1", Dialect::Postgres),
            ("select {other}", Dialect::Postgres),
            ("select /*!50000 1 */", Dialect::MySql),
            ("select /*M! 1 */", Dialect::MySql),
            ("select 'a", Dialect::Sqlite),
            ("select $$ a", Dialect::Postgres),
            ("select 1 /* a", Dialect::Postgres),
            (" ; ", Dialect::Postgres),
        ] {
            assert_eq!(parse(source, dialect).problems.len(), 1, "{source}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_lost_and_nothing_panics(source in ".{0,60}") {
            for dialect in [Dialect::Sqlite, Dialect::Postgres, Dialect::MySql] {
                let rebuilt: String = Scanner::new(&source, dialect).map(|lexeme| lexeme.written()).collect();
                proptest::prop_assert_eq!(&rebuilt, &source);
            }
        }
    }
}
