//! The first pass: YAML text to a tree in which every key and every value knows its place.
//!
//! The tree is ours, so that later passes speak of `line:column` without knowing the YAML library. Booleans
//! are `true` and `false` only (`no` and `on` stay text), `012` and `1_000` stay text, duplicate keys are
//! kept side by side for the caller to report, merge keys (`<<`) are applied. Size, depth and aliases are
//! bounded. It expands no variable and checks no meaning.

mod words;

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Location, Spanned};

/// Bytes of a configuration file that are read at most.
pub(crate) const MAX_BYTES: usize = 8 << 20;

/// How deep mappings and lists may nest. Schemas of tools need about ten.
const MAX_DEPTH: usize = 64;

/// Where something stands in the file. Lines and columns count from 1, columns and offsets in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Line, from 1.
    pub(crate) line: usize,
    /// Column, from 1, in characters.
    pub(crate) column: usize,
    /// Offset from the start of the file, in characters.
    pub(crate) offset: usize,
    /// Length in characters; of a mapping or list, that of its first mark.
    pub(crate) length: usize,
}

impl From<Location> for Place {
    fn from(location: Location) -> Self {
        let number = |figure: u64| usize::try_from(figure).unwrap_or(usize::MAX);
        Self {
            line: number(location.line()).max(1),
            column: number(location.column()).max(1),
            offset: number(location.span().offset()),
            length: number(location.span().len()),
        }
    }
}

/// One value and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// What it is.
    pub(crate) data: Data,
    /// Where it stands; for an alias, where the anchor stands.
    pub(crate) place: Place,
    /// Whether its text holds a variable's value: then it is never printed, and may become a number.
    pub(crate) from_environment: bool,
}

/// What a node holds.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    /// Nothing, `null` or `~`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number that JSON can hold exactly.
    Number(Number),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A mapping, in order, duplicates included.
    Map(Vec<Entry>),
}

/// One key of a mapping with its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The key as text.
    pub(crate) key: String,
    /// Where the key stands.
    pub(crate) key_place: Place,
    /// Its value.
    pub(crate) node: Node,
}

/// Why the text is no YAML that we read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// Where.
    pub(crate) place: Place,
    /// What is wrong.
    pub(crate) message: String,
    /// What to write instead.
    pub(crate) fix: String,
}

/// Reads the text. `Ok(None)`: it holds nothing but comments.
pub(crate) fn read(text: &str) -> Result<Option<Node>, Malformed> {
    if text.len() > MAX_BYTES {
        return Err(Malformed {
            place: Place { line: 1, column: 1, ..Place::default() },
            message: format!("the file holds more than {} MiB", MAX_BYTES >> 20),
            fix: "a configuration is smaller; check the path".to_owned(),
        });
    }
    if text.lines().all(|line| matches!(line.trim().chars().next(), None | Some('#'))) {
        return Ok(None);
    }
    on_a_deep_stack(|| match serde_saphyr::from_str_with_options::<Spanned<Raw>>(text, options()) {
        Ok(root) => Ok(Some(root.into())),
        Err(error) => Err(words::malformed(&error)),
    })
}

/// How strictly YAML is read.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        null_as_string: true,
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        reject_unsupported_tags: true,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_documents: 1,
            max_nodes: 100_000,
            max_aliases: 10_000,
        },
    }
}

/// Runs `read` where nesting up to [`MAX_DEPTH`] cannot exhaust the stack, whoever calls: the library's
/// frames are large, and a worker of the runtime has two megabytes.
fn on_a_deep_stack<T: Send>(read: impl FnOnce() -> Result<T, Malformed> + Send) -> Result<T, Malformed> {
    let failed = || Malformed {
        place: Place { line: 1, column: 1, ..Place::default() },
        message: "the file could not be read: this program has no room for another thread".to_owned(),
        fix: "free memory or raise the limit on threads".to_owned(),
    };
    std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().name("config".to_owned()).stack_size(16 << 20);
        let reader = reader.spawn_scoped(scope, read).map_err(|_| failed())?;
        reader.join().map_err(|_| failed())?
    })
}

impl Node {
    /// The tree as JSON. Of duplicate keys the first one counts.
    pub(crate) fn to_value(&self) -> Value {
        match &self.data {
            Data::Null => Value::Null,
            Data::Bool(value) => Value::Bool(*value),
            Data::Number(value) => Value::Number(value.clone()),
            Data::Text(text) => Value::String(text.clone()),
            Data::List(items) => Value::Array(items.iter().map(Node::to_value).collect()),
            Data::Map(entries) => {
                let mut object = serde_json::Map::new();
                for entry in entries {
                    if !object.contains_key(&entry.key) {
                        object.insert(entry.key.clone(), entry.node.to_value());
                    }
                }
                Value::Object(object)
            }
        }
    }

    /// The entry under a key, if this is a mapping that has it.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.data {
            Data::Map(entries) => entries.iter().find(|entry| entry.key == key),
            Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) | Data::List(_) => None,
        }
    }

    /// The text, if it is text.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.data {
            Data::Text(text) => Some(text),
            Data::Null | Data::Bool(_) | Data::Number(_) | Data::List(_) | Data::Map(_) => None,
        }
    }

    /// The node at a JSON pointer, to be changed.
    pub(crate) fn at_mut(&mut self, pointer: &str) -> Option<&mut Node> {
        let mut node = self;
        for part in parts(pointer) {
            node = match &mut node.data {
                Data::List(items) => items.get_mut(part.parse::<usize>().ok()?)?,
                Data::Map(entries) => &mut entries.iter_mut().find(|entry| entry.key == part)?.node,
                Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) => return None,
            };
        }
        Some(node)
    }

    /// The node at a JSON pointer.
    pub(crate) fn at(&self, pointer: &str) -> Option<&Node> {
        let mut node = self;
        for part in parts(pointer) {
            node = node.child(&part)?.0;
        }
        Some(node)
    }

    /// Where to point for a JSON pointer: at a scalar's value, at a mapping's or list's key. What does not
    /// exist (a missing key) is reported at the nearest thing around it that does.
    pub(crate) fn locate(&self, pointer: &str) -> Place {
        let (mut node, mut place) = (self, self.place);
        for part in parts(pointer) {
            let Some((child, key_place)) = node.child(&part) else { break };
            place = match (&child.data, key_place) {
                (Data::List(_) | Data::Map(_) | Data::Null, Some(key_place)) => key_place,
                (Data::List(_) | Data::Map(_) | Data::Null, None)
                | (Data::Bool(_) | Data::Number(_) | Data::Text(_), _) => child.place,
            };
            node = child;
        }
        place
    }

    /// Where the key at the end of a JSON pointer stands, or the thing itself if it has no key.
    pub(crate) fn locate_key(&self, pointer: &str) -> Place {
        let Some((parent, key)) = pointer.rsplit_once('/') else { return self.locate(pointer) };
        let key = parts(&format!("/{key}")).next().unwrap_or_default();
        match self.at(parent).and_then(|parent| parent.child(&key)) {
            Some((_, Some(place))) => place,
            _ => self.locate(pointer),
        }
    }

    fn child(&self, part: &str) -> Option<(&Node, Option<Place>)> {
        match &self.data {
            Data::List(items) => Some((items.get(part.parse::<usize>().ok()?)?, None)),
            Data::Map(_) => self.entry(part).map(|entry| (&entry.node, Some(entry.key_place))),
            Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) => None,
        }
    }

    /// Calls `visit` for this node and every node below it, each with its JSON pointer.
    pub(crate) fn walk<'a>(&'a self, pointer: &mut String, visit: &mut impl FnMut(&str, &'a Node)) {
        visit(pointer, self);
        let length = pointer.len();
        match &self.data {
            Data::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    pointer.push_str(&format!("/{index}"));
                    item.walk(pointer, visit);
                    pointer.truncate(length);
                }
            }
            Data::Map(entries) => {
                for entry in entries {
                    pointer.push('/');
                    pointer.push_str(&escape(&entry.key));
                    entry.node.walk(pointer, visit);
                    pointer.truncate(length);
                }
            }
            Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) => {}
        }
    }
}

/// The parts of a JSON pointer, unescaped.
pub(crate) fn parts(pointer: &str) -> impl Iterator<Item = String> + '_ {
    pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~"))
}

/// One part of a JSON pointer, escaped.
pub(crate) fn escape(part: &str) -> String {
    part.replace('~', "~0").replace('/', "~1")
}

/// What serde hands over before places are known.
struct Raw(RawData);

enum RawData {
    Scalar(Data),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

impl From<Spanned<Raw>> for Node {
    fn from(raw: Spanned<Raw>) -> Self {
        let data = match raw.value.0 {
            RawData::Scalar(data) => data,
            RawData::List(items) => Data::List(items.into_iter().map(Node::from).collect()),
            RawData::Map(entries) => Data::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| Entry { key_place: place_of(&key), key: key.value, node: Node::from(value) })
                    .collect(),
            ),
        };
        Node { place: Place::from(raw.defined), data, from_environment: false }
    }
}

fn place_of<T>(spanned: &Spanned<T>) -> Place {
    spanned.defined.into()
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl RawVisitor {
    fn scalar<E>(data: Data) -> Result<Raw, E> {
        Ok(Raw(RawData::Scalar(data)))
    }
}

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Self::scalar(Data::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Self::scalar(Data::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        Raw::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Self::scalar(Data::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Self::scalar(Data::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Self::scalar(Data::Number(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Raw, E> {
        Self::scalar(Number::from_i128(value).map_or_else(|| Data::Text(value.to_string()), Data::Number))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Raw, E> {
        Self::scalar(Number::from_u128(value).map_or_else(|| Data::Text(value.to_string()), Data::Number))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Self::scalar(Number::from_f64(value).map_or_else(|| Data::Text(value.to_string()), Data::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Self::scalar(Data::Text(value.to_owned()))
    }

    fn visit_bytes<E: serde::de::Error>(self, _value: &[u8]) -> Result<Raw, E> {
        Err(E::custom("binary values are not read here"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element()? {
            items.push(item);
        }
        Ok(Raw(RawData::List(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            if entries.len() >= 100_000 {
                return Err(A::Error::custom("a mapping with more than 100000 keys"));
            }
            entries.push((key, map.next_value()?));
        }
        Ok(Raw(RawData::Map(entries)))
    }
}

/// Whole numbers that no JSON number holds with every digit.
pub(crate) fn lossy_numbers(root: &Node, text: &str) -> Vec<reach_core::Problem> {
    let mut floats = Vec::new();
    root.walk(&mut String::new(), &mut |pointer, node| {
        if let Data::Number(number) = &node.data
            && number.is_f64()
            && number.as_f64().is_some_and(|value| value.abs() > 9e15)
        {
            floats.push((pointer.to_owned(), node.place));
        }
    });
    if floats.is_empty() {
        return Vec::new();
    }
    let characters: Vec<char> = text.chars().collect();
    floats
        .into_iter()
        .filter(|(_, place)| {
            let written = characters.get(place.offset..place.offset + place.length).unwrap_or_default();
            !written.is_empty() && written.iter().all(|c| c.is_ascii_digit() || matches!(c, '-' | '+'))
        })
        .map(|(pointer, _)| {
            reach_core::Problem::new(
                pointer,
                "a number of more than 64 bits would lose digits here",
                "put it in quotes",
            )
        })
        .collect()
}
