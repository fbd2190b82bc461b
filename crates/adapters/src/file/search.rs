//! `search`: the passages of the files in a folder that answer a question best.
//!
//! Files are read in the order of their paths and cut into passages; only where a passage matched is kept,
//! and the few that are shown are read again. The same folder gives the same answer, unless time ran out,
//! which the answer says.

use std::time::Duration;

use encoding_rs::Encoding;
use reach_core::rank::{Ranking, Scored, passages, rank};
use reach_core::{Answer, Object};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::config::render;
use super::decode::{Decoded, decode};
use super::failure::Error;
use super::glob::Globs;
use super::list::walk;
use super::path::RelativePath;
use super::root::Root;
use super::work::Leave;
use crate::shared::template::Template;

/// Files read by one search.
const MOST_FILES: usize = 5_000;
/// Bytes read by one search.
const MOST_BYTES: u64 = 64 << 20;
/// Characters of a passage.
const PASSAGE: usize = 600;
/// Characters of an excerpt.
const EXCERPT: usize = 300;

/// The settings of a `search`.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) query: Template,
    pub(super) max_hits: usize,
    pub(super) max_bytes: u64,
    pub(super) encoding: Option<&'static Encoding>,
    pub(super) include: Globs,
}

impl Search {
    /// The question of one call; one without a single word could match nothing.
    pub(super) fn query(&self, arguments: &Object) -> Result<String, Error> {
        let query = render(&self.query, arguments)?;
        if Ranking::new(&query).is_empty() {
            return Err(Error::Refused("the query holds no word to search for".to_owned()));
        }
        Ok(query)
    }

    pub(super) fn run(
        &self,
        root: &Root,
        folder: &RelativePath,
        query: &str,
        leave: &Leave,
        timeout: Duration,
    ) -> Result<Answer, Error> {
        // An answer that says it is not whole is worth more than a deadline missed.
        let enough = Instant::now() + timeout.mul_f64(0.75);
        let walked = walk(root, folder, true, false, leave)?;
        let mut capped =
            (!walked.is_whole).then(|| "the folder holds too many entries; some were not looked at".to_owned());
        let mut ranking = Ranking::new(query);
        let mut places: Vec<(usize, usize)> = Vec::new();
        let (mut files, mut skipped, mut bytes) = (0usize, 0usize, 0u64);
        let wanted: Vec<&RelativePath> = walked
            .found
            .iter()
            .filter(|found| found.kind == "file" && self.include.matches(found.path.as_str()))
            .map(|found| &found.path)
            .collect();
        for (number, path) in wanted.iter().enumerate() {
            leave.check()?;
            let limit = if files >= MOST_FILES {
                Some(format!("{MOST_FILES} files"))
            } else if bytes >= MOST_BYTES {
                Some(format!("{} MiB", MOST_BYTES >> 20))
            } else if Instant::now() >= enough {
                Some("the time there was".to_owned())
            } else {
                None
            };
            if let Some(limit) = limit {
                capped = Some(format!("only {number} of {} files were searched: {limit} is the limit", wanted.len()));
                break;
            }
            let Some((text, size)) = self.text(root, path) else {
                skipped += 1;
                continue;
            };
            files += 1;
            bytes += size;
            for (passage, range) in passages(&text, PASSAGE).into_iter().enumerate() {
                // The name of a file speaks for its beginning.
                let added = if passage == 0 {
                    ranking.add(&format!("{} {}", path.as_str(), &text[range]))
                } else {
                    ranking.add(&text[range])
                };
                places.extend(added.then_some((number, passage)));
            }
        }
        let ranked = ranking.finish();
        let total = ranked.len();
        let hits = self.hits(root, query, &wanted, &places_of(&ranked, &places));
        Ok(super::answer(json!({
            "query": query, "hits": hits, "total": total, "files": files, "skipped": skipped, "capped": capped
        })))
    }

    /// The text of a file, if it is one: binary, oversize, unreadable and vanished files are passed over.
    fn text(&self, root: &Root, path: &RelativePath) -> Option<(String, u64)> {
        let bytes = root.bytes(path, self.max_bytes).ok()?;
        match decode(&bytes, self.encoding)? {
            Decoded::Text(text, _) => Some((text, bytes.len() as u64)),
            Decoded::Binary(_) => None,
        }
    }

    /// Reads the best places again. A file that changed meanwhile may have lost its passage: then the next
    /// place moves up.
    fn hits(&self, root: &Root, query: &str, paths: &[&RelativePath], places: &[Place]) -> Vec<Value> {
        let mut hits = Vec::new();
        let mut last: Option<(usize, String)> = None;
        for place in places {
            if hits.len() == self.max_hits {
                break;
            }
            let Some(path) = paths.get(place.file) else { continue };
            if last.as_ref().is_none_or(|(file, _)| *file != place.file) {
                last = self.text(root, path).map(|(text, _)| (place.file, text));
            }
            let Some((_, text)) = &last else { continue };
            let Some(range) = passages(text, PASSAGE).into_iter().nth(place.passage) else { continue };
            let (offset, excerpt) = excerpt(query, &text[range.clone()]);
            let line = text[..range.start + offset].matches('\n').count() + 1;
            let score = (place.score * 1_000.0).round() / 1_000.0;
            hits.push(json!({"path": path.as_str(), "line": line, "score": score, "excerpt": excerpt}));
        }
        hits
    }
}

/// Where a matching passage lies.
#[derive(Debug)]
struct Place {
    file: usize,
    passage: usize,
    score: f64,
}

/// `places` holds the matching passages in the order of the walk; `ranked` names passages of the ranking by
/// their own number. Both ascend together, which pairs them.
fn places_of(ranked: &[Scored], places: &[(usize, usize)]) -> Vec<Place> {
    let mut by_number: Vec<usize> = (0..ranked.len()).collect();
    by_number.sort_by_key(|at| ranked.get(*at).map(|scored| scored.index));
    let mut paired: Vec<(usize, Place)> = by_number
        .into_iter()
        .zip(places)
        .filter_map(|(at, (file, passage))| {
            ranked.get(at).map(|scored| (at, Place { file: *file, passage: *passage, score: scored.score }))
        })
        .collect();
    paired.sort_by_key(|(at, _)| *at);
    paired.into_iter().map(|(_, place)| place).collect()
}

/// The line of a passage that matches best (its byte offset), with the lines around it as far as they fit.
fn excerpt(query: &str, passage: &str) -> (usize, String) {
    let lines: Vec<&str> = passage.split_inclusive('\n').collect();
    let best = rank(query, &lines).first().map_or(0, |scored| scored.index);
    let offset = lines.iter().take(best).map(|line| line.len()).sum();
    let (mut from, mut to) = (best, best + 1);
    let mut length = lines.get(best).map_or(0, |line| line.chars().count());
    loop {
        // Below first: what explains a hit usually follows it.
        let below = lines.get(to).map(|line| line.chars().count()).filter(|more| length + more <= EXCERPT);
        let above = from.checked_sub(1).and_then(|at| lines.get(at)).map(|line| line.chars().count());
        match (below, above.filter(|more| length + below.unwrap_or(0) + more <= EXCERPT)) {
            (None, None) => break,
            (below, above) => {
                if let Some(more) = below {
                    (to, length) = (to + 1, length + more);
                }
                if let Some(more) = above {
                    (from, length) = (from - 1, length + more);
                }
            }
        }
    }
    let text: String = lines.get(from..to).unwrap_or_default().concat();
    let text = text.trim();
    if text.chars().count() <= EXCERPT {
        return (offset, text.to_owned());
    }
    // One long line: its best piece.
    let pieces: Vec<&str> = passages(text, EXCERPT).into_iter().map(|range| &text[range]).collect();
    let best = rank(query, &pieces).first().map_or(0, |scored| scored.index);
    (offset, pieces.get(best).copied().unwrap_or_default().to_owned())
}
