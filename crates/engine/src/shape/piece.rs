//! Reading a stored result back in pieces that fit: a range of characters, some lines, or the places where
//! a word stands.
//!
//! Offsets and lengths are characters of the stored text. A piece never exceeds the limit, so it is never
//! shortened or stored again; `next_offset` is where the next one begins, strictly after this one, or null
//! at the end. One line of any length is only characters like any other.

use std::ops::Range;

use reach_core::Object;
use reach_core::rank::{passages, rank};
use serde::Deserialize;
use serde_json::{Value, json};

use super::measure::{measure, width};

/// The smallest limit that [`read`] can keep; smaller ones count as this.
pub const FLOOR: usize = 240;

/// Characters shown around a place where the searched text stands.
const AROUND: usize = 200;
/// The longest text to search for, in characters.
const LONGEST_SEARCH: usize = 200;

/// Which piece.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Where to begin; 0 when absent. For a search, places before it are not shown.
    #[serde(default)]
    pub offset: Option<u64>,
    /// How many characters; as many as fit when absent.
    #[serde(default)]
    pub length: Option<u64>,
    /// The first line, from 1.
    #[serde(default)]
    pub start_line: Option<u64>,
    /// The last line, included.
    #[serde(default)]
    pub end_line: Option<u64>,
    /// Text to look for, without regard to case.
    #[serde(default)]
    pub search: Option<String>,
}

/// Why there is no such piece, as its reader needs it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoPiece(pub String);

/// Reads one piece of at most `limit` characters of compact JSON (at least [`FLOOR`]): `{"text", "offset",
/// "next_offset", "total"}`, or for a search `{"matches": [{"line", "offset", "text"}], "found_by", "total",
/// "next_offset"}`. Linear in the text.
pub fn read(text: &str, request: &Request, limit: usize) -> Result<Object, NoPiece> {
    let limit = limit.max(FLOOR);
    let has_lines = request.start_line.is_some() || request.end_line.is_some();
    let refused = |why: &str| Err(NoPiece(why.to_owned()));
    match &request.search {
        Some(_) if has_lines || request.length.is_some() => {
            refused("`search` goes with `offset` only; leave out lines and length")
        }
        Some(search) => find(text, search, size(request.offset), limit),
        None if has_lines && request.offset.is_some() => {
            refused("`offset` and lines are two ways to say where; use one")
        }
        None if has_lines => lines(text, request, limit),
        None => characters(text, size(request.offset), request.length, limit),
    }
}

/// A number as a count of things in memory; more than fits is more than there is.
fn size(number: Option<u64>) -> usize {
    number.map_or(0, |number| usize::try_from(number).unwrap_or(usize::MAX))
}

fn characters(text: &str, offset: usize, length: Option<u64>, limit: usize) -> Result<Object, NoPiece> {
    let total = text.chars().count();
    if offset > total || (offset == total && total > 0) {
        return Err(NoPiece(format!("there is nothing at offset {offset}: the result has {total} characters")));
    }
    if length == Some(0) {
        return Err(NoPiece("a length of 0 reads nothing; leave it out to read as much as fits".to_owned()));
    }
    let wanted = length.map_or(usize::MAX, |length| size(Some(length)));
    let end = offset.saturating_add(wanted).min(total);
    Ok(piece(text, offset, end, total, limit))
}

fn lines(text: &str, request: &Request, limit: usize) -> Result<Object, NoPiece> {
    let start = request.start_line.unwrap_or(1);
    let end = request.end_line.unwrap_or(u64::MAX);
    if start == 0 || end < start {
        return Err(NoPiece("lines count from 1, and `end_line` is not before `start_line`".to_owned()));
    }
    let (mut offset, mut from, mut to, mut count) = (0usize, None, 0usize, 0u64);
    for line in text.split_inclusive('\n') {
        count += 1;
        if count == start {
            from = Some(offset);
        }
        offset += line.chars().count();
        if count <= end {
            to = offset;
        }
    }
    let Some(from) = from else {
        return Err(NoPiece(format!("there is no line {start}: the result has {count} lines")));
    };
    let wanted = request.length.map_or(usize::MAX, |length| size(Some(length)));
    if wanted == 0 {
        return Err(NoPiece("a length of 0 reads nothing; leave it out to read as much as fits".to_owned()));
    }
    let mut data = piece(text, from, to.min(from.saturating_add(wanted)), offset, limit);
    data.insert("lines".to_owned(), json!(count));
    Ok(data)
}

/// The characters from `offset` to `end`, as many as fit. The frame is measured with its largest numbers.
fn piece(text: &str, offset: usize, end: usize, total: usize, limit: usize) -> Object {
    let frame = json!({"text": "", "offset": total, "next_offset": total, "total": total, "lines": total});
    let mut room = limit.saturating_sub(measure(&frame));
    let mut shown = String::new();
    let mut at = offset;
    for c in text.chars().skip(offset).take(end - offset) {
        let Some(left) = room.checked_sub(width(c)) else { break };
        room = left;
        shown.push(c);
        at += 1;
    }
    let next = (at < total).then_some(at);
    object(json!({"text": shown, "offset": offset, "next_offset": next, "total": total}))
}

/// One place: its line, where it is, and the characters that are shown of it.
struct Place {
    line: usize,
    offset: usize,
    shown: Range<usize>,
}

fn find(text: &str, search: &str, offset: usize, limit: usize) -> Result<Object, NoPiece> {
    let search = search.trim();
    if search.is_empty() || search.chars().count() > LONGEST_SEARCH {
        return Err(NoPiece(format!("`search` is a text of 1 to {LONGEST_SEARCH} characters")));
    }
    let characters: Vec<char> = text.chars().collect();
    let mut places = literal(&characters, search);
    let mut found_by = "text";
    if places.is_empty() {
        places = by_words(text, search);
        found_by = "words";
    }
    let total = places.len();
    let most = characters.len();
    let frame = json!({"matches": [], "found_by": found_by, "total": total, "next_offset": most});
    let mut room = limit.saturating_sub(measure(&frame));
    let mut matches = Vec::new();
    let mut next = None;
    for place in places.into_iter().skip_while(|place| place.offset < offset) {
        let mut entry = json!({"line": place.line, "offset": place.offset, "text": ""});
        let left = room.saturating_sub(measure(&entry) + 1);
        let fitting =
            fit(characters.get(place.shown).unwrap_or_default(), if matches.is_empty() { left } else { usize::MAX });
        let cost = fitting.chars().map(width).sum::<usize>();
        if cost > left {
            next = Some(place.offset);
            break;
        }
        room = left - cost;
        entry["text"] = fitting.into();
        matches.push(entry);
    }
    Ok(object(json!({"matches": matches, "found_by": found_by, "total": total, "next_offset": next})))
}

/// The longest beginning of at most `room` characters of JSON.
fn fit(text: &[char], room: usize) -> String {
    let mut used = 0;
    text.iter()
        .take_while(|c| {
            used += width(**c);
            used <= room
        })
        .collect()
}

/// Every place where `search` stands, one for each line, or for each stretch of a long line.
fn literal(text: &[char], search: &str) -> Vec<Place> {
    let lower = |c: char| c.to_lowercase().next().unwrap_or(c);
    let needle: Vec<char> = search.chars().map(lower).collect();
    let folded: Vec<char> = text.iter().map(|c| lower(*c)).collect();
    let mut places = Vec::new();
    let (mut line, mut start) = (0, 0);
    for content in text.split_inclusive(|c| *c == '\n') {
        line += 1;
        let end = start + content.len();
        let trimmed = if content.last() == Some(&'\n') { end - 1 } else { end };
        let mut at = start;
        while let Some(hit) = folded.get(at..trimmed).and_then(|rest| position(rest, &needle)).map(|hit| at + hit) {
            let (from, to) = if trimmed - start <= AROUND {
                (start, trimmed)
            } else {
                let from = hit.saturating_sub(AROUND / 4).max(start);
                (from, (from + AROUND).max(hit + needle.len()).min(trimmed))
            };
            places.push(Place { line, offset: hit, shown: from..to });
            at = to.max(hit + 1);
        }
        start = end;
    }
    places
}

fn position(text: &[char], needle: &[char]) -> Option<usize> {
    text.windows(needle.len().max(1)).position(|window| window == needle)
}

/// Where the text does not stand as written: the passages that hold most of its words, in their order.
fn by_words(text: &str, search: &str) -> Vec<Place> {
    let ranges = passages(text, AROUND);
    let parts: Vec<&str> = ranges.iter().filter_map(|range| text.get(range.clone())).collect();
    let ranked = rank(search, &parts);
    let most = ranked.iter().map(|scored| scored.matched).max().unwrap_or(0);
    let mut kept: Vec<usize> =
        ranked.iter().filter(|scored| scored.matched == most).map(|scored| scored.index).collect();
    kept.sort_unstable();
    let (mut line, mut offset, mut at) = (1, 0, 0);
    let mut places = Vec::new();
    for index in kept {
        let (Some(range), Some(part)) = (ranges.get(index), parts.get(index)) else { continue };
        let before = text.get(at..range.start).unwrap_or_default();
        line += before.matches('\n').count();
        offset += before.chars().count();
        at = range.start;
        places.push(Place { line, offset, shown: offset..offset + part.chars().count() });
    }
    places
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(data) => data,
        // Only ever called with an object written out above.
        other => Object::from_iter([("value".to_owned(), other)]),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ask(text: &str, request: Value, limit: usize) -> Result<Value, String> {
        let request: Request = serde_json::from_value(request).expect("a request");
        let data = read(text, &request, limit).map(Value::Object).map_err(|error| error.0)?;
        assert!(measure(&data) <= limit.max(FLOOR), "{data}");
        Ok(data)
    }

    /// Reads to the end by `next_offset`, and returns the whole and the number of reads.
    fn read_all(text: &str, mut request: Value, limit: usize) -> (String, usize) {
        let (mut whole, mut reads) = (String::new(), 0);
        loop {
            let piece = ask(text, request.clone(), limit).unwrap();
            reads += 1;
            whole.push_str(piece["text"].as_str().unwrap());
            let Some(next) = piece["next_offset"].as_u64() else { return (whole, reads) };
            assert!(next > piece["offset"].as_u64().unwrap(), "offsets grow");
            request["offset"] = next.into();
        }
    }

    #[test]
    fn case_c004_a_large_result_is_read_back_in_pieces_that_fit() {
        let mut text = "x".repeat(100 << 10) + "\n";
        while text.len() < 200 << 10 {
            text.push_str("one more line\n");
        }
        let (whole, reads) = read_all(&text, json!({"offset": 0, "length": 65_536}), 16_384);
        assert_eq!(whole, text);
        assert!(reads <= 15, "{reads}");
    }

    #[test]
    fn case_c001_a_length_is_kept_to_the_character() {
        let piece = ask(&"中".repeat(40_000), json!({"length": 500}), 2_000).unwrap();
        assert_eq!(piece["text"].as_str().unwrap().chars().count(), 500);
        assert_eq!((&piece["next_offset"], &piece["total"]), (&json!(500), &json!(40_000)));
    }

    #[test]
    fn lines_are_read_by_number_and_a_long_one_goes_on_by_offset() {
        let text = format!("first\nsecond\n{}\nlast", "y".repeat(5_000));
        assert_eq!(ask(&text, json!({"start_line": 1, "end_line": 2}), 500).unwrap()["text"], "first\nsecond\n");
        let piece = ask(&text, json!({"start_line": 3, "end_line": 3}), 500).unwrap();
        assert_eq!((&piece["offset"], &piece["lines"]), (&json!(13), &json!(4)));
        let next = piece["next_offset"].as_u64().unwrap();
        assert!(
            next > 13 && ask(&text, json!({"offset": next}), 500).unwrap()["text"].as_str().unwrap().starts_with('y')
        );
        assert_eq!(ask(&text, json!({"start_line": 4}), 500).unwrap()["next_offset"], Value::Null);
        assert_eq!(ask(&text, json!({"start_line": 2, "length": 3}), 500).unwrap()["text"], "sec");
        assert!(ask(&text, json!({"start_line": 9}), 500).unwrap_err().contains("4 lines"));
    }

    #[test]
    fn a_search_shows_lines_with_numbers_and_goes_on_by_offset() {
        let text: String =
            (1..=400).map(|n| format!("{n} {}\n", if n % 4 == 0 { "Error: lost" } else { "fine" })).collect();
        let (mut seen, mut request) = (Vec::new(), json!({"search": "error"}));
        loop {
            let piece = ask(&text, request.clone(), 600).unwrap();
            assert_eq!((&piece["total"], &piece["found_by"]), (&json!(100), &json!("text")));
            seen.extend(piece["matches"].as_array().unwrap().iter().map(|found| {
                assert!(found["text"].as_str().unwrap().ends_with("Error: lost"));
                found["line"].as_u64().unwrap()
            }));
            let Some(next) = piece["next_offset"].as_u64() else { break };
            request["offset"] = next.into();
        }
        assert_eq!(seen, (1..=100).map(|n| n * 4).collect::<Vec<_>>());
    }

    #[test]
    fn a_search_shows_where_in_a_long_line_it_found_something() {
        let text = format!("{{\"a\":\"{}退款{}\"}}", "z".repeat(50_000), "z".repeat(50_000));
        let piece = ask(&text, json!({"search": "退款"}), 600).unwrap();
        let found = &piece["matches"][0];
        assert_eq!((&found["line"], &found["offset"]), (&json!(1), &json!(50_006)));
        let shown = found["text"].as_str().unwrap();
        assert!(shown.contains("退款") && shown.chars().count() <= AROUND);
        assert_eq!(piece["total"], 1);
    }

    #[test]
    fn a_search_for_words_that_stand_apart_finds_their_passage() {
        let text = "orders ship daily\n\nthe refund of a damaged order takes five days\n\nnothing";
        let piece = ask(text, json!({"search": "damaged refunds"}), 600).unwrap();
        assert_eq!((&piece["found_by"], &piece["matches"][0]["line"]), (&json!("words"), &json!(3)));
        assert_eq!(ask(text, json!({"search": "zebra"}), 600).unwrap()["total"], 0);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_a_way_out() {
        for (request, word) in [
            (json!({"offset": 5}), "5 characters"),
            (json!({"length": 0}), "leave it out"),
            (json!({"offset": 1, "start_line": 1}), "use one"),
            (json!({"search": "a", "length": 3}), "leave out"),
            (json!({"search": " "}), "1 to 200"),
            (json!({"start_line": 2, "end_line": 1}), "not before"),
        ] {
            let refusal = ask("12345", request.clone(), 500).unwrap_err();
            assert!(refusal.contains(word), "{request}: {refusal}");
        }
        assert_eq!(ask("", json!({}), 500).unwrap()["text"], "");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn any_text_is_read_back_whole(text in "[a\n\"\u{1}中😀]{1,900}", limit in 0usize..400, length in 1u64..300) {
            let (whole, _) = read_all(&text, json!({"offset": 0, "length": length}), limit);
            prop_assert_eq!(whole, text);
        }

        #[test]
        fn any_search_fits_and_ends(text in "[aB\n\"中]{0,900}", search in "[ab中\"]{1,3}", limit in 0usize..600) {
            let (mut request, mut seen, mut last) = (json!({"search": search}), 0, -1);
            loop {
                let piece = ask(&text, request.clone(), limit).map_err(TestCaseError::fail)?;
                for found in piece["matches"].as_array().unwrap() {
                    let offset = found["offset"].as_i64().unwrap();
                    prop_assert!(offset > last);
                    last = offset;
                    seen += 1;
                }
                let Some(next) = piece["next_offset"].as_u64() else {
                    prop_assert_eq!(&piece["total"], &json!(seen));
                    break;
                };
                request["offset"] = next.into();
            }
        }
    }
}
