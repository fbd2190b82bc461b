//! Scopes: which caller may use which tool. One rule for listing, calling, fallback and every surface.

use serde::{Deserialize, Serialize};

/// The scopes given to one caller, such as `order:read`, `order:*` or `*`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scopes(Vec<String>);

impl Scopes {
    /// Scopes as declared.
    pub fn new(patterns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self(patterns.into_iter().map(Into::into).collect())
    }

    /// Every scope there is.
    pub fn all() -> Self {
        Self::new(["*"])
    }

    /// Whether a tool that asks for `wanted` may be used. A tool that asks for nothing may be used by
    /// every caller.
    pub fn allow(&self, wanted: Option<&str>) -> bool {
        wanted.is_none_or(|wanted| self.0.iter().any(|pattern| matches(pattern, wanted)))
    }
}

/// Compares part by part between colons; a `*` stands for one part, and as the last part for all that
/// follow. `order:*` allows `order:read` and `order:item:read`, not `order`, not `orders:read`.
fn matches(pattern: &str, wanted: &str) -> bool {
    let mut wanted_parts = wanted.split(':');
    let mut pattern_parts = pattern.split(':').peekable();
    while let Some(part) = pattern_parts.next() {
        let Some(have) = wanted_parts.next() else { return false };
        if part == "*" {
            if pattern_parts.peek().is_none() {
                return true;
            }
        } else if part != have {
            return false;
        }
    }
    wanted_parts.next().is_none()
}

/// Whether `text` is a well-formed pattern: non-empty parts between colons, `*` only as a whole part.
pub fn is_pattern(text: &str) -> bool {
    text.split(':').all(|part| {
        part == "*" || (!part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_whole_parts_only() {
        let check = |pattern: &str, wanted: &str| Scopes::new([pattern]).allow(Some(wanted));
        assert!(check("order:read", "order:read"));
        assert!(check("order:*", "order:read"));
        assert!(check("order:*", "order:item:read"));
        assert!(check("*:read", "order:read"));
        assert!(check("*", "order:read"));
        assert!(!check("order:*", "order"));
        assert!(!check("order:*", "orders:read"));
        assert!(!check("order:read", "order:write"));
        assert!(!check("*:read", "order:item:read"));
        assert!(!check("order:read", "order:read:all"));
    }

    #[test]
    fn a_tool_without_a_scope_is_open_to_a_caller_without_scopes() {
        assert!(Scopes::default().allow(None));
        assert!(!Scopes::default().allow(Some("order:read")));
    }

    #[test]
    fn a_pattern_with_a_star_inside_a_part_is_not_well_formed() {
        assert!(is_pattern("order:*"));
        assert!(!is_pattern("ord*:read"));
        assert!(!is_pattern("order::read"));
        assert!(!is_pattern(""));
    }
}
