//! "Did you mean": the known name nearest to one that is not known.

/// Characters of a name that may be a slip of another; comparing longer ones costs more than it tells.
const LONGEST: usize = 256;

/// At most `count` of `known`, nearest to `wanted` first; only names near enough to be a slip.
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>, count: usize) -> Vec<&'a str> {
    if wanted.chars().nth(LONGEST).is_some() {
        return Vec::new();
    }
    let folded = wanted.to_lowercase();
    let mut scored: Vec<(f64, &str)> = known
        .into_iter()
        .map(|name| (score(&folded, &name.to_lowercase()), name))
        .filter(|(score, _)| *score >= 0.7)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    scored.into_iter().take(count).map(|(_, name)| name).collect()
}

/// 1.0 for equal names; a name that holds the other whole counts as near, since models shorten names.
fn score(wanted: &str, name: &str) -> f64 {
    let contained = wanted.len() >= 3 && name.len() >= 3 && (name.contains(wanted) || wanted.contains(name));
    let similar = strsim::jaro_winkler(wanted, name).max(strsim::normalized_damerau_levenshtein(wanted, name));
    if contained { similar.max(0.8) } else { similar }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_nonsense_finds_nothing() {
        let known = ["order_status_query", "inventory_query", "read_file"];
        assert_eq!(nearest("order_status", known, 1), ["order_status_query"]);
        assert_eq!(nearest("inventry_query", known, 1), ["inventory_query"]);
        assert_eq!(nearest("ReadFile", known, 1), ["read_file"]);
        assert!(nearest("zzz", known, 3).is_empty());
        assert!(nearest(&"read_file".repeat(1_000_000), known, 3).is_empty());
    }
}
