//! Stretches of time, and how much of a timeline they cover when they overlap.

/// From, up to and not including, in milliseconds.
pub(super) type Span = (u64, u64);

/// The same time as stretches that do not touch, in order.
pub(super) fn merged(mut spans: Vec<Span>) -> Vec<Span> {
    spans.retain(|(from, to)| from < to);
    spans.sort_unstable();
    let mut out: Vec<Span> = Vec::with_capacity(spans.len());
    for (from, to) in spans {
        match out.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => out.push((from, to)),
        }
    }
    out
}

/// Milliseconds covered by stretches that do not overlap.
pub(super) fn length(spans: &[Span]) -> u64 {
    spans.iter().map(|(from, to)| to.saturating_sub(*from)).fold(0, u64::saturating_add)
}

/// Milliseconds covered by any of these.
pub(super) fn covered(spans: impl IntoIterator<Item = Span>) -> u64 {
    length(&merged(spans.into_iter().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_time_counts_once() {
        assert_eq!(merged(vec![(5, 9), (0, 3), (2, 4), (9, 10), (7, 7)]), [(0, 4), (5, 10)]);
        assert_eq!(covered([(0, 10), (2, 3), (20, 21)]), 11);
    }
}
