//! The health ledger of one tool: calls, success rate, mean and p95 latency and error codes of the
//! last five minutes, in thirty slices of ten seconds. Fixed size; adding a sample allocates only for
//! a code's first appearance in a slice.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::ErrorCode;

/// Milliseconds in one slice.
const SLICE_MS: u64 = 10_000;

/// Slices kept.
const SLICES: u64 = 30;

/// The whole window, in milliseconds.
pub const WINDOW_MS: u64 = SLICE_MS * SLICES;

/// Latency classes: class `i` ends at 2^(i/4) ms, so that a percentile is off by at most 19 %.
const CLASSES: usize = 72;

/// Samples of one tool.
#[derive(Clone, Debug, Default)]
pub struct Window {
    slices: VecDeque<Slice>,
}

#[derive(Clone, Debug)]
struct Slice {
    number: u64,
    calls: u64,
    ok: u64,
    latency_sum_ms: u64,
    latency_max_ms: u64,
    classes: [u32; CLASSES],
    codes: BTreeMap<ErrorCode, u64>,
}

/// What a window says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Calls in the window.
    pub calls: u64,
    /// Calls that worked, in parts of one; null without calls.
    pub success_rate: Option<f64>,
    /// Mean latency; null without calls.
    pub mean_ms: Option<u64>,
    /// The latency that 95 of 100 calls stay under, within 19 %; null without calls.
    pub p95_ms: Option<u64>,
    /// How often each code was answered.
    pub codes: BTreeMap<ErrorCode, u64>,
}

impl Window {
    /// Adds one call that ended at `at_ms`. Samples out of order by less than the window are kept.
    pub fn add(&mut self, at_ms: u64, code: Option<ErrorCode>, latency_ms: u64) {
        let number = at_ms / SLICE_MS;
        let slice = self.slice(number);
        slice.calls += 1;
        // The journal may hand in any number; a sum that is full stays full.
        slice.latency_sum_ms = slice.latency_sum_ms.saturating_add(latency_ms);
        slice.latency_max_ms = slice.latency_max_ms.max(latency_ms);
        slice.classes[class_of(latency_ms)] += 1;
        match code {
            None => slice.ok += 1,
            Some(code) => *slice.codes.entry(code).or_default() += 1,
        }
        while self.slices.len() as u64 > SLICES {
            self.slices.pop_front();
        }
    }

    /// Sums the slices that are not older than the window at `now_ms`.
    pub fn summary(&self, now_ms: u64) -> Summary {
        let oldest = (now_ms / SLICE_MS).saturating_sub(SLICES - 1);
        let (mut calls, mut ok, mut sum, mut max) = (0, 0, 0u64, 0);
        let mut classes = [0u64; CLASSES];
        let mut codes = BTreeMap::new();
        for slice in self.slices.iter().filter(|slice| slice.number >= oldest) {
            calls += slice.calls;
            ok += slice.ok;
            sum = sum.saturating_add(slice.latency_sum_ms);
            max = max.max(slice.latency_max_ms);
            for (all, here) in classes.iter_mut().zip(slice.classes) {
                *all += u64::from(here);
            }
            for (code, count) in &slice.codes {
                *codes.entry(*code).or_default() += count;
            }
        }
        if calls == 0 {
            return Summary::default();
        }
        Summary {
            calls,
            success_rate: Some(ok as f64 / calls as f64),
            mean_ms: Some(sum / calls),
            p95_ms: Some(percentile(&classes, calls, 95).min(max)),
            codes,
        }
    }

    fn slice(&mut self, number: u64) -> &mut Slice {
        let at = match self.slices.binary_search_by_key(&number, |slice| slice.number) {
            Ok(at) => at,
            Err(at) => {
                self.slices.insert(at, Slice::new(number));
                at
            }
        };
        &mut self.slices[at]
    }
}

impl Slice {
    fn new(number: u64) -> Self {
        Self {
            number,
            calls: 0,
            ok: 0,
            latency_sum_ms: 0,
            latency_max_ms: 0,
            classes: [0; CLASSES],
            codes: BTreeMap::new(),
        }
    }
}

fn class_of(latency_ms: u64) -> usize {
    let class = ((latency_ms.max(1) as f64).log2() * 4.0).ceil() as usize;
    class.min(CLASSES - 1)
}

fn class_end_ms(class: usize) -> u64 {
    2f64.powf(class as f64 / 4.0).ceil() as u64
}

fn percentile(classes: &[u64; CLASSES], calls: u64, percent: u64) -> u64 {
    let wanted = (calls * percent).div_ceil(100);
    let mut seen = 0;
    for (class, count) in classes.iter().enumerate() {
        seen += count;
        if seen >= wanted {
            return class_end_ms(class);
        }
    }
    class_end_ms(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_counts_rate_latency_and_codes() {
        let mut window = Window::default();
        for index in 0..100 {
            let code = (index % 10 == 0).then_some(ErrorCode::Timeout);
            window.add(1_000 + index, code, if index < 95 { 10 } else { 1_000 });
        }
        let summary = window.summary(2_000);
        assert_eq!(summary.calls, 100);
        assert_eq!(summary.success_rate, Some(0.9));
        assert_eq!(summary.mean_ms, Some(59));
        assert!(summary.p95_ms.is_some_and(|p95| (10..=12).contains(&p95)), "{:?}", summary.p95_ms);
        assert_eq!(summary.codes[&ErrorCode::Timeout], 10);
    }

    #[test]
    fn calls_older_than_the_window_are_forgotten() {
        let mut window = Window::default();
        window.add(0, None, 5);
        assert_eq!(window.summary(WINDOW_MS - 1).calls, 1);
        assert_eq!(window.summary(WINDOW_MS).calls, 0);
        assert_eq!(window.summary(WINDOW_MS).success_rate, None);
    }
}
