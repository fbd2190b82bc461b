//! A scanner for the places of a statement: what is code, and what is quoted or commented away.
//!
//! It knows of SQL only what hides text: quotes, dollar quotes and comments, as each dialect has them. It
//! decides nothing and loses nothing: its parts joined are the source.

use super::statement::Dialect;

/// A part of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lexeme<'a> {
    /// SQL, quotes and comments.
    Text(&'a str),
    /// `:name`, without the colon.
    Parameter(&'a str),
    /// `{name}`, without the braces.
    Identifier(&'a str),
    /// A parameter as the database itself writes it: `?`, `$1`, `@name`.
    ForeignParameter(&'a str),
    /// A comment that MySQL runs.
    HiddenCode(&'a str),
    /// A quote or comment without its end, to the end of the source.
    Unclosed(&'a str),
}

impl Lexeme<'_> {
    /// The part as it stands in the source.
    #[cfg(test)]
    pub(super) fn written(&self) -> String {
        match self {
            Lexeme::Parameter(name) => format!(":{name}"),
            Lexeme::Identifier(name) => format!("{{{name}}}"),
            Lexeme::Text(text) | Lexeme::ForeignParameter(text) | Lexeme::HiddenCode(text) | Lexeme::Unclosed(text) => {
                (*text).to_owned()
            }
        }
    }
}

/// The parts of a statement, in order.
pub(super) struct Scanner<'a> {
    rest: &'a str,
    dialect: Dialect,
    /// The character before `rest`, and the one before that: `a$1` and `e'` need to know.
    after: Option<char>,
    before: Option<char>,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(source: &'a str, dialect: Dialect) -> Self {
        Self { rest: source, dialect, after: None, before: None }
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (part, rest) = self.rest.split_at(length);
        for letter in part.chars() {
            self.before = self.after.replace(letter);
        }
        self.rest = rest;
        part
    }

    /// The length of what stands at the front and hides its text, with whether it is closed.
    fn hidden(&self) -> Option<(usize, bool)> {
        let rest = self.rest;
        let mysql = self.dialect == Dialect::MySql;
        let escape_string = matches!(self.after, Some('e' | 'E')) && !self.before.is_some_and(is_word);
        let escapes = mysql || (self.dialect == Dialect::Postgres && escape_string);
        match rest.as_bytes().first()? {
            b'\'' => Some(quoted(rest, '\'', escapes)),
            b'"' => Some(quoted(rest, '"', mysql)),
            b'`' if self.dialect != Dialect::Postgres => Some(quoted(rest, '`', false)),
            b'[' if self.dialect == Dialect::Sqlite => {
                Some(rest.find(']').map_or((rest.len(), false), |end| (end + 1, true)))
            }
            b'$' if self.dialect == Dialect::Postgres && !self.after.is_some_and(is_word) => dollar_quoted(rest),
            b'#' if mysql => Some((line(rest), true)),
            b'-' if rest.starts_with("--") => {
                // In MySQL two minus signs are a comment only before white space.
                let comment =
                    !mysql || rest[2..].chars().next().is_none_or(|next| next.is_whitespace() || next.is_control());
                comment.then(|| (line(rest), true))
            }
            b'/' if rest.starts_with("/*") => Some(block(rest, self.dialect == Dialect::Postgres)),
            _ => None,
        }
    }

    /// A place at the front: its lexeme and length.
    fn place(&self) -> Option<(Lexeme<'a>, usize)> {
        let rest = self.rest;
        let (first, behind) = (rest.chars().next()?, rest.get(1..).unwrap_or_default());
        let word = &behind[..word(behind)];
        match first {
            ':' if !word.is_empty() && !word.starts_with(|c: char| c.is_ascii_digit()) && self.after != Some(':') => {
                Some((Lexeme::Parameter(word), 1 + word.len()))
            }
            '{' if !word.is_empty() && behind[word.len()..].starts_with('}') => {
                Some((Lexeme::Identifier(word), word.len() + 2))
            }
            '?' if self.dialect != Dialect::Postgres => {
                Some((Lexeme::ForeignParameter(&rest[..=word.len()]), 1 + word.len()))
            }
            '$' | '@' if self.dialect == Dialect::Sqlite && !word.is_empty() && !self.after.is_some_and(is_word) => {
                Some((Lexeme::ForeignParameter(&rest[..=word.len()]), 1 + word.len()))
            }
            '$' if self.dialect == Dialect::Postgres
                && word.starts_with(|c: char| c.is_ascii_digit())
                && !self.after.is_some_and(is_word) =>
            {
                Some((Lexeme::ForeignParameter(&rest[..=word.len()]), 1 + word.len()))
            }
            _ => None,
        }
    }
}

impl<'a> Iterator for Scanner<'a> {
    type Item = Lexeme<'a>;

    fn next(&mut self) -> Option<Lexeme<'a>> {
        if let Some((length, closed)) = self.hidden() {
            let part = self.take(length);
            let runs = self.dialect == Dialect::MySql && (part.starts_with("/*!") || part.starts_with("/*M!"));
            return Some(match (closed, runs) {
                (false, _) => Lexeme::Unclosed(part),
                (true, true) => Lexeme::HiddenCode(part),
                (true, false) => Lexeme::Text(part),
            });
        }
        if let Some((lexeme, length)) = self.place() {
            self.take(length);
            return Some(lexeme);
        }
        let first = self.rest.chars().next()?;
        Some(Lexeme::Text(self.take(first.len_utf8())))
    }
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The length of the word at the front.
fn word(text: &str) -> usize {
    text.find(|letter: char| !is_word(letter)).unwrap_or(text.len())
}

fn line(text: &str) -> usize {
    text.find('\n').map_or(text.len(), |end| end + 1)
}

/// A quote that ends at a single `mark`; a doubled one, and with `escapes` one behind a backslash, does not end it.
fn quoted(text: &str, mark: char, escapes: bool) -> (usize, bool) {
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        if escapes && letter == '\\' {
            letters.next();
        } else if letter == mark {
            if letters.peek().is_some_and(|(_, next)| *next == mark) {
                letters.next();
            } else {
                return (at + 1, true);
            }
        }
    }
    (text.len(), false)
}

/// `$$ ... $$` or `$tag$ ... $tag$`; `None` where this dollar sign opens no quote.
fn dollar_quoted(text: &str) -> Option<(usize, bool)> {
    let tag = word(&text[1..]);
    if text[1..].starts_with(|letter: char| letter.is_ascii_digit()) || !text[1 + tag..].starts_with('$') {
        return None;
    }
    let mark = &text[..tag + 2];
    Some(text[mark.len()..].find(mark).map_or((text.len(), false), |end| (end + 2 * mark.len(), true)))
}

/// `/* ... */`, nested where the dialect nests.
fn block(text: &str, nests: bool) -> (usize, bool) {
    let mut depth = 1;
    let mut at = 2;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return (at, true);
            }
        } else if nests && rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else {
            at += 1;
        }
    }
    (text.len(), false)
}
