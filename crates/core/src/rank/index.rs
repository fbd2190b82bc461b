//! An index over a fixed set of passages, for many questions: searching tools by description, say.

use std::collections::{BTreeMap, HashMap};

use super::{Scale, Scored, question, sorted, words};

/// Passages turned into postings once. Memory is linear in the text; the passages themselves are not kept.
#[derive(Clone, Debug, Default)]
pub struct Index {
    postings: HashMap<String, Vec<(u32, u32)>>,
    lengths: Vec<u32>,
    length: u64,
}

impl Index {
    /// Indexes passages; [`Scored::index`] counts them in this order. Linear.
    pub fn new<'a>(passages: impl IntoIterator<Item = &'a str>) -> Self {
        let mut index = Self::default();
        for passage in passages {
            index.add(passage);
        }
        index
    }

    /// How many passages it holds.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// The `count` best passages for `query`, in the order of [`super::rank`]. Costs the passages that
    /// share a word with the question, not the whole index.
    pub fn search(&self, query: &str, count: usize) -> Vec<Scored> {
        let scale = Scale::new(self.lengths.len(), self.length);
        let mut found: BTreeMap<u32, (f64, usize)> = BTreeMap::new();
        for word in question(query) {
            let Some(postings) = self.postings.get(&word) else { continue };
            let holders = u32::try_from(postings.len()).unwrap_or(u32::MAX);
            for (passage, times) in postings {
                let length = self.lengths.get(*passage as usize).copied().unwrap_or(0);
                let (score, matched) = found.entry(*passage).or_default();
                *score += scale.weight(holders, *times, length);
                *matched += 1;
            }
        }
        let scored =
            found.into_iter().map(|(passage, (score, matched))| Scored { index: passage as usize, score, matched });
        let mut scored = sorted(scored.collect());
        scored.truncate(count);
        scored
    }

    fn add(&mut self, passage: &str) {
        let Ok(number) = u32::try_from(self.lengths.len()) else { return };
        let mut length = 0u32;
        words(passage, |word, counted| {
            length = length.saturating_add(u32::from(counted));
            // Most words are known after a few passages: look before allocating a key.
            if !self.postings.contains_key(word) {
                self.postings.insert(word.to_owned(), Vec::new());
            }
            if let Some(postings) = self.postings.get_mut(word) {
                match postings.last_mut() {
                    Some((last, times)) if *last == number => *times = times.saturating_add(1),
                    _ => postings.push((number, 1)),
                }
            }
        });
        self.lengths.push(length);
        self.length += u64::from(length);
    }
}
