//! Ranking passages of text against a question, in English and Chinese, without a model.
//!
//! A passage is a bag of words ([`words`]), weighed by BM25: a word counts the more the fewer passages
//! hold it, and repeats count less and less. [`rank`] answers one question over a few passages,
//! [`Ranking`] takes passages one by one and keeps only those that match, [`Index`] is built once and
//! asked many times. All are linear in the text and give the same order for the same input; nothing here
//! reads a file, waits or panics.

mod index;
mod passages;
mod words;

pub use index::Index;
pub use passages::passages;
pub use words::{is_cjk, words};

use std::collections::HashMap;

/// How fast repeats of a word in one passage stop counting.
const SATURATION: f64 = 1.2;
/// How much a passage longer than the mean is marked down.
const LENGTH_WEIGHT: f64 = 0.75;

/// Words of a question that say nothing about its subject, as [`words`] cuts them. Left out unless nothing
/// else is there.
const FILLERS: [&str; 46] = [
    "a", "about", "all", "an", "and", "any", "are", "at", "be", "by", "can", "did", "do", "doe", "for", "from", "has",
    "hav", "how", "i", "if", "in", "is", "it", "me", "my", "of", "on", "or", "our", "pleas", "that", "the", "ther",
    "this", "to", "was", "we", "what", "when", "wher", "which", "who", "with", "you", "your",
];

/// One passage that matched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// Which passage, in the order given.
    pub index: usize,
    /// How well it matches; above zero, comparable within one ranking only.
    pub score: f64,
    /// How many different words of the question it holds.
    pub matched: usize,
}

/// The passages that hold at least one word of `query`, best first; of equals, the earlier first.
/// Passages without any are left out. Linear in the text.
pub fn rank(query: &str, passages: &[&str]) -> Vec<Scored> {
    let mut ranking = Ranking::new(query);
    for passage in passages {
        ranking.add(passage);
    }
    ranking.finish()
}

/// A question's words: each once, in order, without fillers where something else is left.
fn question(query: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    words(query, |word, counted| {
        if counted && !all.iter().any(|known| known == word) {
            all.push(word.to_owned());
        }
    });
    let telling: Vec<String> = all.iter().filter(|word| !FILLERS.contains(&word.as_str())).cloned().collect();
    if telling.is_empty() { all } else { telling }
}

/// A ranking under way: passages go in one by one, and only the matching ones cost memory.
#[derive(Clone, Debug)]
pub struct Ranking {
    terms: HashMap<String, usize>,
    holders: Vec<u32>,
    passages: usize,
    length: u64,
    matches: Vec<Match>,
    counts: Vec<u32>,
}

/// One matching passage: how often it holds each term of the question.
#[derive(Clone, Debug)]
struct Match {
    index: usize,
    length: u32,
    counts: Vec<(usize, u32)>,
}

impl Ranking {
    /// A ranking for one question.
    pub fn new(query: &str) -> Self {
        let terms: HashMap<String, usize> =
            question(query).into_iter().enumerate().map(|(index, word)| (word, index)).collect();
        let count = terms.len();
        Self { terms, holders: vec![0; count], passages: 0, length: 0, matches: Vec::new(), counts: vec![0; count] }
    }

    /// Whether the question holds any word at all: without one, nothing can match.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Takes the next passage; its index is the number of passages before it. True when it matches.
    pub fn add(&mut self, passage: &str) -> bool {
        let index = self.passages;
        self.passages += 1;
        let mut length = 0u32;
        words(passage, |word, counted| {
            length = length.saturating_add(u32::from(counted));
            if let Some(count) = self.terms.get(word).and_then(|term| self.counts.get_mut(*term)) {
                *count = count.saturating_add(1);
            }
        });
        self.length += u64::from(length);
        let mut counts = Vec::new();
        for (term, count) in self.counts.iter_mut().enumerate().filter(|(_, count)| **count > 0) {
            counts.push((term, std::mem::take(count)));
            if let Some(holders) = self.holders.get_mut(term) {
                *holders += 1;
            }
        }
        let matched = !counts.is_empty();
        if matched {
            self.matches.push(Match { index, length, counts });
        }
        matched
    }

    /// The matching passages, best first.
    pub fn finish(self) -> Vec<Scored> {
        let scale = Scale::new(self.passages, self.length);
        let scored = self.matches.iter().map(|found| Scored {
            index: found.index,
            matched: found.counts.len(),
            score: found
                .counts
                .iter()
                .map(|(term, count)| scale.weight(self.holders.get(*term).copied().unwrap_or(0), *count, found.length))
                .sum(),
        });
        sorted(scored.collect())
    }
}

/// What all weights of one set of passages have in common.
#[derive(Clone, Copy, Debug)]
struct Scale {
    passages: f64,
    mean_length: f64,
}

impl Scale {
    fn new(passages: usize, length: u64) -> Self {
        let count = passages.max(1) as f64;
        Self { passages: passages as f64, mean_length: (length as f64 / count).max(1.0) }
    }

    /// The weight of a word that `holders` passages hold, and this one `count` times.
    fn weight(&self, holders: u32, count: u32, length: u32) -> f64 {
        let (holders, count) = (f64::from(holders), f64::from(count));
        let rarity = (1.0 + (self.passages - holders + 0.5) / (holders + 0.5)).ln();
        let long = 1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * f64::from(length) / self.mean_length;
        rarity * count * (SATURATION + 1.0) / (count + SATURATION * long)
    }
}

/// Best first; of equals, the earlier first.
fn sorted(mut scored: Vec<Scored>) -> Vec<Scored> {
    scored.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.index.cmp(&b.index)));
    scored
}

#[cfg(test)]
mod tests;
