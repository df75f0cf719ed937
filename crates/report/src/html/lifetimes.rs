//! When objects live, and the bandwidth that their misses take: the figures 4 and 5 of paper 000, by site.
//!
//! A bar is an object, from its allocation to its free. Objects of a site that live at the same time lie below each
//! other; of many, those with the most bytes times seconds are shown, and the others are counted.

use super::Labels;
use super::svg::{Scale, round_ticks, shortened, text, time_unit};
use crate::words;
use model::{Life, Nanos, Observed, SiteUse};
use std::collections::HashSet;

const WIDTH: f64 = 960.0;
/// Bars of objects, in pixels: left and right.
const BARS: (f64, f64) = (300.0, 730.0);
/// Bars of bandwidth, with room for the figure behind.
const BANDWIDTH: (f64, f64) = (760.0, 870.0);
const TOP: f64 = 30.0;
/// Of one bar, and of the gap below.
const LANE: f64 = 5.0;
const LANES: usize = 5;
const SITES: usize = 16;
/// Bytes that a miss brings.
const LINE: f64 = 64.0;

/// The figure; nothing where no object is known.
pub fn figure(observed: &Observed, labels: &Labels) -> String {
    let sites = shown(observed);
    if sites.is_empty() {
        return String::new();
    }
    let end = sites.iter().flat_map(|s| &s.lives).map(|l| l.to.0).max().unwrap_or(1).max(observed.duration.0).max(1);
    let x = Scale::linear((0.0, end as f64), BARS);
    let fastest = sites.iter().map(|s| bandwidth(s)).fold(0.0, f64::max);
    let mut rows = String::new();
    let mut y = TOP;
    for (n, site) in sites.iter().enumerate() {
        let lanes = lanes(&site.lives);
        let height = (lanes.len() as f64 * LANE).max(13.0) + 9.0;
        if n % 2 == 1 {
            rows += &format!(
                "<rect class=\"stripe\" x=\"0\" y=\"{:.1}\" width=\"{WIDTH}\" height=\"{height:.1}\"/>\n",
                y - 4.5
            );
        }
        let label = &labels[&site.site.id];
        rows += &format!(
            "<a href=\"#s{}\"><text class=\"site\" x=\"4\" y=\"{:.1}\"><title>{}</title>{}</text></a>\n",
            site.site.id,
            y + 8.0,
            text(label),
            text(&shortened(&words::brief(label), 44))
        );
        for (lane, lives) in lanes.iter().enumerate() {
            for life in lives {
                rows += &bar(life, x, y + lane as f64 * LANE);
            }
        }
        if site.misses() > 0.0 {
            let rate = bandwidth(site);
            let width = (BANDWIDTH.1 - BANDWIDTH.0) * rate / fastest.max(f64::MIN_POSITIVE);
            rows += &format!(
                "<rect class=\"rate\" x=\"{}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"10\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
                BANDWIDTH.0,
                BANDWIDTH.0 + width + 5.0,
                y + 9.0,
                per_second(rate)
            );
        }
        y += height;
    }
    let (unit, nanos) = time_unit(Nanos(end));
    let mut axis = format!(
        "<text class=\"name\" x=\"{}\" y=\"14\">time of objects, {unit}</text><text class=\"name\" x=\"{}\" y=\"14\">~misses x 64 B / lifetime</text>\n",
        BARS.0, BANDWIDTH.0
    );
    for value in round_ticks(end as f64 / nanos, 6) {
        let at = x.at(value * nanos);
        axis += &format!(
            "<path class=\"grid\" d=\"M{at:.1} {:.1}V{y:.1}\"/><text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
            TOP - 8.0,
            y + 14.0,
            (value * 1e6).round() / 1e6
        );
    }
    let counted: u64 = sites.iter().map(|s| s.objects).sum();
    let drawn: usize = sites.iter().map(|s| lanes(&s.lives).iter().map(Vec::len).sum::<usize>()).sum();
    let missing = match counted.saturating_sub(drawn as u64) {
        0 => String::new(),
        n => format!(
            " Of {}, the {drawn} with the most bytes times seconds are drawn; {n} are not.",
            words::plural(counted, "object")
        ),
    };
    let height = y + 20.0;
    format!(
        "<section>\n<h2>When objects live</h2>\n<p>A bar is an object from its allocation to its free, by site, the first allocation on top. On the right, the memory bandwidth that an average object of the site takes while it lives.{}</p>\n<div class=\"wide\"><svg class=\"plot\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"Lifetimes of objects by site\">\n{rows}{axis}</svg></div>\n</section>\n",
        text(&missing)
    )
}

/// The hottest and the largest sites by turns, those that begin first on top.
fn shown(observed: &Observed) -> Vec<&SiteUse> {
    let mut by_heat: Vec<&SiteUse> = observed.sites.iter().filter(|s| !s.lives.is_empty()).collect();
    let mut by_size = by_heat.clone();
    by_heat.sort_by(|a, b| b.misses().total_cmp(&a.misses()));
    by_size.sort_by_key(|s| std::cmp::Reverse(s.peak));
    let mut seen = HashSet::new();
    let turns = by_heat.into_iter().zip(by_size).flat_map(|(hot, large)| [hot, large]);
    let mut sites: Vec<&SiteUse> = turns.filter(|s| seen.insert(s.site.id)).take(SITES).collect();
    sites.sort_by_key(|s| (s.first_alloc, s.site.id));
    sites
}

/// Bytes a second that an object of the site takes on average while it lives (paper 000, section VII).
fn bandwidth(site: &SiteUse) -> f64 {
    site.misses() * LINE / site.total_lifetime.secs().max(1e-9)
}

fn per_second(bytes: f64) -> String {
    match bytes {
        b if b >= 1e9 => format!("{:.1} GB/s", b / 1e9),
        b if b >= 1e6 => format!("{:.0} MB/s", b / 1e6),
        b if b >= 1e3 => format!("{:.0} kB/s", b / 1e3),
        b => format!("{b:.0} B/s"),
    }
}

/// Lives that do not overlap share a lane; what finds none is left out.
fn lanes(lives: &[Life]) -> Vec<Vec<Life>> {
    let mut lanes: Vec<Vec<Life>> = Vec::new();
    for life in lives {
        match lanes.iter().position(|lane| lane.last().is_none_or(|last| last.to <= life.from)) {
            Some(n) => lanes[n].push(*life),
            None if lanes.len() < LANES => lanes.push(vec![*life]),
            None => {}
        }
    }
    lanes
}

fn bar(life: &Life, x: Scale, y: f64) -> String {
    let (from, to) = (x.at(life.from.0 as f64), x.at(life.to.0 as f64));
    format!(
        "<rect class=\"life\" x=\"{from:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{}\"><title>{}</title></rect>\n",
        // A short life is still to be seen.
        (to - from).max(1.2),
        LANE - 1.2,
        text(&format!("{} from {} to {}", life.size, life.from, life.to))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Bytes;

    #[test]
    fn lives_that_overlap_lie_below_each_other_and_no_more_than_there_is_room_for() {
        let life = |from, to| Life { from: Nanos(from), to: Nanos(to), size: Bytes(1) };
        let found = lanes(&[life(0, 10), life(5, 20), life(10, 30), life(40, 50)]);
        assert_eq!(found, [vec![life(0, 10), life(10, 30), life(40, 50)], vec![life(5, 20)]]);
        let many: Vec<Life> = (0..20).map(|n| life(n, 100)).collect();
        assert_eq!(lanes(&many).len(), LANES);
    }

    #[test]
    fn rates_are_told_in_their_unit() {
        assert_eq!([2.5e9, 206e6, 4e3, 7.0].map(per_second), ["2.5 GB/s", "206 MB/s", "4 kB/s", "7 B/s"]);
    }
}
