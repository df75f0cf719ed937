//! Over time: live bytes by site, resident bytes by site (and what lies on huge pages) and misses by site, stacked, in the same colours.

use super::Labels;
use super::svg::{Scale, byte_ticks, round_ticks, shortened, text, time_unit};
use crate::words;
use model::observed::TimePoint;
use model::{Bytes, Observed, SiteId};
use std::collections::{HashMap, HashSet};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 260.0;
/// The plot, in pixels: left, right, top, bottom.
const PLOT: (f64, f64, f64, f64) = (70.0, 924.0, 12.0, 216.0);
/// How many sites have a colour of their own; the others are drawn as one.
const COLOURS: usize = 7;

/// The figures under one legend; nothing without a timeline.
pub fn figures(observed: &Observed, labels: &Labels) -> String {
    let end = observed.duration.0.max(observed.timeline.last().map_or(0, |p| p.at.0 + 1));
    if observed.timeline.is_empty() || end == 0 {
        return String::new();
    }
    let shown = most_visible(observed);
    let starts: Vec<u64> = observed.timeline.iter().map(|p| p.at.0).collect();
    let lengths: Vec<f64> =
        starts.iter().skip(1).chain([&end]).zip(&starts).map(|(b, a)| (b - a).max(1) as f64 / 1e9).collect();
    let mut stacks = Stacks::new(starts, end, &shown, labels, observed.sites.len() - shown.len());
    let bytes = |of: fn(&TimePoint) -> &[(SiteId, Bytes)]| -> Values {
        observed.timeline.iter().map(|p| of(p).iter().map(|(id, b)| (*id, b.0 as f64)).collect()).collect()
    };
    let title = "Live bytes by site over time".to_string();
    let live = stacks.add(&Drawn::new(title, Unit::Bytes("live bytes"), bytes(|p| &p.live)));
    let resident = bytes(|p| &p.resident);
    let resident = if resident.iter().flatten().any(|(_, b)| *b > 0.0) {
        let title = "Resident bytes by site over time, as the kernel tells them".to_string();
        let huge: Vec<f64> = observed.timeline.iter().map(|p| p.huge.0 as f64).collect();
        let any = huge.iter().any(|b| *b > 0.0);
        let line = any.then_some(Line { name: "all memory of the program on huge pages", values: huge });
        stacks.add(&Drawn { line, ..Drawn::new(title, Unit::Bytes("resident bytes"), resident) })
    } else {
        String::new()
    };
    let rate = |(p, seconds): (&TimePoint, &f64)| p.misses.iter().map(|(id, m)| (*id, m / seconds)).collect();
    let misses: Values = observed.timeline.iter().zip(&lengths).map(rate).collect();
    let heat = if misses.iter().flatten().any(|(_, m)| *m > 0.0) {
        let title = "Heat by site over time".to_string();
        stacks.add(&Drawn::new(title, Unit::Count("~misses per second"), misses))
    } else {
        let none = if observed.sites.iter().any(|s| s.samples > 0) { "No misses" } else { "No access samples" };
        format!("<h3>Heat by site over time</h3>\n<p>{none} over time.</p>\n")
    };
    format!("<section>\n<h2>Over time</h2>\n{}{live}{resident}{heat}</section>\n", stacks.legend())
}

/// Values of sites, one list for each interval.
type Values = Vec<Vec<(SiteId, f64)>>;

/// What values are, and how their axis is called.
pub enum Unit {
    /// Bytes; pictures of bytes have one scale.
    Bytes(&'static str),
    /// Anything else.
    Count(&'static str),
}

/// What a picture is to show.
pub struct Drawn {
    /// Its title, as HTML.
    pub title: String,
    /// What values are.
    pub unit: Unit,
    /// Values of sites in each interval.
    pub values: Values,
    /// A line over them.
    pub line: Option<Line>,
}

/// Something else over the same time.
pub struct Line {
    /// What.
    pub name: &'static str,
    /// Its value in each interval.
    pub values: Vec<f64>,
}

impl Drawn {
    /// Without a line.
    pub fn new(title: String, unit: Unit, values: Values) -> Drawn {
        Drawn { title, unit, values, line: None }
    }
}

/// Stacked pictures over the same time, with one legend.
pub struct Stacks<'a> {
    time: Time,
    shown: &'a [SiteId],
    labels: &'a Labels,
    others: usize,
    /// Most bytes of the first picture of bytes.
    bytes: Option<f64>,
}

impl<'a> Stacks<'a> {
    /// Pictures over intervals that begin at these times, in ns; the last one ends at `end`. `shown` have colours of their own, and there are so many others.
    pub fn new(starts: Vec<u64>, end: u64, shown: &'a [SiteId], labels: &'a Labels, others: usize) -> Stacks<'a> {
        Stacks { time: Time { starts, end }, shown, labels, others, bytes: None }
    }

    /// A picture.
    pub fn add(&mut self, drawn: &Drawn) -> String {
        let stack = stack(&drawn.values, self.shown);
        let highest = drawn.line.iter().flat_map(|l| &l.values).copied().fold(stack.highest(), f64::max);
        let (name, most, ticks): (_, _, Vec<(f64, String)>) = match drawn.unit {
            Unit::Bytes(name) => {
                let most = *self.bytes.get_or_insert(highest);
                let most = most.max(highest);
                let ticks = byte_ticks(Bytes(most as u64), 4).into_iter();
                (name, most, ticks.map(|v| (v, Bytes(v as u64).to_string())).collect())
            }
            Unit::Count(name) => {
                let most = highest;
                let ticks = if most > 0.0 { round_ticks(most, 4) } else { Vec::new() };
                (name, most, ticks.into_iter().map(|v| (v, words::round_count(v))).collect())
            }
        };
        picture(drawn, name, &stack, most, ticks, &self.time, self.labels, self.shown)
    }

    /// The legend of all of them.
    pub fn legend(&self) -> String {
        legend(self.shown, self.others, self.labels)
    }
}

/// The intervals of the timeline, in nanoseconds.
struct Time {
    starts: Vec<u64>,
    end: u64,
}

/// Sites with a colour of their own: the hottest and the largest by turns, so that both pictures show what matters.
fn most_visible(observed: &Observed) -> Vec<SiteId> {
    let mut by_heat: Vec<_> = observed.sites.iter().collect();
    let mut by_size = by_heat.clone();
    by_heat.sort_by(|a, b| b.misses().total_cmp(&a.misses()));
    by_size.sort_by_key(|s| std::cmp::Reverse(s.peak));
    let mut seen = HashSet::new();
    let turns = by_heat.into_iter().filter(|s| s.misses() > 0.0).map(Some).chain(std::iter::repeat(None)).zip(by_size);
    let ids = turns.flat_map(|(hot, large)| hot.into_iter().chain([large])).map(|s| s.site.id);
    ids.filter(|id| seen.insert(*id)).take(COLOURS).collect()
}

/// Bands from the bottom up: the others first, then the shown sites, the first of them on top.
struct Stack {
    /// Per interval, the upper edge of each band.
    edges: Vec<Vec<f64>>,
}

impl Stack {
    fn highest(&self) -> f64 {
        self.edges.iter().filter_map(|e| e.last()).copied().fold(0.0, f64::max)
    }
}

fn stack(values: &Values, shown: &[SiteId]) -> Stack {
    let band: HashMap<SiteId, usize> = shown.iter().enumerate().map(|(n, id)| (*id, shown.len() - n)).collect();
    let edges = values
        .iter()
        .map(|values| {
            let mut bands = vec![0.0; shown.len() + 1];
            for (id, value) in values {
                bands[band.get(id).copied().unwrap_or(0)] += value;
            }
            let mut sum = 0.0;
            bands.iter_mut().for_each(|b| {
                sum += *b;
                *b = sum;
            });
            bands
        })
        .collect();
    Stack { edges }
}

#[allow(clippy::too_many_arguments)] // one picture, called twice
fn picture(
    drawn: &Drawn,
    unit: &str,
    stack: &Stack,
    most: f64,
    ticks: Vec<(f64, String)>,
    time: &Time,
    labels: &Labels,
    shown: &[SiteId],
) -> String {
    let x = Scale::linear((0.0, time.end as f64), (PLOT.0, PLOT.1));
    let y = Scale::linear((0.0, (most * 1.04).max(1e-9)), (PLOT.3, PLOT.2));
    let mut body = String::new();
    for (value, name) in ticks {
        let at = y.at(value);
        body += &format!(
            "<path class=\"grid\" d=\"M{} {at:.1}H{}\"/><text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>\n",
            PLOT.0,
            PLOT.1,
            PLOT.0 - 8.0,
            at + 4.0
        );
    }
    let (name, nanos) = time_unit(model::Nanos(time.end));
    for value in round_ticks(time.end as f64 / nanos, 8) {
        let at = x.at(value * nanos);
        // Floating-point steps such as 0.6000000000000001 are shown as what they are meant to be.
        body += &format!(
            "<text class=\"tick\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
            PLOT.3 + 18.0,
            (value * 1e6).round() / 1e6
        );
    }
    body += &format!(
        "<text class=\"name\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">time since the start of the run, {name}</text>\n",
        (PLOT.0 + PLOT.1) / 2.0,
        HEIGHT - 6.0
    );
    for band in (0..=shown.len()).rev() {
        let label = match band {
            0 => "all other sites".to_string(),
            n => labels[&shown[shown.len() - n]].clone(),
        };
        let colour = if band == 0 { "others".to_string() } else { format!("c{}", shown.len() - band) };
        if let Some(path) = outline(stack, band, x, y, time) {
            body += &format!("<path class=\"band {colour}\" d=\"{path}\"><title>{}</title></path>\n", text(&label));
        }
    }
    let mut unit = unit.to_string();
    if let Some(Line { name, values }) = &drawn.line {
        unit += &format!("; dashed: {name}");
        let steps =
            values.iter().zip(&time.starts).map(|(v, start)| format!("H{:.1}V{:.1}", x.at(*start as f64), y.at(*v)));
        let path = format!("M{:.1} {:.1}{}H{:.1}", PLOT.0, y.at(0.0), steps.collect::<String>(), x.at(time.end as f64));
        body += &format!("<path class=\"over\" d=\"{path}\"><title>{name}</title></path>\n");
    }
    body += &format!("<path class=\"axis\" d=\"M{} {}H{}\"/>\n", PLOT.0, PLOT.3, PLOT.1);
    let title = &drawn.title;
    format!(
        "<h3>{title}</h3>\n<p class=\"unit\">{unit}</p>\n<div class=\"wide\"><svg class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">\n{body}</svg></div>\n"
    )
}

/// A band as steps, out along its upper edge and back along its lower one; `None` if it is nowhere visible.
fn outline(stack: &Stack, band: usize, x: Scale, y: Scale, time: &Time) -> Option<String> {
    let upper = |n: usize| y.at(stack.edges[n][band]);
    let lower = |n: usize| if band == 0 { y.at(0.0) } else { y.at(stack.edges[n][band - 1]) };
    let count = stack.edges.len();
    if (0..count).all(|n| lower(n) - upper(n) < 0.05) {
        return None;
    }
    let start = |n: usize| x.at(time.starts[n] as f64);
    let mut path = format!("M{:.1} {:.1}", start(0), upper(0));
    for n in 1..count {
        path += &format!("H{:.1}V{:.1}", start(n), upper(n));
    }
    path += &format!("H{:.1}V{:.1}", x.at(time.end as f64), lower(count - 1));
    for n in (1..count).rev() {
        path += &format!("H{:.1}V{:.1}", start(n), lower(n - 1));
    }
    Some(path + &format!("H{:.1}Z", start(0)))
}

fn legend(shown: &[SiteId], others: usize, labels: &Labels) -> String {
    let mut out = String::from("<ul class=\"legend\">");
    for (n, id) in shown.iter().enumerate() {
        out += &format!(
            "<li><i class=\"c{n}\"></i><a href=\"#s{id}\">{}</a></li>",
            text(&shortened(&words::brief(&labels[id]), 64))
        );
    }
    if others > 0 {
        out += &format!("<li><i class=\"others\"></i>{}</li>", words::plural(others as u64, "other site"));
    }
    out + "</ul>\n"
}
