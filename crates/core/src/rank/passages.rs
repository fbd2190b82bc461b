//! From a text to the passages that are ranked and shown: paragraphs where it has them, else groups of
//! lines, else pieces of a long line cut at the end of a sentence.

use std::ops::Range;

/// The byte ranges of the passages of `text`, in order, each of at most `longest` characters (at least
/// one). Only white space lies between them. A Markdown heading stays with what follows it. Linear.
pub fn passages(text: &str, longest: usize) -> Vec<Range<usize>> {
    let longest = longest.max(1);
    let mut found = Found { ranges: Vec::new(), open: None };
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.trim_end().len();
        let first = start + (line.len() - line.trim_start().len()).min(line.trim_end().len());
        let length = text[first..end].chars().count();
        if length == 0 {
            // A blank line ends a paragraph; a heading waits for its text.
            if !found.open.as_ref().is_some_and(|open| open.is_heading) {
                found.close();
            }
        } else if length > longest {
            found.close();
            pieces(text, first..end, longest, &mut found.ranges);
        } else {
            found.line(first..end, length, longest, text[first..end].starts_with('#'));
        }
        start += line.len();
    }
    found.close();
    found.ranges
}

struct Found {
    ranges: Vec<Range<usize>>,
    open: Option<Open>,
}

struct Open {
    range: Range<usize>,
    length: usize,
    is_heading: bool,
}

impl Found {
    fn line(&mut self, range: Range<usize>, length: usize, longest: usize, is_heading: bool) {
        // The length counts one character for each line end; what a blank line and indentation between
        // add is white space, bounded by the check against the bytes between.
        match &mut self.open {
            Some(open)
                if (open.is_heading || !is_heading)
                    && open.length + length + (range.start - open.range.end) <= longest =>
            {
                open.length += length + (range.start - open.range.end);
                open.range.end = range.end;
                open.is_heading &= is_heading;
            }
            _ => {
                self.close();
                self.open = Some(Open { range, length, is_heading });
            }
        }
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.ranges.push(open.range);
        }
    }
}

/// Cuts one long line. Looks for the last sentence end, then the last white space, in the second half of
/// each piece, so that pieces stay of a useful size.
fn pieces(text: &str, line: Range<usize>, longest: usize, into: &mut Vec<Range<usize>>) {
    let mut start = line.start;
    while start < line.end {
        let rest = &text[start..line.end];
        let (mut end, mut sentence, mut space) = (line.end, None, None);
        let mut previous = ' ';
        for (count, (at, c)) in rest.char_indices().enumerate() {
            if count == longest {
                end = start + sentence.or(space).unwrap_or(at);
                break;
            }
            if count >= longest / 2 {
                if c.is_whitespace() && at > 0 {
                    space = Some(at);
                    if matches!(previous, '.' | '!' | '?' | ';') {
                        sentence = Some(at);
                    }
                } else if matches!(c, '。' | '！' | '？' | '；') {
                    // The mark itself still belongs to its sentence; it fits, since count < longest.
                    sentence = Some(at + c.len_utf8());
                }
            }
            previous = c;
        }
        let piece = &text[start..end];
        let trimmed = piece.trim();
        if !trimmed.is_empty() {
            let from = start + (piece.len() - piece.trim_start().len());
            into.push(from..from + trimmed.len());
        }
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(text: &str, longest: usize) -> Vec<&str> {
        passages(text, longest).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn paragraphs_are_passages_and_a_heading_stays_with_its_text() {
        let text = "# Returns\n\nWithin 14 days.\nUnused.\n\n退款五日内到账。\r\n\r\n# Shipping\nFree.";
        assert_eq!(cut(text, 100), ["# Returns\n\nWithin 14 days.\nUnused.", "退款五日内到账。", "# Shipping\nFree."]);
    }

    #[test]
    fn lines_without_paragraphs_are_grouped() {
        assert_eq!(cut("aaaa\nbbbb\ncccc\n", 10), ["aaaa\nbbbb", "cccc"]);
    }

    #[test]
    fn a_long_line_is_cut_at_the_end_of_a_sentence_then_at_space_then_anywhere() {
        assert_eq!(cut("One two. Three four five", 12), ["One two.", "Three four", "five"]);
        assert_eq!(cut("今天发货。明天到达杭州", 8), ["今天发货。", "明天到达杭州"]);
        assert_eq!(cut("中中中中中", 2), ["中中", "中中", "中"]);
    }

    proptest! {
        #[test]
        fn nothing_but_white_space_is_lost(text in "[a中。. \n#]{0,60}", longest in 0usize..12) {
            let ranges = passages(&text, longest);
            let mut at = 0;
            for range in &ranges {
                prop_assert!(text[at..range.start].trim().is_empty());
                prop_assert!(!text[range.clone()].is_empty());
                prop_assert!(text[range.clone()].chars().count() <= longest.max(1));
                at = range.end;
            }
            prop_assert!(text[at..].trim().is_empty());
        }
    }
}
