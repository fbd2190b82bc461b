//! Tool ids in MCP's alphabet, and back.
//!
//! An id of ASCII letters, digits, `_`, `-` and `.` is its own name. Any other keeps the characters that
//! fit and gets a piece of its SHA-256, so that the name depends on the id alone: the same in every list,
//! process and version. A name is turned back only by looking it up among the tools a caller may use.

use std::collections::HashSet;
use std::sync::Arc;

use reach_core::{ToolId, ToolSpec, canonical};
use sha2::{Digest, Sha256};

/// Hexadecimal digits of the hash in a name: 40 bits, which no accident meets.
const DIGITS: usize = 10;
/// The longest readable part before the hash.
const READABLE: usize = 64;

/// Every tool with its name, in the order given; no two names are equal.
pub(super) fn named(tools: &[Arc<ToolSpec>]) -> Vec<(String, &Arc<ToolSpec>)> {
    let mut taken: HashSet<&str> = tools.iter().map(|spec| spec.tool_id.as_str()).filter(|id| fits(id)).collect();
    let mut names = Vec::with_capacity(tools.len());
    for spec in tools {
        let id = spec.tool_id.as_str();
        let name = if fits(id) {
            id.to_owned()
        } else {
            // Whoever declares an ASCII id that looks like another tool's name does not get its calls.
            let name = mapped(id, DIGITS);
            if taken.contains(name.as_str()) { mapped(id, 64 - DIGITS) } else { name }
        };
        names.push((name, spec));
    }
    taken.clear();
    names
}

/// The tool that a name stands for; the name itself where no tool has it.
pub(super) fn resolve(tools: &[Arc<ToolSpec>], name: &str) -> ToolId {
    let found = named(tools).into_iter().find(|(known, _)| known == name);
    found.map_or_else(|| ToolId::asked(name), |(_, spec)| spec.tool_id.clone())
}

/// Whether a name could be one that [`named`] made.
pub(super) fn may_be_mapped(name: &str) -> bool {
    let tail = name.rsplit('-').next().unwrap_or_default();
    (tail.len() == DIGITS || tail.len() == 64 - DIGITS) && tail.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn fits(id: &str) -> bool {
    (1..=128).contains(&id.len()) && id.bytes().all(fitting)
}

fn fitting(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

fn mapped(id: &str, digits: usize) -> String {
    let mut readable = String::new();
    for c in id.chars().take(READABLE) {
        if u8::try_from(c).is_ok_and(fitting) {
            readable.push(c);
        } else if !readable.ends_with('_') {
            readable.push('_');
        }
    }
    let hash = canonical::hex(&Sha256::digest(id));
    format!("{readable}-{}", &hash[..digits])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use reach_core::Effect;
    use serde_json::json;

    use super::*;

    fn tools(ids: &[&str]) -> Vec<Arc<ToolSpec>> {
        let spec = |id: &&str| ToolSpec::new(ToolId::asked(id), "", json!({"type": "object"}), Effect::Read);
        ids.iter().map(spec).map(Arc::new).collect()
    }

    fn names(ids: &[&str]) -> Vec<String> {
        named(&tools(ids)).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn an_ascii_id_is_its_own_name() {
        assert_eq!(names(&["crm__get__user", "ann.x--song", "A-1"]), ["crm__get__user", "ann.x--song", "A-1"]);
    }

    #[test]
    fn an_id_of_another_script_gets_a_stable_name_and_comes_back() {
        let ids = ["查询天气", "订单查询", "get_天气"];
        let first = names(&ids);
        assert_eq!(first[0], names(&["x", "查询天气"])[1], "a name depends on the id alone");
        for (name, id) in first.iter().zip(ids) {
            assert!(fits(name) && may_be_mapped(name), "{name}");
            assert_eq!(resolve(&tools(&ids), name).as_str(), id);
        }
    }

    #[test]
    fn an_id_that_imitates_another_tools_name_does_not_get_its_calls() {
        let imitation = names(&["查询天气"]).remove(0);
        let ids = [imitation.as_str(), "查询天气"];
        let both = names(&ids);
        assert_ne!(both[0], both[1]);
        assert!(may_be_mapped(&both[1]));
        assert_eq!(resolve(&tools(&ids), &both[0]).as_str(), imitation);
        assert_eq!(resolve(&tools(&ids), &both[1]).as_str(), "查询天气");
    }

    proptest! {
        #[test]
        fn every_name_is_valid_unique_and_comes_back(ids in proptest::collection::hash_set("[a-z_.\\-查询天气é]{1,128}", 1..8)) {
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let tools = tools(&ids);
            let names = named(&tools);
            let distinct: HashSet<&String> = names.iter().map(|(name, _)| name).collect();
            prop_assert_eq!(distinct.len(), ids.len());
            for (name, spec) in &names {
                prop_assert!(fits(name), "{}", name);
                prop_assert_eq!(&resolve(&tools, name), &spec.tool_id);
            }
        }
    }
}
