//! Closing objects: a field that the schema does not name is refused.
//!
//! An object schema that lists `properties` and says nothing about others is closed, at the root and below.
//! Where several schemas judge one object (`$ref`, `allOf`, `anyOf`, ...), closing one of them would refuse
//! the fields of the others; there the place where they meet gets `unevaluatedProperties: false`, or, where
//! even that could change what the author meant, nothing. Closing never makes a refused value acceptable.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::family::{Document, Family, Member, types_of};
use super::places::{escape, subschemas};

/// Keywords with which an author has decided about further fields.
const DECIDED: &[&str] = &["additionalProperties", "patternProperties", "unevaluatedProperties"];

/// Families looked at before giving up on what is below the root: schemas from outside may be hostile.
const FAMILIES: usize = 2_000;

/// Members of families looked at before giving up likewise.
const MEMBERS: usize = 100_000;

/// Unions inside unions that are looked through.
const DEPTH: usize = 8;

/// The schema as it is enforced, and as models should see it: always `type: object`, objects closed where
/// that is sound, OpenAPI's `nullable` written as a type.
///
/// A schema that is not an object comes back as it is. Runs when a tool is declared, not per call.
pub fn closed(schema: &Value) -> Value {
    let mut schema = schema.clone();
    let Some(root) = schema.as_object_mut() else { return schema };
    root.entry("type").or_insert_with(|| json!("object"));
    spell_out_nullable(&mut schema);
    for (pointer, closing) in decide(&schema) {
        let Some(node) = schema.pointer_mut(&pointer).and_then(Value::as_object_mut) else { continue };
        let keyword = match closing {
            Closing::Additional(names) => {
                if let Some(properties) = node.entry("properties").or_insert_with(|| json!({})).as_object_mut() {
                    for name in names {
                        properties.entry(name).or_insert_with(|| json!({}));
                    }
                }
                "additionalProperties"
            }
            Closing::Unevaluated => "unevaluatedProperties",
        };
        node.insert(keyword.to_owned(), Value::Bool(false));
    }
    schema
}

/// How one schema is closed.
#[derive(Debug, PartialEq, Eq)]
enum Closing {
    /// By `additionalProperties`, after naming these fields that other schemas describe.
    Additional(Vec<String>),
    /// By `unevaluatedProperties`, where several schemas meet.
    Unevaluated,
}

/// OpenAPI 3.0 writes "or null" as `nullable: true` beside a type.
fn spell_out_nullable(schema: &mut Value) {
    let Value::Object(node) = schema else { return };
    if node.get("nullable") == Some(&Value::Bool(true)) && node.contains_key("type") {
        let mut types: Vec<Value> = types_of(node).into_iter().map(Value::from).collect();
        if !types.iter().any(|one| one == "null") {
            types.push(json!("null"));
        }
        node.insert("type".to_owned(), Value::Array(types));
        if let Some(values) = node.get_mut("enum").and_then(Value::as_array_mut)
            && !values.contains(&Value::Null)
        {
            values.push(Value::Null);
        }
        node.remove("nullable");
    }
    let below: Vec<String> = subschemas(node).into_iter().map(|(pointer, _)| pointer).collect();
    for pointer in below {
        if let Some(child) = schema.pointer_mut(&pointer) {
            spell_out_nullable(child);
        }
    }
}

/// Which schemas are closed, and how.
fn decide(schema: &Value) -> BTreeMap<String, Closing> {
    let document = Document::of(schema);
    let mut survey =
        Survey { document: &document, pinned: HashSet::new(), places: Vec::new(), reached: HashMap::new(), members: 0 };
    if document.is_intricate || !survey.run() {
        // What was not looked at may refer to anything, so only the root may change, and only if nobody
        // builds upon it.
        survey.places.clear();
        survey.pinned.clear();
        if !document.is_root_used() {
            let family = document.family([String::new()], true);
            let others = family.members.keys().filter(|pointer| !pointer.is_empty()).cloned();
            survey.pinned.extend(others);
            survey.places.push(Place { start: String::new(), family });
        }
    }
    survey.places.iter().filter_map(|place| survey.decision(place)).collect()
}

/// A value that exactly one schema describes directly.
struct Place<'a> {
    start: String,
    family: Family<'a>,
}

struct Survey<'d, 'a> {
    document: &'d Document<'a>,
    /// Schemas that also judge values together with others: closing them would refuse the others' fields.
    pinned: HashSet<String>,
    places: Vec<Place<'a>>,
    /// What each schema applies in place, itself included.
    reached: HashMap<String, HashSet<String>>,
    members: usize,
}

impl<'a> Survey<'_, 'a> {
    /// Visits the family of every value the schema describes; false when there are too many.
    fn run(&mut self) -> bool {
        let mut seen = HashSet::new();
        let mut open = vec![(BTreeSet::from([String::new()]), true)];
        while let Some((starts, steady)) = open.pop() {
            if !seen.insert((starts.clone(), steady)) {
                continue;
            }
            if seen.len() > FAMILIES || self.members > MEMBERS {
                return false;
            }
            let family = self.document.family(starts.iter().cloned(), steady);
            self.pin(&family, &starts);
            open.extend(children(&family));
            if let (Some(start), 1, true) = (starts.first(), starts.len(), steady) {
                self.places.push(Place { start: start.clone(), family });
            }
        }
        true
    }

    /// Marks the members that may not be closed because of this family.
    fn pin(&mut self, family: &Family<'a>, starts: &BTreeSet<String>) {
        let speakers: Vec<&String> =
            family.members.iter().filter(|(_, member)| speaks(member.node)).map(|(pointer, _)| pointer).collect();
        self.members += family.members.len();
        for (pointer, member) in &family.members {
            let is_start = starts.len() == 1 && starts.contains(pointer);
            if family.is_opaque || !member.reach.steady || !(is_start || self.reaches_all(pointer, &speakers)) {
                self.pinned.insert(pointer.clone());
            }
        }
    }

    /// Whether a schema applies all of these in place, so that closing it takes account of them.
    fn reaches_all(&mut self, pointer: &str, speakers: &[&String]) -> bool {
        if !self.reached.contains_key(pointer) {
            let own = self.document.family([pointer.to_owned()], true);
            self.members += own.members.len();
            self.reached.insert(pointer.to_owned(), own.members.into_keys().collect());
        }
        self.reached.get(pointer).is_some_and(|reached| speakers.iter().all(|speaker| reached.contains(*speaker)))
    }

    fn decision(&self, place: &Place<'a>) -> Option<(String, Closing)> {
        let start = self.document.node(&place.start)?;
        let family = &place.family;
        if family.is_opaque || has_decided(start) {
            return None;
        }
        let at_start = |closing| Some((place.start.clone(), closing));
        let may_change = |pointer: &str| !self.pinned.contains(pointer);
        let speakers: Vec<(&String, &Member<'_>)> =
            family.members.iter().filter(|(_, member)| speaks(member.node)).collect();
        if speakers.is_empty() {
            // Arguments without declared fields are no arguments; an object further down is free.
            return at_start(Closing::Additional(Vec::new())).filter(|_| place.start.is_empty() && may_change(""));
        }
        if !self.spells_out(BTreeSet::from([place.start.clone()]), DEPTH) {
            return None;
        }
        // The only schema that speaks of fields has said what becomes of others.
        if let [(_, only)] = speakers.as_slice()
            && has_decided(only.node)
        {
            return None;
        }
        if let [(pointer, only)] = speakers.as_slice()
            && lists(only.node)
            && only.reach.steady
            && may_change(pointer)
        {
            return Some(((*pointer).clone(), Closing::Additional(Vec::new())));
        }
        if !may_change(&place.start) {
            return None;
        }
        // Before 2019-09 there is no word for "what none of the schemas has named": name it all here.
        let is_simple = !speakers.iter().any(|(_, member)| has_decided(member.node));
        let names: Vec<String> = family.names().into_iter().map(str::to_owned).collect();
        let listed = start.get("properties").and_then(Value::as_object);
        if is_simple && listed.is_some_and(|listed| names.iter().all(|name| listed.contains_key(name))) {
            return at_start(Closing::Additional(Vec::new()));
        }
        if !self.document.is_old {
            return at_start(Closing::Unevaluated);
        }
        at_start(Closing::Additional(names)).filter(|_| is_simple && !start.contains_key("$ref"))
    }

    /// Whether the fields of an object are listed, whichever branches apply to it.
    fn spells_out(&self, starts: BTreeSet<String>, depth: usize) -> bool {
        let family = self.document.family(starts, true);
        let always = || family.members.iter().filter(|(_, member)| !member.reach.conditional);
        if always().any(|(_, member)| lists(member.node)) {
            return true;
        }
        if depth == 0 {
            return false;
        }
        always().any(|(pointer, member)| {
            ["anyOf", "oneOf"].into_iter().any(|key| {
                let count = member.node.get(key).and_then(Value::as_array).map_or(0, Vec::len);
                let branches = (0..count).map(|index| format!("{pointer}/{key}/{index}"));
                let for_objects: Vec<String> = branches.filter(|branch| self.admits_objects(branch)).collect();
                !for_objects.is_empty()
                    && for_objects.into_iter().all(|branch| self.spells_out(BTreeSet::from([branch]), depth - 1))
            })
        })
    }

    /// Whether an object may fit the schema at `pointer`, as far as its types and constants tell.
    fn admits_objects(&self, pointer: &str) -> bool {
        let family = self.document.family([pointer.to_owned()], true);
        !family.members.values().filter(|member| !member.reach.conditional).any(|member| {
            let types = types_of(member.node);
            (!types.is_empty() && !types.contains(&"object"))
                || member.node.contains_key("const")
                || member.node.contains_key("enum")
        })
    }
}

fn lists(node: &Map<String, Value>) -> bool {
    node.contains_key("properties")
}

fn has_decided(node: &Map<String, Value>) -> bool {
    DECIDED.iter().any(|keyword| node.contains_key(*keyword))
}

/// Says something about the fields of an object.
fn speaks(node: &Map<String, Value>) -> bool {
    lists(node) || has_decided(node)
}

/// The families of the values below: for each field and item, the schemas that judge it together.
fn children(family: &Family<'_>) -> Vec<(BTreeSet<String>, bool)> {
    let mut fields: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut other_fields = BTreeSet::new();
    let mut items: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    let mut other_items = BTreeSet::new();
    let mut apart = Vec::new();
    let mut steady = true;
    let (mut object_speakers, mut array_speakers) = (0, 0);
    for (pointer, member) in &family.members {
        steady &= member.reach.steady;
        let mut speaks_of_objects = false;
        let mut speaks_of_arrays = false;
        for (key, value) in member.node {
            let at = |suffix: &str| format!("{pointer}/{key}{suffix}");
            match (key.as_str(), value) {
                ("properties", Value::Object(map)) => {
                    speaks_of_objects = true;
                    for name in map.keys() {
                        fields.entry(name).or_default().insert(at(&format!("/{}", escape(name))));
                    }
                }
                ("patternProperties", Value::Object(map)) => {
                    speaks_of_objects = true;
                    other_fields.extend(map.keys().map(|name| at(&format!("/{}", escape(name)))));
                }
                ("additionalProperties" | "unevaluatedProperties", Value::Object(_)) => {
                    speaks_of_objects = true;
                    other_fields.insert(at(""));
                }
                ("prefixItems" | "items", Value::Array(list)) => {
                    speaks_of_arrays = true;
                    for index in 0..list.len() {
                        items.entry(index).or_default().insert(at(&format!("/{index}")));
                    }
                }
                ("items" | "additionalItems" | "unevaluatedItems", Value::Object(_)) => {
                    speaks_of_arrays = true;
                    other_items.insert(at(""));
                }
                ("contains", Value::Object(_)) => {
                    array_speakers += 1;
                    speaks_of_arrays = true;
                    other_items.insert(at(""));
                }
                ("propertyNames" | "contentSchema", Value::Object(_)) => apart.push((BTreeSet::from([at("")]), false)),
                _ => {}
            }
        }
        object_speakers += usize::from(speaks_of_objects);
        array_speakers += usize::from(speaks_of_arrays);
    }
    let has_patterns = family.members.values().any(|member| member.node.contains_key("patternProperties"));
    let mut all = apart;
    let mut push = |mut starts: BTreeSet<String>, others: &BTreeSet<String>, joined: bool| {
        if joined {
            starts.extend(others.iter().cloned());
        }
        all.push((starts, steady));
    };
    for starts in fields.into_values() {
        push(starts, &other_fields, object_speakers > 1 || has_patterns);
    }
    for starts in items.into_values() {
        push(starts, &other_items, array_speakers > 1);
    }
    for others in [other_fields, other_items] {
        if !others.is_empty() {
            push(others, &BTreeSet::new(), false);
        }
    }
    all
}
