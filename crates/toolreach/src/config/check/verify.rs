//! Verification of unknown outcomes: the tool that is asked only reads, and its answer can be judged.

use reach_core::{Effect, ToolId, ToolSpec, tool};

use super::fallback::{named_on_both_sides, required};
use super::tools::{Checked, Ids};
use super::{Draft, nearest_or_all, quoted};

/// Checks every `verify`, and writes it into each specification where it is right.
pub(super) fn check(draft: &mut Draft<'_>, ids: &Ids, tools: &mut [Checked]) {
    let specs: Vec<ToolSpec> = tools.iter().map(|tool| tool.spec.clone()).collect();
    for tool in tools.iter_mut() {
        let Some(written) = tool.verify.take() else { continue };
        let pointer = format!("{}/verify", tool.pointer);
        if let Err(error) = jmespath::compile(&written.done_when) {
            let place = if error.offset >= written.done_when.chars().count() {
                "it ends too early".to_owned()
            } else {
                format!("it cannot be read from character {} on", error.offset + 1)
            };
            draft.add(
                format!("{pointer}/done_when"),
                format!("this is no JMESPath expression: {place}"),
                "see https://jmespath.org, and put literals in backquotes: length(orders) > `0`",
            );
        }
        let folded = ToolId::asked(&written.tool_id).folded();
        if !ids.contains_key(&folded) {
            let fix = nearest_or_all(
                &written.tool_id,
                ids.values().filter(|other| other.pointer != tool.pointer).map(|other| other.id.as_str()),
                "declare a tool that reads",
            );
            draft.add(format!("{pointer}/tool_id"), format!("no tool is called {}", quoted(&written.tool_id)), fix);
            continue;
        }
        let Some(asked) = specs.iter().find(|spec| spec.tool_id.folded() == folded) else { continue };
        if asked.effect != Effect::Read {
            draft.add(
                format!("{pointer}/tool_id"),
                format!(
                    "the tool {} has effect `{}`; only a tool that reads may verify",
                    quoted(asked.tool_id.as_str()),
                    asked.effect.as_str()
                ),
                "name a tool with `effect: read`",
            );
        }
        let names = format!("{pointer}/arguments");
        let all_known = named_on_both_sides(draft, &names, &tool.spec, asked, &written.arguments);
        for name in required(&asked.input_schema) {
            if all_known && !written.arguments.contains_key(name) {
                draft.add(
                    pointer.as_str(),
                    format!("the tool {} needs the argument {}", quoted(asked.tool_id.as_str()), quoted(name)),
                    format!("add `arguments: {{{name}: OUR_ARGUMENT}}`"),
                );
            }
        }
        let verify =
            tool::Verify { tool_id: asked.tool_id.clone(), arguments: written.arguments, done_when: written.done_when };
        tool.spec.verify = Some(verify.clone());
        if let Some(declared) = &mut tool.declared {
            declared.spec.verify = Some(verify);
        }
    }
}
