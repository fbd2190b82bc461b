//! Figures for Prometheus: calls by tool and code, how long they took, how many are under way.
//!
//! Labels are of low cardinality by construction: a tool that does not exist (or is hidden from its
//! caller) is counted as `unknown`, and neither caller, session nor trace is ever a label.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use reach_core::{Envelope, ErrorCode};
use reach_engine::HealthReport;

/// Upper bounds of the histogram, in seconds.
const BOUNDS: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The figures of one process since its start.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    in_flight: AtomicU64,
    tools: Mutex<BTreeMap<String, Tool>>,
}

#[derive(Debug, Default)]
struct Tool {
    codes: BTreeMap<&'static str, u64>,
    buckets: [u64; BOUNDS.len()],
    seconds: f64,
    count: u64,
}

/// Counts a call as under way until it is dropped, however the call ends.
pub(crate) struct UnderWay<'a>(&'a Metrics);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// A call begins.
    pub(crate) fn begin(&self) -> UnderWay<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        UnderWay(self)
    }

    /// A call has ended.
    pub(crate) fn count(&self, envelope: &Envelope, took: Duration) {
        let code = envelope.code();
        let name = if code == Some(ErrorCode::ToolNotFound) { "unknown" } else { envelope.tool.as_str() };
        let mut tools = self.tools.lock();
        if !tools.contains_key(name) {
            tools.insert(name.to_owned(), Tool::default());
        }
        let Some(tool) = tools.get_mut(name) else { return };
        *tool.codes.entry(code.map_or("OK", ErrorCode::as_str)).or_default() += 1;
        let seconds = took.as_secs_f64();
        for (bucket, bound) in tool.buckets.iter_mut().zip(BOUNDS) {
            *bucket += u64::from(seconds <= bound);
        }
        tool.seconds += seconds;
        tool.count += 1;
    }

    /// The text format, version 0.0.4.
    pub(crate) fn text(&self, health: &HealthReport) -> String {
        let mut text = String::new();
        let tools = self.tools.lock();
        head(&mut text, "reach_calls_total", "counter", "Calls that have ended, by tool and code.");
        for (name, tool) in tools.iter() {
            for (code, count) in &tool.codes {
                let _ = writeln!(text, "reach_calls_total{{tool=\"{}\",code=\"{code}\"}} {count}", label(name));
            }
        }
        head(&mut text, "reach_call_duration_seconds", "histogram", "Wall time of calls, from plan to envelope.");
        for (name, tool) in tools.iter() {
            let name = label(name);
            for (bucket, bound) in tool.buckets.iter().zip(BOUNDS) {
                let _ = writeln!(text, "reach_call_duration_seconds_bucket{{tool=\"{name}\",le=\"{bound}\"}} {bucket}");
            }
            let (count, seconds) = (tool.count, tool.seconds);
            let _ = writeln!(text, "reach_call_duration_seconds_bucket{{tool=\"{name}\",le=\"+Inf\"}} {count}");
            let _ = writeln!(text, "reach_call_duration_seconds_sum{{tool=\"{name}\"}} {seconds}");
            let _ = writeln!(text, "reach_call_duration_seconds_count{{tool=\"{name}\"}} {count}");
        }
        drop(tools);
        head(&mut text, "reach_calls_in_flight", "gauge", "Calls under way.");
        let _ = writeln!(text, "reach_calls_in_flight {}", self.in_flight.load(Ordering::Relaxed));
        head(&mut text, "reach_breaker_state", "gauge", "1 for the state in which the breaker of a target stands.");
        for breaker in &health.breakers {
            let (target, state) = (label(&breaker.target), breaker.state.as_str());
            let _ = writeln!(text, "reach_breaker_state{{target=\"{target}\",state=\"{state}\"}} 1");
        }
        head(&mut text, "reach_degraded", "gauge", "Things of the gateway's own that do not work.");
        let _ = writeln!(text, "reach_degraded {}", health.degraded.len());
        text
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// A declared tool id holds nothing that needs escaping, but what is asked for may.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use reach_core::{Caller, ErrorBody, Meta, Object, Plan};

    use super::*;

    fn healthy() -> HealthReport {
        HealthReport { tools: Vec::new(), breakers: Vec::new(), degraded: Vec::new() }
    }

    #[test]
    fn calls_are_counted_by_code_and_what_does_not_exist_is_one_label() {
        let metrics = Metrics::default();
        let plan = |tool: &str| Plan::new(tool, Object::new(), Caller::local());
        let ok = plan("a");
        metrics.count(&Envelope::ok(ok.tool_id.clone(), Object::new(), Meta::of(&ok)), Duration::from_millis(3));
        for name in ["x", "y\"\n"] {
            let missing = plan(name);
            let error = ErrorBody::new(ErrorCode::ToolNotFound, "no");
            metrics.count(&Envelope::error(missing.tool_id.clone(), error, Meta::of(&missing)), Duration::ZERO);
        }
        let under_way = metrics.begin();
        let text = metrics.text(&healthy());
        assert!(text.contains("reach_calls_total{tool=\"a\",code=\"OK\"} 1\n"), "{text}");
        assert!(text.contains("reach_calls_total{tool=\"unknown\",code=\"TOOL_NOT_FOUND\"} 2\n"), "{text}");
        assert!(text.contains("reach_call_duration_seconds_bucket{tool=\"a\",le=\"0.001\"} 0\n"), "{text}");
        assert!(text.contains("reach_call_duration_seconds_bucket{tool=\"a\",le=\"0.005\"} 1\n"), "{text}");
        assert!(text.contains("reach_calls_in_flight 1\n"), "{text}");
        drop(under_way);
        assert!(metrics.text(&healthy()).contains("reach_calls_in_flight 0\n"));
    }
}
