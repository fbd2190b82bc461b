//! From standard error to the one line that a model may read.
//!
//! Programs explain a failure in their last words, after a stack that helps nobody but their author. This
//! module finds those words and takes out what does not leave the machine: folders, control
//! characters, stack frames. The whole text goes to the journal by another way.

use std::sync::LazyLock;

use regex::Regex;

/// Characters of the line at most.
const LENGTH: usize = 300;

/// The line of `text` that says best what went wrong, without folders; `None` when there is none.
pub(super) fn last_line(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().filter(|line| is_words(line)).collect();
    let named = lines.iter().rev().find(|line| NAMED_ERROR.is_match(line));
    let line = named.or_else(|| lines.iter().rev().find(|line| !line.starts_with([' ', '\t']))).or(lines.last())?;
    let line = clean(line);
    (!line.is_empty()).then_some(line)
}

/// One line without colour codes, control characters and folders.
fn clean(line: &str) -> String {
    let line = COLOUR.replace_all(line, "");
    let line = FOLDERS.replace_all(&line, "$before$file");
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    let line = line.trim();
    match line.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// Not a stack frame, a marker under a line of code, or advice to developers.
fn is_words(line: &str) -> bool {
    let line = line.trim();
    !(line.is_empty() || FRAME.is_match(line) || line.chars().all(|c| matches!(c, '^' | '~' | ' ' | '-' | '=')))
}

#[expect(clippy::expect_used, reason = "constant patterns, compiled by the tests below")]
fn pattern(source: &str) -> Regex {
    Regex::new(source).expect("a valid pattern")
}

/// `FileNotFoundError: ...`, `java.io.IOException: ...`, `Uncaught Error: ...` at the start of a line.
static NAMED_ERROR: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"^(?:Uncaught |Caused by: |Exception in thread "[^"]*" )?[\w.$:]*(?:Error|Exception|Exit|Interrupt)\b.*:"#,
    )
});

static FRAME: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r#"^(?:at\s.*[:(]\S*\d\)?$|File ".*", line \d+|Traceback \(most recent call last\)|from \S+:\d+"#,
        r#"|goroutine \d+ |note: run with `RUST_BACKTRACE|stack backtrace:|Node\.js v\d|\.\.\. \d+ more$)"#,
    ))
});

/// A folder of this machine in front of a file name: `/srv/app/` of `/srv/app/notes.md`, also behind
/// `file://`, never the path of a URL.
static FOLDERS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r#"(?P<before>^|[\s'"`(\[<=,;:])(?:file://)?/(?:[^\s'"`()\[\]<>,;:/]+/)+(?P<file>[^\s'"`()\[\]<>,;:/]*)"#)
});

static COLOUR: LazyLock<Regex> = LazyLock::new(|| pattern(r"\x1b\[[0-9;?]*[A-Za-z]"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_failure_are_found_behind_its_stack() {
        let cases = [
            (
                "Traceback (most recent call last):\n  File \"/srv/app/t.py\", line 9, in <module>\nFileNotFoundError: notes.md",
                "FileNotFoundError: notes.md",
            ),
            (
                "Traceback (most recent call last):\n  File \"/srv/t.py\", line 9\n    open(x)\n    ^^^^^^^\nFileNotFoundError: [Errno 2] No such file or directory: '/srv/data/notes.md'\n",
                "FileNotFoundError: [Errno 2] No such file or directory: 'notes.md'",
            ),
            (
                "/srv/app/x.js:3\nthrow new Error(\"boom\")\n^\n\nError: boom\n    at Object.<anonymous> (/srv/app/x.js:3:7)\n    at node:internal/main:28:49\n\nNode.js v20.1.0\n",
                "Error: boom",
            ),
            (
                "Exception in thread \"main\" java.io.IOException: no disk\n\tat com.shop.Main.main(Main.java:5)\n\t... 3 more",
                "Exception in thread \"main\" java.io.IOException: no disk",
            ),
            (
                "thread 'main' panicked at src/main.rs:2:5:\nboom\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace",
                "boom",
            ),
            (
                "du: cannot access '/srv/private/x': No such file or directory\n",
                "du: cannot access 'x': No such file or directory",
            ),
            ("\u{1b}[31merror:\u{1b}[0m order is closed\r\n\r\n", "error: order is closed"),
            ("cannot reach https://shop.example/v1/orders/7", "cannot reach https://shop.example/v1/orders/7"),
            ("cannot open file:///etc/reach/key.pem", "cannot open key.pem"),
            ("订单 OD1 已关闭", "订单 OD1 已关闭"),
        ];
        for (text, wanted) in cases {
            assert_eq!(last_line(text).as_deref(), Some(wanted), "{text}");
        }
    }

    #[test]
    fn silence_stays_silence_and_a_long_line_is_cut_between_characters() {
        assert_eq!(last_line(" \n\n"), None);
        assert_eq!(last_line("  File \"/srv/app/t.py\", line 9\n"), None);
        assert_eq!(last_line(&"错".repeat(1000)).unwrap().chars().count(), LENGTH + 1);
    }
}
