//! The schemas that judge one value together.
//!
//! A value is judged by a schema and by everything that schema applies in place: `$ref`, `allOf`, the
//! branches of `anyOf` and `oneOf`, and so on. That set is a *family*. Which fields an object may have,
//! which types a value may be of, and whether an object can be closed are questions about families.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use super::places::{escape, segments, walk};

/// A schema document and what must be known about it to follow its references.
#[derive(Debug)]
pub(super) struct Document<'a> {
    /// The whole schema.
    pub(super) root: &'a Value,
    /// `$anchor` -> pointer.
    anchors: HashMap<&'a str, String>,
    /// Draft 7 and older: keywords beside a `$ref` do not count.
    pub(super) is_old: bool,
    /// Has dynamic references or identifiers below the root, which are not followed here.
    pub(super) is_intricate: bool,
}

/// How a member of a family is reached from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    /// Applies to some values only: a branch of `anyOf`, `oneOf`, `then`, ....
    pub(super) conditional: bool,
    /// Making this schema stricter can only make the whole stricter: not under `not`, `if` or a `oneOf`
    /// whose branches overlap.
    pub(super) steady: bool,
}

/// One member of a family.
#[derive(Debug)]
pub(super) struct Member<'a> {
    /// The schema.
    pub(super) node: &'a Map<String, Value>,
    /// How it is reached.
    pub(super) reach: Reach,
}

/// The schemas that judge one value, by pointer.
#[derive(Debug, Default)]
pub(super) struct Family<'a> {
    /// The members in the order of their pointers.
    pub(super) members: BTreeMap<String, Member<'a>>,
    /// A reference could not be followed: nothing may be concluded from what is *not* in the family.
    pub(super) is_opaque: bool,
}

impl<'a> Document<'a> {
    /// Reads what is needed to follow references. Linear.
    pub(super) fn of(root: &'a Value) -> Self {
        let mut anchors = HashMap::new();
        let mut is_intricate = false;
        walk(root, |pointer, node| {
            if let Some(anchor) = node.get("$anchor").and_then(Value::as_str) {
                anchors.insert(anchor, pointer.to_owned());
            }
            is_intricate |= ["$dynamicRef", "$recursiveRef"].iter().any(|key| node.contains_key(*key))
                || (!pointer.is_empty() && node.contains_key("$id"));
        });
        let dialect = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
        let is_old =
            ["draft-03", "draft-04", "draft-05", "draft-06", "draft-07"].iter().any(|old| dialect.contains(old));
        Self { root, anchors, is_old, is_intricate }
    }

    /// Whether some reference leads, or may lead, to the root itself.
    pub(super) fn is_root_used(&self) -> bool {
        let identifier = self.root.get("$id").and_then(Value::as_str);
        let mut is_used = self.root.get("$dynamicAnchor").is_some();
        walk(self.root, |_, node| {
            is_used |= node.contains_key("$recursiveRef");
            is_used |= ["$ref", "$dynamicRef"].iter().filter_map(|key| node.get(*key).and_then(Value::as_str)).any(
                |reference| {
                    reference == "#" || reference.is_empty() || Some(reference.trim_end_matches('#')) == identifier
                },
            );
        });
        is_used
    }

    /// Where a local reference leads; null when it leads elsewhere or nowhere.
    pub(super) fn resolve(&self, reference: &str) -> Option<String> {
        let fragment = reference.strip_prefix('#')?;
        let fragment = percent_decoded(fragment)?;
        if fragment.is_empty() || fragment.starts_with('/') {
            return self.root.pointer(&fragment).map(|_| fragment);
        }
        self.anchors.get(fragment.as_str()).cloned()
    }

    /// The schema at a pointer.
    pub(super) fn node(&self, pointer: &str) -> Option<&'a Map<String, Value>> {
        self.root.pointer(pointer).and_then(Value::as_object)
    }

    /// The family that judges the value at a place in the arguments.
    pub(super) fn family_at(&self, place: &str) -> Family<'a> {
        segments(place)
            .fold(self.family([String::new()], true), |family, segment| self.family(family.of_child(&segment), true))
    }

    /// The family that starts at these schemas.
    pub(super) fn family(&self, starts: impl IntoIterator<Item = String>, steady: bool) -> Family<'a> {
        let mut family = Family::default();
        let mut open: Vec<(String, Reach)> =
            starts.into_iter().map(|start| (start, Reach { conditional: false, steady })).collect();
        while let Some((pointer, reach)) = open.pop() {
            let Some(node) = self.node(&pointer) else { continue };
            let reach = match family.members.get(&pointer) {
                None => reach,
                Some(known) => {
                    let merged = Reach {
                        conditional: known.reach.conditional && reach.conditional,
                        steady: known.reach.steady && reach.steady,
                    };
                    if merged == known.reach {
                        continue;
                    }
                    merged
                }
            };
            family.is_opaque |= self.push_in_place(&pointer, node, reach, &mut open);
            family.members.insert(pointer, Member { node, reach });
        }
        family
    }

    /// Pushes what `node` applies in place; true when a reference could not be followed.
    fn push_in_place(
        &self,
        pointer: &str,
        node: &'a Map<String, Value>,
        reach: Reach,
        open: &mut Vec<(String, Reach)>,
    ) -> bool {
        let mut is_opaque = false;
        if let Some(reference) = node.get("$ref").and_then(Value::as_str) {
            match self.resolve(reference) {
                Some(target) => open.push((target, reach)),
                None => is_opaque = true,
            }
            if self.is_old {
                return is_opaque;
            }
        }
        for (key, value) in node {
            let branch = |steady| Reach { conditional: true, steady: reach.steady && steady };
            let reach = match key.as_str() {
                "allOf" => reach,
                "anyOf" | "then" | "else" | "dependentSchemas" | "dependencies" => branch(true),
                "oneOf" => branch(self.are_exclusive(value)),
                "if" | "not" => branch(false),
                _ => continue,
            };
            match value {
                Value::Array(list) => {
                    open.extend((0..list.len()).map(|index| (format!("{pointer}/{key}/{index}"), reach)));
                }
                Value::Object(map) if matches!(key.as_str(), "dependentSchemas" | "dependencies") => {
                    open.extend(map.keys().map(|name| (format!("{pointer}/{key}/{}", escape(name)), reach)));
                }
                Value::Object(_) => open.push((format!("{pointer}/{key}"), reach)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        is_opaque
    }

    /// Whether no value can fit two of these branches: their types differ, or a required field has another
    /// constant in each.
    fn are_exclusive(&self, branches: &Value) -> bool {
        let Some(branches) = branches.as_array() else { return false };
        let branches: Option<Vec<&Map<String, Value>>> =
            branches.iter().map(|branch| self.plain_target(branch)).collect();
        let Some(branches) = branches else { return false };
        let exclusive = |left: &Map<String, Value>, right: &Map<String, Value>| {
            let (left_types, right_types) = (types_of(left), types_of(right));
            let types_differ = !left_types.is_empty()
                && !right_types.is_empty()
                && !left_types.iter().any(|one| {
                    right_types.contains(one)
                        || (*one == "integer" && right_types.contains(&"number"))
                        || (*one == "number" && right_types.contains(&"integer"))
                });
            types_differ
                || constants(left).iter().any(|(name, value)| {
                    constants(right).iter().any(|(other, second)| name == other && value != second)
                })
        };
        (0..branches.len())
            .all(|first| (first + 1..branches.len()).all(|second| exclusive(branches[first], branches[second])))
    }

    /// A branch after following its references.
    fn plain_target(&self, branch: &'a Value) -> Option<&'a Map<String, Value>> {
        let mut node = branch.as_object()?;
        for _ in 0..16 {
            match node.get("$ref").and_then(Value::as_str) {
                Some(reference) => node = self.node(&self.resolve(reference)?)?,
                None => return Some(node),
            }
        }
        None
    }
}

impl Family<'_> {
    /// The names of the fields that some member declares, in order, without repeats.
    pub(super) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for member in self.members.values() {
            for name in member.node.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys) {
                if !names.contains(&name.as_str()) {
                    names.push(name);
                }
            }
        }
        names
    }

    /// Pointers of the schemas that members declare for a field.
    pub(super) fn of_field(&self, name: &str) -> Vec<String> {
        self.members
            .iter()
            .filter(|(_, member)| member.node.get("properties").is_some_and(|all| all.get(name).is_some()))
            .map(|(pointer, _)| format!("{pointer}/properties/{}", escape(name)))
            .collect()
    }

    /// Pointers of the schemas that judge a field or an item.
    fn of_child(&self, segment: &str) -> Vec<String> {
        let fields = self.of_field(segment);
        if !fields.is_empty() {
            return fields;
        }
        let mut found = Vec::new();
        for (pointer, member) in &self.members {
            let listed = ["prefixItems", "items"].iter().find(|key| {
                let list = member.node.get(**key).and_then(Value::as_array);
                segment.parse::<usize>().is_ok_and(|index| list.is_some_and(|list| index < list.len()))
            });
            if let Some(key) = listed {
                found.push(format!("{pointer}/{key}/{segment}"));
                continue;
            }
            let rest = ["items", "additionalItems", "additionalProperties"].iter();
            found.extend(rest.filter(|key| member.node.contains_key(**key)).map(|key| format!("{pointer}/{key}")));
        }
        found
    }

    /// The types that members name.
    pub(super) fn types(&self) -> Vec<&str> {
        self.members.values().flat_map(|member| types_of(member.node)).collect()
    }
}

/// The value of `type` as a list.
pub(super) fn types_of(node: &Map<String, Value>) -> Vec<&str> {
    match node.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Required fields that are fixed to one constant.
fn constants(node: &Map<String, Value>) -> Vec<(&str, &Value)> {
    let required = node.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
    node.get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter(|(name, _)| is_required(name))
        .filter_map(|(name, schema)| {
            let only = schema.get("enum").and_then(Value::as_array).filter(|all| all.len() == 1).map(|all| &all[0]);
            schema.get("const").or(only).map(|value| (name.as_str(), value))
        })
        .collect()
}

fn percent_decoded(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = char::from(rest.next()?).to_digit(16)?;
            let low = char::from(rest.next()?).to_digit(16)?;
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}
