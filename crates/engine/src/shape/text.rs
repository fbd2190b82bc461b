//! Shortening one text: head and tail, or the passages that answer a question.
//!
//! Budgets are characters of JSON, quotes and escapes included. Cuts are made between characters; nothing
//! that is shown was changed.

use reach_core::rank::{passages, rank};

use super::measure::{text as measured, text_upto, width};

/// Less than this beside a notice is not worth showing.
const LEAST_SHOWN: usize = 12;

/// Characters of JSON that are ranked at most; what lies beyond is a gap. Ranking that much is quick,
/// ranking whatever an upstream sends would hold up the road.
pub(super) const MOST_RANKED: usize = 1 << 18;

/// The shortest that a text can become: a notice of its length.
pub(super) fn shortest(characters: usize) -> String {
    format!("… {characters} characters")
}

/// Head and tail of `text`, and how much is missing between. `budget` is at least the length of
/// [`shortest`].
pub(super) fn clip(text: &str, budget: usize) -> String {
    if text_upto(text, budget) <= budget {
        return text.to_owned();
    }
    let total = text.chars().count();
    if is_encoded(text) {
        // Two ends of base64 tell nobody anything.
        let notice = format!("… {total} characters of base64");
        return if measured(&notice) <= budget { notice } else { shortest(total) };
    }
    let between = |left: usize| format!(" … [{left} of {total} characters left out] … ");
    let room = budget.saturating_sub(measured(&between(total)));
    if room >= LEAST_SHOWN {
        let tail = tail(text, room / 3);
        let head = head(text, room - text_upto(tail, usize::MAX) + 2);
        let left = total - head.chars().count() - tail.chars().count();
        return format!("{head}{}{tail}", between(left));
    }
    let after = format!("… ({total} characters)");
    let room = budget.saturating_sub(measured(&after));
    if room >= LEAST_SHOWN { format!("{}{after}", head(text, room)) } else { shortest(total) }
}

/// The passages of `text` that match `query` best, in their order, with the gaps told; `None` where none
/// matches or fits.
pub(super) fn extract(text: &str, budget: usize, query: &str) -> Option<String> {
    let looked_at = head(text, MOST_RANKED);
    let ranges = passages(looked_at, (budget / 4).clamp(80, 400));
    let parts: Vec<&str> = ranges.iter().filter_map(|range| text.get(range.clone())).collect();
    let ranked = rank(query, &parts);
    let gap = |left: usize| format!("\n… [{left} characters left out] …\n");
    let gap_width = measured(&gap(text.chars().count()));
    // The best first, then what stands beside them, which often holds the rest of the answer.
    let beside = ranked.iter().flat_map(|best| [best.index.checked_add(1), best.index.checked_sub(1)]).flatten();
    let mut kept = vec![false; parts.len()];
    let mut room = budget.saturating_sub(2 + gap_width);
    for index in ranked.iter().map(|best| best.index).chain(beside) {
        let (Some(part), Some(kept)) = (parts.get(index), kept.get_mut(index)) else { continue };
        let cost = text_upto(part, room) + gap_width;
        if !*kept && cost <= room {
            (*kept, room) = (true, room - cost);
        }
    }
    if !kept.contains(&true) {
        return None;
    }
    let mut out = String::new();
    let mut at = 0;
    for (range, _) in ranges.iter().zip(&kept).filter(|(_, kept)| **kept) {
        let between = text.get(at..range.start).unwrap_or_default();
        // White space between neighbours is shown as it is, unless a gap is shorter.
        if between.trim().is_empty() && between.chars().map(width).sum::<usize>() <= gap_width {
            out.push_str(between);
        } else {
            out.push_str(&gap(between.chars().count()));
        }
        out.push_str(text.get(range.clone()).unwrap_or_default());
        at = range.end;
    }
    let rest = text.get(at..).unwrap_or_default();
    if !rest.trim().is_empty() {
        out.push_str(&gap(rest.chars().count()));
    }
    Some(out)
}

/// The longest beginning of at most `room` characters of JSON, without quotes.
fn head(text: &str, room: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += width(c);
        if used > room {
            return text.get(..at).unwrap_or_default();
        }
    }
    text
}

/// The longest end of at most `room` characters of JSON, without quotes.
fn tail(text: &str, room: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices().rev() {
        used += width(c);
        if used > room {
            return text.get(at + c.len_utf8()..).unwrap_or_default();
        }
    }
    text
}

/// Whether a text is bytes in disguise: long, without a space, in the alphabet of base64, of all its kinds.
fn is_encoded(text: &str) -> bool {
    let body = match text.split_once(";base64,") {
        Some((kind, body)) if kind.starts_with("data:") => body,
        _ => text,
    };
    let is = |test: fn(&u8) -> bool| body.bytes().any(|byte| test(&byte));
    body.len() >= 200
        && body.bytes().all(|byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=' | b'\n' | b'\r')
        })
        && is(u8::is_ascii_uppercase)
        && is(u8::is_ascii_lowercase)
        && is(u8::is_ascii_digit)
        && !body.lines().any(|line| line.len() < 40 && line.len() * 4 < body.len())
}
