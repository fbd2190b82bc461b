//! Fallback chains: they end, are short, never do more than the tool they stand in for, and take its
//! arguments.

use std::collections::{BTreeMap, BTreeSet};

use reach_core::{ToolId, ToolSpec, tool};
use serde_json::Value;

use super::tools::{Checked, Ids};
use super::{Draft, nearest_or_all, quoted};
use crate::config::sections;
use crate::config::tree::{Data, escape};

/// Tools after the head of a chain at most.
const DEPTH_MAX: usize = 3;

/// The arrows between tools that exist, sound or not: folded id to folded id.
type Arrows = BTreeMap<String, String>;

/// Checks every chain, and writes the fallback into each specification where it is right.
pub(super) fn check(draft: &mut Draft<'_>, ids: &Ids, tools: &mut [Checked]) {
    let arrows = arrows(draft, ids);
    cycles(draft, ids, &arrows);
    depths(draft, ids, &arrows);
    let specs: BTreeMap<String, ToolSpec> =
        tools.iter().map(|tool| (tool.spec.tool_id.folded(), tool.spec.clone())).collect();
    for tool in tools.iter_mut() {
        let Some(written) = tool.fallback.take() else { continue };
        let (id, arguments) = match written {
            sections::Fallback::Id(id) => (id, BTreeMap::new()),
            sections::Fallback::Mapped(mapped) => (mapped.tool_id, mapped.arguments),
        };
        let Some(stand_in) = specs.get(&ToolId::asked(&id).folded()) else { continue };
        stronger(draft, tool, stand_in);
        mapping(draft, tool, stand_in, &arguments);
        let fallback = tool::Fallback { tool_id: stand_in.tool_id.clone(), arguments };
        tool.spec.fallback = Some(fallback.clone());
        if let Some(declared) = &mut tool.declared {
            declared.spec.fallback = Some(fallback);
        }
    }
}

/// Where the id of a fallback stands, and the id, whether or not the tool is sound otherwise.
fn written(draft: &Draft<'_>, tool: &str) -> Option<(String, String)> {
    let pointer = format!("{tool}/fallback");
    let node = draft.root.at(&pointer)?;
    match &node.data {
        Data::Text(id) => Some((pointer, id.clone())),
        Data::Map(_) => node.entry("tool_id")?.node.text().map(|id| (format!("{pointer}/tool_id"), id.to_owned())),
        Data::Null | Data::Bool(_) | Data::Number(_) | Data::List(_) => None,
    }
}

/// Follows every fallback by one step; reports those that lead nowhere.
fn arrows(draft: &mut Draft<'_>, ids: &Ids) -> Arrows {
    let mut arrows = Arrows::new();
    for (from, declaration) in ids {
        let Some((pointer, id)) = written(draft, &declaration.pointer) else { continue };
        let to = ToolId::asked(&id).folded();
        if ids.contains_key(&to) {
            arrows.insert(from.clone(), to);
        } else {
            let others = ids.values().filter(|other| other.pointer != declaration.pointer);
            let fix =
                nearest_or_all(&id, others.map(|other| other.id.as_str()), "declare that tool, or take `fallback` out");
            draft.add(pointer, format!("no tool is called {}", quoted(&id)), fix);
        }
    }
    arrows
}

/// Reports each circle once, at its first tool in the file, with all its members.
fn cycles(draft: &mut Draft<'_>, ids: &Ids, arrows: &Arrows) {
    let mut told: BTreeSet<&str> = BTreeSet::new();
    for start in arrows.keys() {
        let mut circle = vec![start.as_str()];
        let mut at = start;
        while let Some(next) = arrows.get(at) {
            if next == start {
                break;
            }
            if circle.contains(&next.as_str()) {
                circle.clear(); // A circle further on, which `start` is no part of.
                break;
            }
            circle.push(next);
            at = next;
        }
        let closes = arrows.get(at) == Some(start);
        if circle.is_empty() || !closes || told.contains(start.as_str()) {
            continue;
        }
        told.extend(circle.iter().copied());
        let first = (0..circle.len()).min_by_key(|index| place(draft, ids, circle[*index])).unwrap_or(0);
        circle.rotate_left(first);
        let Some(declaration) = ids.get(circle[0]) else { continue };
        let pointer = written(draft, &declaration.pointer).map_or(declaration.pointer.clone(), |(pointer, _)| pointer);
        let names: Vec<&str> =
            circle.iter().chain(circle.first()).filter_map(|id| ids.get(*id)).map(|tool| tool.id.as_str()).collect();
        let message = if circle.len() == 1 {
            "this tool is its own fallback".to_owned()
        } else {
            format!("fallbacks run in a circle: {}", names.join(" -> "))
        };
        draft.add(pointer, message, "end the chain: take `fallback` out of one of them");
    }
}

fn place(draft: &Draft<'_>, ids: &Ids, id: &str) -> crate::config::tree::Place {
    ids.get(id).map(|declaration| draft.root.locate(&declaration.pointer)).unwrap_or_default()
}

/// Reports chains that are too long, at their heads; a tool inside such a chain is not told again.
fn depths(draft: &mut Draft<'_>, ids: &Ids, arrows: &Arrows) {
    let pointed_at: BTreeSet<&String> = arrows.values().collect();
    for head in arrows.keys().filter(|head| !pointed_at.contains(head)) {
        let mut chain = vec![head];
        while let Some(next) = chain.last().and_then(|last| arrows.get(*last)) {
            if chain.contains(&next) {
                return; // A circle; told as one.
            }
            chain.push(next);
        }
        let (Some(declaration), true) = (ids.get(head), chain.len() > DEPTH_MAX + 1) else { continue };
        let names: Vec<&str> = chain.iter().filter_map(|id| ids.get(*id)).map(|tool| tool.id.as_str()).collect();
        let pointer = written(draft, &declaration.pointer).map_or(declaration.pointer.clone(), |(pointer, _)| pointer);
        draft.add(
            pointer,
            format!(
                "this fallback chain has {} tools after its head, more than {DEPTH_MAX}: {}",
                chain.len() - 1,
                names.join(" -> ")
            ),
            format!("keep at most {DEPTH_MAX}"),
        );
    }
}

fn stronger(draft: &mut Draft<'_>, head: &Checked, stand_in: &ToolSpec) {
    if stand_in.effect > head.spec.effect {
        draft.add(
            format!("{}/fallback", head.pointer),
            format!(
                "the fallback {} has effect `{}`, stronger than `{}` of this tool",
                quoted(stand_in.tool_id.as_str()),
                stand_in.effect.as_str(),
                head.spec.effect.as_str()
            ),
            "choose one that does no more; if an `effect` is declared wrongly, correct it",
        );
    }
}

/// Whether the head's arguments can be the stand-in's.
fn mapping(draft: &mut Draft<'_>, head: &Checked, stand_in: &ToolSpec, arguments: &BTreeMap<String, String>) {
    let pointer = format!("{}/fallback", head.pointer);
    let ours = properties(&head.spec.input_schema);
    let theirs = properties(&stand_in.input_schema);
    let their_id = quoted(stand_in.tool_id.as_str());
    if !named_on_both_sides(draft, &format!("{pointer}/arguments"), &head.spec, stand_in, arguments) {
        return;
    }

    for name in required(&stand_in.input_schema) {
        let source = arguments.get(name).map_or(name, String::as_str);
        if !arguments.contains_key(name) && !ours.contains(&source) {
            draft.add(
                pointer.as_str(),
                format!("the fallback {their_id} needs the argument {}, which this tool does not have", quoted(name)),
                format!("map it: `fallback: {{tool_id: {}, arguments: {{{name}: OUR_ARGUMENT}}}}`", stand_in.tool_id),
            );
        }
    }
    // What this tool needs, its stand-in has to be able to take: dropping it would change the question.
    let taken: BTreeSet<&str> = arguments.values().map(String::as_str).collect();
    for name in required(&head.spec.input_schema) {
        let is_taken = taken.contains(name) || (theirs.contains(&name) && !arguments.contains_key(name));
        if !is_taken && !is_open(&stand_in.input_schema) {
            draft.add(
                pointer.as_str(),
                format!("the fallback {their_id} has no place for the argument {} of this tool", quoted(name)),
                format!("map it: `fallback: {{tool_id: {}, arguments: {{THEIR_ARGUMENT: {name}}}}}`", stand_in.tool_id),
            );
        }
    }
    for name in &theirs {
        let source = arguments.get(*name).map_or(*name, String::as_str);
        let (Some(ours), Some(theirs)) = (types(&head.spec.input_schema, source), types(&stand_in.input_schema, name))
        else {
            continue;
        };
        let fits = |word: &str| theirs.contains(&word) || (word == "integer" && theirs.contains(&"number"));
        if !ours.iter().any(|word| fits(word)) {
            draft.add(
                pointer.as_str(),
                format!(
                    "the argument {} has the type `{}` here and `{}` in the fallback {their_id}",
                    quoted(source),
                    ours.join("` or `"),
                    theirs.join("` or `")
                ),
                "choose a fallback, or a mapping, whose types agree",
            );
        }
    }
}

/// Every name of a mapping is an argument: the key of the tool that is asked, the value of this one.
pub(super) fn named_on_both_sides(
    draft: &mut Draft<'_>,
    pointer: &str,
    head: &ToolSpec,
    other: &ToolSpec,
    arguments: &BTreeMap<String, String>,
) -> bool {
    let mut all_known = true;
    for (theirs, ours) in arguments {
        for (tool, name) in [(other, theirs), (head, ours)] {
            let known = properties(&tool.input_schema);
            if !known.contains(&name.as_str()) {
                let fix = nearest_or_all(name, known.iter().copied(), "that tool takes no arguments");
                let message = format!("{} is no argument of {}", quoted(name), quoted(tool.tool_id.as_str()));
                draft.add(format!("{pointer}/{}", escape(theirs)), message, fix);
                all_known = false;
            }
        }
    }
    all_known
}

/// The names of a schema's declared arguments.
pub(super) fn properties(schema: &Value) -> Vec<&str> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

/// The names of a schema's required arguments.
pub(super) fn required(schema: &Value) -> Vec<&str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The types an argument may have, where the schema says so directly.
fn types<'a>(schema: &'a Value, name: &str) -> Option<Vec<&'a str>> {
    match schema.get("properties")?.get(name)?.get("type")? {
        Value::String(only) => Some(vec![only]),
        Value::Array(all) => Some(all.iter().filter_map(Value::as_str).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// Whether a schema says that it takes arguments that it does not name.
fn is_open(schema: &Value) -> bool {
    schema.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false))
}
