//! Many programs under the same placements: what a table and a picture of them show.
//!
//! A panel is one platform at one capacity: programs as rows, placements as columns. The geometric mean is taken over
//! the programs for which every placement has a figure, so that its columns can be compared, and says how many they are.

mod dots;
mod markdown;
mod page;

pub use dots::suite_svg;
pub use markdown::suite_markdown;
pub use page::suite_page;

use crate::comparison::{BASE, Figure, capacity, fastest, figure};
use crate::words;
use model::comparison::{Comparison, PlacementRun};
use std::path::Path;

/// A placement, at the panel's capacity or at none.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Column<'a> {
    placement: &'a str,
    percent: Option<f64>,
}

/// One platform at one capacity.
struct Panel<'a> {
    platform: &'a str,
    vcpus: u32,
    /// In percent of each program's footprint; none if only placements without a capacity were run.
    percent: Option<f64>,
    programs: Vec<&'a Comparison>,
    columns: Vec<Column<'a>>,
}

/// Panels in the order of the platforms, then by capacity.
fn panels(all: &[Comparison]) -> Vec<Panel<'_>> {
    let mut machines: Vec<(&str, u32)> = Vec::new();
    for c in all {
        if !machines.contains(&(c.platform.as_str(), c.vcpus)) {
            machines.push((&c.platform, c.vcpus));
        }
    }
    let mut panels = Vec::new();
    for (platform, vcpus) in machines {
        let programs: Vec<&Comparison> = all.iter().filter(|c| c.platform == platform && c.vcpus == vcpus).collect();
        let mut capacities: Vec<f64> = programs.iter().flat_map(|c| c.capacities()).collect();
        capacities.sort_by(f64::total_cmp);
        capacities.dedup();
        let percents: Vec<Option<f64>> = match capacities.as_slice() {
            [] => vec![None],
            some => some.iter().copied().map(Some).collect(),
        };
        for percent in percents {
            let columns = columns(&programs, percent);
            panels.push(Panel { platform, vcpus, percent, programs: programs.clone(), columns });
        }
    }
    panels
}

/// Placements without a capacity, but for the one that all are measured by; then those with this capacity.
fn columns<'a>(programs: &[&'a Comparison], percent: Option<f64>) -> Vec<Column<'a>> {
    let mut columns: Vec<Column> = Vec::new();
    let runs = || programs.iter().flat_map(|c| &c.runs);
    let whole = runs().filter(|r| r.fast_percent.is_none() && r.placement != BASE);
    for run in whole.chain(runs().filter(|r| percent.is_some() && r.fast_percent == percent)) {
        let column = Column { placement: &run.placement, percent: run.fast_percent };
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    columns
}

impl Panel<'_> {
    /// `cascade-lake-optane, 2 vCPUs, 25% fast memory`.
    fn title(&self) -> String {
        let at = self.percent.map_or(String::new(), |p| format!(", {} fast memory", capacity(p)));
        format!("{}, {}{at}", self.platform, words::plural(self.vcpus.into(), "vCPU"))
    }

    fn run<'a>(&self, c: &'a Comparison, column: Column) -> Option<&'a PlacementRun> {
        match column.percent {
            Some(percent) => c.at(column.placement, percent),
            None => c.whole(column.placement),
        }
    }

    fn figure(&self, c: &Comparison, column: Column) -> Figure {
        figure(c, self.run(c, column))
    }

    /// Whether no placement with a capacity is faster, as far as the figures show.
    fn is_fastest(&self, c: &Comparison, column: Column) -> bool {
        let best = column.percent.and_then(|p| fastest(c, p));
        best.is_some_and(|best| best == self.figure(c, column).to_string())
    }

    /// Names of the programs: the file, or the whole command where that would not tell two apart.
    fn names(&self) -> Vec<String> {
        let short = |c: &Comparison| {
            let program = c.command.first().map_or("", String::as_str);
            Path::new(program).file_name().map_or_else(|| program.to_string(), |n| n.to_string_lossy().into_owned())
        };
        let name = |c: &&Comparison| match self.programs.iter().filter(|o| short(o) == short(c)).count() {
            1 => short(c),
            _ => words::command(&c.command),
        };
        self.programs.iter().map(name).collect()
    }

    /// The geometric mean of each column, and of how many programs.
    fn means(&self) -> (usize, Vec<Option<f64>>) {
        let ratio = |c: &Comparison, column: &Column| self.figure(c, *column).relative().filter(|r| *r > 0.0);
        // A placement that succeeded nowhere must not take the mean from all others.
        let some: Vec<bool> =
            self.columns.iter().map(|column| self.programs.iter().any(|c| ratio(c, column).is_some())).collect();
        let has_all =
            |c: &&&Comparison| self.columns.iter().zip(&some).all(|(column, some)| !some || ratio(c, column).is_some());
        let complete: Vec<&&Comparison> = self.programs.iter().filter(has_all).collect();
        let mean = |(column, some): (&Column, &bool)| {
            let logs: f64 = complete.iter().filter_map(|c| ratio(c, column)).map(f64::ln).sum();
            (*some && !complete.is_empty()).then(|| (logs / complete.len() as f64).exp())
        };
        (complete.len(), self.columns.iter().zip(&some).map(mean).collect())
    }

    /// `geometric mean`, with the number of programs it was taken of where that is not all.
    fn mean_name(&self, of: usize) -> String {
        match self.programs.len() {
            all if all == of => "geometric mean".to_string(),
            all => format!("geometric mean of {of} of {all}"),
        }
    }

    /// Whether this mean is the least of the placements with a capacity, as it is shown.
    fn is_best_mean(&self, means: &[Option<f64>], n: usize) -> bool {
        let shown = |n: usize| means[n].map(|m| format!("{m:.2}"));
        let limited = (0..means.len()).filter(|n| self.columns[*n].percent.is_some() && means[*n].is_some());
        let best = limited.min_by(|a, b| means[*a].unwrap_or(0.0).total_cmp(&means[*b].unwrap_or(0.0)));
        self.columns[n].percent.is_some() && best.is_some_and(|best| shown(best) == shown(n))
    }
}

/// Placements with a capacity in the order of their first run, which gives each its colour in all panels.
fn placements(all: &[Comparison]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for name in all.iter().flat_map(|c| c.placements()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
