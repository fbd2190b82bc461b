//! How long a bar is on a line of so many cells. Numbers only; drawing is the business of who has a screen.

/// Cells before, of and after a bar; together always the width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    /// Empty cells before it.
    pub before: usize,
    /// Its cells: at least one, so that the shortest call is seen.
    pub filled: usize,
    /// Empty cells after it.
    pub after: usize,
}

/// The bar of something that began at `start` and took `duration` of `total`, on `width` cells.
///
/// All three in the same unit. What does not fit is cut at the edges; without width there is nothing.
pub fn bar(start: u64, duration: u64, total: u64, width: usize) -> Bar {
    if width == 0 {
        return Bar { before: 0, filled: 0, after: 0 };
    }
    let end = start.saturating_add(duration).min(total);
    let first = cell(start.min(total), total, width).min(width - 1);
    let last = cell(end, total, width).clamp(first + 1, width);
    Bar { before: first, filled: last - first, after: width - last }
}

/// The nearest border between cells, counted from the left.
fn cell(at: u64, total: u64, width: usize) -> usize {
    if total == 0 {
        return 0;
    }
    let wide = u128::from(at) * width as u128;
    let total = u128::from(total);
    usize::try_from((wide + total / 2) / total).unwrap_or(width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_lies_where_its_time_lies_and_is_never_invisible() {
        assert_eq!(bar(0, 100, 100, 10), Bar { before: 0, filled: 10, after: 0 });
        assert_eq!(bar(50, 25, 100, 8), Bar { before: 4, filled: 2, after: 2 });
        assert_eq!(bar(100, 0, 100, 10), Bar { before: 9, filled: 1, after: 0 });
        assert_eq!(bar(3, 1, 10_000, 10), Bar { before: 0, filled: 1, after: 9 });
        assert_eq!(bar(0, 0, 0, 5), Bar { before: 0, filled: 1, after: 4 });
        assert_eq!(bar(1, 1, 1, 0), Bar { before: 0, filled: 0, after: 0 });
    }

    #[test]
    fn cells_always_add_up_to_the_width() {
        for start in [0, 1, 7, 99, 100, 5_000, u64::MAX] {
            for duration in [0, 1, 50, 100, u64::MAX] {
                for total in [0, 1, 100, u64::MAX] {
                    for width in [1, 2, 13, 80] {
                        let bar = bar(start, duration, total, width);
                        assert_eq!(bar.before + bar.filled + bar.after, width);
                        assert!(bar.filled >= 1);
                    }
                }
            }
        }
    }
}
