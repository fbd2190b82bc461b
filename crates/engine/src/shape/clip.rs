//! Spreading a budget over a tree of values.
//!
//! At each level small values stay whole and the rest share what is left (the water rises evenly); what a
//! value does not use flows to the next larger one. Every value has a floor, the notice that stands for
//! it, and nobody is given less.

use reach_core::Object;
use reach_core::rank::rank;
use serde_json::Value;

use super::measure::{measure, measure_upto, text as measured};
use super::text;

/// The key under which an object tells what it lacks.
const NOTICE_KEY: &str = "…";
/// An element or a field that has to be shortened is worth showing from this many characters on.
const USEFUL: usize = 100;

/// One way of shortening.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shortener<'a> {
    /// Keep what answers this; without it, heads and tails.
    pub(super) query: Option<&'a str>,
}

impl Shortener<'_> {
    /// Fits `value` into `budget`, which is at least its [`floor`].
    pub(super) fn value(self, value: Value, budget: usize) -> Value {
        if measure_upto(&value, budget) <= budget {
            return value;
        }
        match value {
            Value::String(text) => Value::String(
                self.query
                    .and_then(|query| text::extract(&text, budget, query))
                    .unwrap_or_else(|| text::clip(&text, budget)),
            ),
            Value::Array(items) => Value::Array(self.array(items, budget)),
            Value::Object(entries) => Value::Object(self.object(entries, budget)),
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
        }
    }

    fn array(self, items: Vec<Value>, budget: usize) -> Vec<Value> {
        let total = items.len();
        let kept =
            self.query.and_then(|query| matching(&items, budget, query)).unwrap_or_else(|| leading(&items, budget));
        if kept.is_empty() {
            return vec![Value::String(format!("… {total} items"))];
        }
        // Notices of gaps come out of the budget first, then the elements share the rest.
        let mut notices: Vec<(usize, Value)> = Vec::new();
        let mut next = 0;
        for (place, index) in kept.iter().enumerate() {
            if *index > next {
                notices.push((place, Value::String(format!("… {} left out", index - next))));
            }
            next = index + 1;
        }
        if next < total {
            notices.push((kept.len(), Value::String(format!("… {} more of {total}", total - next))));
        }
        let notes: usize = notices.iter().map(|(_, notice)| measure(notice)).sum();
        let frame = 2 + (kept.len() + notices.len() - 1) + notes;
        let mut wanted = kept.iter().peekable();
        let elements = items
            .into_iter()
            .enumerate()
            .filter_map(|(index, item)| wanted.next_if(|next| **next == index).map(|_| item));
        let mut out = self.share(elements.collect(), budget.saturating_sub(frame));
        for (place, notice) in notices.into_iter().rev() {
            out.insert(place.min(out.len()), notice);
        }
        out
    }

    fn object(self, entries: Object, budget: usize) -> Object {
        let total = entries.len();
        let frame = |key: &str| measured(key) + 1;
        let least: usize = 1 + entries.iter().map(|(key, value)| frame(key) + floor(value) + 1).sum::<usize>();
        let keeps_all = least <= budget;
        let mut room = budget.saturating_sub(2 + frame(NOTICE_KEY) + measured(&left_out(total, total)));
        let useful = USEFUL.max(budget / 8);
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for (key, value) in entries {
            if !keeps_all {
                let cost = frame(&key) + wanted(&value, useful) + 1;
                if key == NOTICE_KEY || cost > room {
                    continue;
                }
                room -= cost;
            }
            keys.push(key);
            values.push(value);
        }
        if keys.is_empty() {
            return Object::from_iter([(NOTICE_KEY.to_owned(), Value::String(format!("{total} keys")))]);
        }
        let notice = (keys.len() < total).then(|| left_out(total - keys.len(), total));
        let notes = notice.as_ref().map_or(0, |notice| frame(NOTICE_KEY) + measured(notice) + 1);
        let frames = 2 + keys.iter().map(|key| frame(key)).sum::<usize>() + (keys.len() - 1) + notes;
        let values = self.share(values, budget.saturating_sub(frames));
        let mut out: Object = keys.into_iter().zip(values).collect();
        if let Some(notice) = notice {
            out.insert(NOTICE_KEY.to_owned(), Value::String(notice));
        }
        out
    }

    /// Fits values into `room` together; their floors fit.
    fn share(self, values: Vec<Value>, room: usize) -> Vec<Value> {
        let mut order: Vec<(usize, usize, usize)> =
            values.iter().enumerate().map(|(index, value)| (measure_upto(value, room), index, floor(value))).collect();
        order.sort_unstable();
        let mut reserved: usize = order.iter().map(|(_, _, floor)| floor).sum();
        let mut room = room;
        let mut out: Vec<Value> = values;
        let mut rest = order.len();
        for (size, index, floor) in order {
            reserved = reserved.saturating_sub(floor);
            let fair = (room / rest.max(1)).max(floor);
            let budget = size.min(fair).min(room.saturating_sub(reserved)).max(floor);
            if let Some(slot) = out.get_mut(index) {
                *slot = self.value(slot.take(), budget);
                room = room.saturating_sub(measure_upto(slot, budget));
            }
            rest -= 1;
        }
        out
    }
}

fn left_out(count: usize, total: usize) -> String {
    format!("{count} more of {total} keys")
}

/// The fewest characters a value can be brought down to.
fn floor(value: &Value) -> usize {
    let notice = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => return measure(value),
        Value::String(text) => measured(&text::shortest(text.chars().count())),
        Value::Array(items) => 2 + measured(&format!("… {} items", items.len())),
        Value::Object(entries) => 2 + measured(NOTICE_KEY) + 1 + measured(&format!("{} keys", entries.len())),
    };
    measure_upto(value, notice).min(notice)
}

/// What a value should have if it is shown at all: itself, or enough of it to be useful.
fn wanted(value: &Value, useful: usize) -> usize {
    let size = measure_upto(value, useful);
    if size <= useful { size } else { useful.max(floor(value)) }
}

/// How many of the first elements fit, each whole or at a useful length.
fn leading(items: &[Value], budget: usize) -> Vec<usize> {
    let useful = USEFUL.max(budget / 8);
    let notice = 1 + measured(&format!("… {0} more of {0}", items.len()));
    let mut used = 2;
    let mut kept = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let cost = wanted(item, useful) + usize::from(index > 0);
        let after = if index + 1 == items.len() { 0 } else { notice };
        if used + cost + after > budget {
            break;
        }
        used += cost;
        kept.push(index);
    }
    kept
}

/// Which elements match `query` best and fit, in their order; `None` where none does.
fn matching(items: &[Value], budget: usize, query: &str) -> Option<Vec<usize>> {
    let mut left = text::MOST_RANKED;
    let looked_at = items.iter().take_while(|item| {
        let size = measure_upto(item, left);
        left = left.saturating_sub(size);
        left > 0
    });
    let texts: Vec<String> = looked_at.map(Value::to_string).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let useful = USEFUL.max(budget / 8);
    let notice = 1 + measured(&format!("… {0} more of {0}", items.len()));
    let mut room = budget.saturating_sub(2 + notice);
    let mut kept = Vec::new();
    for best in rank(query, &texts) {
        // Each may stand alone, with a gap before it.
        let cost = items.get(best.index).map_or(usize::MAX, |item| wanted(item, useful) + 1 + notice);
        if cost <= room {
            room -= cost;
            kept.push(best.index);
        }
    }
    kept.sort_unstable();
    (!kept.is_empty()).then_some(kept)
}
