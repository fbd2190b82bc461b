//! The fallback chain: which tool stands in when one cannot serve, and with which arguments.

use std::sync::Arc;

use reach_core::{EventKind, Object, OnFailure};

use super::{Failed, Walk};
use crate::registry::Tool;

/// Stand-ins that a chain may have; the configuration refuses longer ones.
const DEPTH: usize = 3;

impl Walk<'_> {
    /// The tool and its stand-ins, in order, as far as this plan may walk them.
    pub(super) fn chain_of<'t>(&'t self, head: &'t Tool) -> impl Iterator<Item = &'t Tool> {
        let walks = self.plan.on_failure == OnFailure::Fallback;
        std::iter::successors(Some(head), move |tool| {
            let fallback = tool.spec.fallback.as_ref().filter(|_| walks)?;
            self.road.registry.find(&fallback.tool_id).map(AsRef::as_ref)
        })
        .take(1 + DEPTH)
    }

    /// The next tool of the chain with its arguments, if the failure allows a stand-in, the caller may use
    /// it, and it accepts the arguments.
    pub(super) fn stand_in(&mut self, tool: &Tool, failed: &Failed, arguments: &Object) -> Option<(Arc<Tool>, Object)> {
        if !failed.fall_back || self.plan.on_failure == OnFailure::Return || self.remaining().is_zero() {
            return None;
        }
        let fallback = tool.spec.fallback.as_ref()?;
        let next = Arc::clone(self.road.registry.find(&fallback.tool_id)?);
        if !self.plan.caller.scopes.allow(next.spec.scope.as_deref()) {
            return None;
        }
        let mapped = mapped(arguments, &fallback.arguments);
        let checked = next.check.check(mapped).ok()?;
        self.journal.add(EventKind::FellBack {
            from: tool.spec.tool_id.clone(),
            to: next.spec.tool_id.clone(),
            reason: failed.error.message.clone(),
        });
        Some((next, checked.arguments))
    }
}

/// Arguments under the names of the stand-in. `names` is its argument name -> our argument name.
fn mapped(arguments: &Object, names: &std::collections::BTreeMap<String, String>) -> Object {
    arguments
        .iter()
        .flat_map(|(ours, value)| {
            let renamed: Vec<&String> = names.iter().filter(|(_, from)| *from == ours).map(|(to, _)| to).collect();
            let names = if renamed.is_empty() { vec![ours] } else { renamed };
            names.into_iter().map(|name| (name.clone(), value.clone())).collect::<Vec<_>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn named_arguments_are_renamed_and_others_keep_their_name() {
        let arguments = json!({"order_id": "OD1", "lang": "zh"});
        let names = [("number".to_owned(), "order_id".to_owned())].into();
        assert_eq!(
            serde_json::Value::Object(mapped(arguments.as_object().unwrap(), &names)),
            json!({"number": "OD1", "lang": "zh"})
        );
    }
}
