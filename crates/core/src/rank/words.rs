//! From text to the words that are compared.
//!
//! A word of a script with spaces is folded (case, full width) and, where it is plain English, cut back to
//! its stem. Scripts without spaces give pairs of neighbouring characters, which need no dictionary.
//! Nothing here knows what a passage or a question is.

use unicode_segmentation::UnicodeSegmentation;

/// Whether a character belongs to the scripts written without spaces between words (Han, kana, hangul).
pub fn is_cjk(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Hands every word of `text` to `emit`, with whether it counts towards the length of the text and as a
/// word of a question. A run of CJK characters gives each pair of neighbours (counted) and each single
/// character (not counted, so that a question of one character still finds it); a run of one gives that
/// character, counted. Linear; allocates one small buffer.
pub fn words(text: &str, mut emit: impl FnMut(&str, bool)) {
    let mut buffer = String::new();
    let (mut start, mut in_cjk) = (0, false);
    for (at, c) in text.char_indices() {
        if is_cjk(c) != in_cjk {
            segment(&text[start..at], in_cjk, &mut buffer, &mut emit);
            (start, in_cjk) = (at, !in_cjk);
        }
    }
    segment(&text[start..], in_cjk, &mut buffer, &mut emit);
}

fn segment(text: &str, is_cjk: bool, buffer: &mut String, emit: &mut impl FnMut(&str, bool)) {
    if is_cjk {
        pairs(text, emit);
    } else {
        for word in text.unicode_words() {
            spaced(word, buffer, emit);
        }
    }
}

fn pairs(run: &str, emit: &mut impl FnMut(&str, bool)) {
    let mut previous: Option<usize> = None;
    let mut characters = run.char_indices().peekable();
    let alone = run.chars().nth(1).is_none();
    while let Some((at, _)) = characters.next() {
        let end = characters.peek().map_or(run.len(), |(next, _)| *next);
        emit(&run[at..end], alone);
        if let Some(before) = previous {
            emit(&run[before..end], true);
        }
        previous = Some(at);
    }
}

/// A word as Unicode sees it may still be several to a reader: `order_status`, `reach.yaml`, `readFile`.
fn spaced(word: &str, buffer: &mut String, emit: &mut impl FnMut(&str, bool)) {
    let numeric = !word.chars().any(char::is_alphabetic);
    let parts = word.split(|c| c == '_' || (!numeric && matches!(c, '.' | ':' | '·')));
    for part in parts {
        // "order's" and "don't": what stands before the apostrophe carries the meaning.
        let part = part.split(['\'', '\u{2019}']).next().unwrap_or_default();
        if part.is_empty() {
            continue;
        }
        fold(part, buffer);
        emit(buffer, true);
        let mut from = 0;
        let mut humps = 0;
        let mut lower = false;
        for (at, c) in part.char_indices() {
            if lower && c.is_uppercase() {
                fold(&part[from..at], buffer);
                emit(buffer, false);
                (from, humps) = (at, humps + 1);
            }
            lower = c.is_lowercase();
        }
        if humps > 0 {
            fold(&part[from..], buffer);
            emit(buffer, false);
        }
    }
}

/// Lower case, half width, and the stem where the word is plain English.
fn fold(word: &str, buffer: &mut String) {
    buffer.clear();
    for c in word.chars() {
        let narrow = match c {
            '\u{ff01}'..='\u{ff5e}' => char::from_u32(c as u32 - 0xfee0).unwrap_or(c),
            other => other,
        };
        if narrow.is_ascii() {
            buffer.push(narrow.to_ascii_lowercase());
        } else {
            buffer.extend(narrow.to_lowercase());
        }
    }
    if buffer.len() > 3 && buffer.bytes().all(|byte| byte.is_ascii_lowercase()) {
        stem(buffer);
    }
}

/// Cuts plural, `ing` and `ed`, then a final `e`: both sides of a comparison are cut alike, so what
/// matters is that forms of one word meet, not that the stem is a word.
fn stem(word: &mut String) {
    let cut = |word: &mut String, count: usize| word.truncate(word.len() - count);
    if word.ends_with("ies") || word.ends_with("ied") {
        if word.len() > 4 {
            cut(word, 3);
            word.push('y');
        }
        return;
    }
    if word.ends_with('s') && !["ss", "us", "is"].iter().any(|end| word.ends_with(end)) {
        let sibilant = ["ses", "xes", "zes", "ches", "shes"].iter().any(|end| word.ends_with(end));
        cut(word, if sibilant { 2 } else { 1 });
    }
    for end in ["ing", "ed"] {
        if word.ends_with(end) && stands_alone(&word[..word.len() - end.len()]) {
            cut(word, end.len());
            let bytes = word.as_bytes();
            if let [.., before, last] = bytes
                && before == last
                && !matches!(last, b'l' | b's' | b'z' | b'e' | b'o')
            {
                cut(word, 1);
            }
            break;
        }
    }
    if word.len() > 3 && word.ends_with('e') {
        cut(word, 1);
    }
}

/// A stem has at least three letters and a vowel: `string` and `shred` are no forms of `str` and `shr`.
fn stands_alone(stem: &str) -> bool {
    stem.len() >= 3 && stem.bytes().any(|byte| matches!(byte, b'a' | b'e' | b'i' | b'o' | b'u' | b'y'))
}
