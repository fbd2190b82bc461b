//! What a measurement found: named figures, each with its median and its extremes.

use std::io::Write;

use comfy_table::{Table, presets};
use serde_json::{Value, json};

/// The figures of one measurement.
pub(crate) struct Report {
    pub(crate) title: &'static str,
    pub(crate) figures: Vec<Figure>,
}

/// One figure, measured several times.
pub(crate) struct Figure {
    what: String,
    unit: &'static str,
    samples: Vec<f64>,
    wanted: &'static str,
}

impl Figure {
    /// A figure of these samples, in any order.
    pub(crate) fn new(what: impl Into<String>, unit: &'static str, samples: impl IntoIterator<Item = f64>) -> Self {
        let mut samples: Vec<f64> = samples.into_iter().collect();
        samples.sort_by(f64::total_cmp);
        Self { what: what.into(), unit, samples, wanted: "" }
    }

    /// What the figure should be, in words.
    pub(crate) fn wanted(mut self, wanted: &'static str) -> Self {
        self.wanted = wanted;
        self
    }

    pub(crate) fn median(&self) -> f64 {
        self.samples.get(self.samples.len() / 2).copied().unwrap_or(f64::NAN)
    }

    fn least(&self) -> f64 {
        self.samples.first().copied().unwrap_or(f64::NAN)
    }

    fn most(&self) -> f64 {
        self.samples.last().copied().unwrap_or(f64::NAN)
    }

    fn to_json(&self) -> Value {
        json!({
            "what": self.what, "unit": self.unit, "median": self.median(), "min": self.least(),
            "max": self.most(), "samples": self.samples.len(), "wanted": self.wanted,
        })
    }
}

/// The quotients of two lists of samples taken in turns.
pub(crate) fn ratios(of: &[f64], to: &[f64]) -> Vec<f64> {
    of.iter().zip(to).map(|(of, to)| of / to).collect()
}

/// Says on standard error what is being measured.
pub(crate) fn progress(words: &str) {
    // Progress that nobody can read is no reason to stop.
    drop(writeln!(std::io::stderr(), "{words}"));
}

/// Prints everything on standard output.
pub(crate) fn print(reports: &[Report], json: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        let all: serde_json::Map<String, Value> = reports
            .iter()
            .map(|report| (report.title.to_owned(), report.figures.iter().map(Figure::to_json).collect()))
            .collect();
        writeln!(out, "{}", Value::Object(all))?;
        return Ok(());
    }
    for report in reports {
        let mut table = Table::new();
        table.load_style(presets::UTF8_HORIZONTAL_ONLY);
        table.set_header([report.title, "unit", "median", "min", "max", "wanted"]);
        for figure in &report.figures {
            table.add_row([
                figure.what.clone(),
                figure.unit.to_owned(),
                short(figure.median()),
                short(figure.least()),
                short(figure.most()),
                figure.wanted.to_owned(),
            ]);
        }
        writeln!(out, "{table}\n")?;
    }
    Ok(())
}

/// Three digits that matter, as far as they are after the point.
fn short(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_and_the_extremes_do_not_depend_on_the_order_of_the_samples() {
        let figure = Figure::new("x", "ms", [3.0, 1.0, 2.0]);
        assert_eq!((figure.least(), figure.median(), figure.most()), (1.0, 2.0, 3.0));
    }
}
