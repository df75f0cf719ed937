//! Size against heat: every site as one mark, both axes logarithmic, with lines of equal density.
//!
//! The further up and to the left, the more a byte of fast memory wins: the density policy takes sites in the order in
//! which the dashed lines sweep over them.

use super::Labels;
use super::svg::{Scale, shortened, text};
use crate::table::hottest_first;
use crate::words;
use model::units::significant;
use model::{Bytes, Observed, Pattern, SiteUse};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 500.0;
/// The plot, in pixels: left, right, top, bottom.
const PLOT: (f64, f64, f64, f64) = (70.0, 924.0, 16.0, 410.0);
/// Where sites without a seen miss are drawn, below the axis of the others.
const UNSEEN: f64 = 434.0;
/// How many of the hottest sites are named in the picture.
const NAMED: usize = 6;

/// A place that a text or mark covers: left, right, top, bottom.
type Box = (f64, f64, f64, f64);

/// The figure with its caption.
pub fn figure(observed: &Observed, labels: &Labels) -> String {
    let sites = hottest_first(observed);
    if observed.total_misses() == 0.0 {
        let sampler = &observed.sampler;
        let why = match observed.sites.iter().map(|s| s.samples).sum::<u64>() {
            0 => format!("No access sample fell on a site (sampler: {sampler}), so nothing is known about heat."),
            n => format!("The {} of the {sampler} sampler tell of no cache misses.", words::plural(n, "sample")),
        };
        return format!("<section>\n<h2>Size against heat</h2>\n<p>{}</p>\n</section>\n", text(&why));
    }
    let (x, sizes) = size_scale(&sites);
    let (y, heats) = heat_scale(&sites);
    let mut body = String::new();

    for size in sizes {
        let at = x.at(size.0 as f64);
        body += &format!(
            "<path class=\"grid\" d=\"M{at:.1} {}V{}\"/><text class=\"tick\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{size}</text>\n",
            PLOT.2,
            PLOT.3 + 36.0,
            PLOT.3 + 54.0
        );
    }
    for heat in heats {
        let at = y.at(heat);
        body += &format!(
            "<path class=\"grid\" d=\"M{} {at:.1}H{}\"/><text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
            PLOT.0,
            PLOT.1,
            PLOT.0 - 8.0,
            at + 4.0,
            power_of_ten(heat)
        );
    }
    body += &format!(
        "<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"end\">none seen</text>\n",
        PLOT.0 - 8.0,
        UNSEEN + 4.0
    );
    body += &format!("<path class=\"axis\" d=\"M{} {}H{}\"/>\n", PLOT.0, PLOT.3, PLOT.1);
    body += &format!(
        "<text class=\"name\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">peak size (bytes alive at one moment)</text>\n",
        (PLOT.0 + PLOT.1) / 2.0,
        HEIGHT - 12.0
    );
    body += &format!(
        "<text class=\"name\" transform=\"translate(14 {}) rotate(-90)\" text-anchor=\"middle\">~cache misses (loads and stores)</text>\n",
        (PLOT.2 + PLOT.3) / 2.0
    );
    let marks = sites.iter().take(200).map(|s| position(s, x, y));
    let mut taken: Vec<Box> = marks.map(|(px, py)| (px - 6.0, px + 6.0, py - 6.0, py + 6.0)).collect();
    let names = names(&sites, x, y, labels, &mut taken);
    body += &density_lines(x, y, &taken);

    // The hottest last, on top of the others; thousands of marks are smaller.
    let r = if sites.len() > 400 { 3.2 } else { 5.5 };
    let total = observed.total_misses();
    for site in sites.iter().rev() {
        body += &mark(site, position(site, x, y), r, &labels[&site.site.id], total);
    }
    body += &names;

    format!(
        "<section>\n<h2>Size against heat</h2>\n<p>Each mark is an allocation site. Up and left is worth the most: many misses on few bytes. Dashed lines join sites of equal density.</p>\n{}<div class=\"wide\"><svg class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Misses of each site over its peak size\">\n{body}</svg></div>\n</section>\n",
        legend(&sites)
    )
}

fn position(site: &SiteUse, x: Scale, y: Scale) -> (f64, f64) {
    let heat = site.misses();
    (x.at(site.peak.0.max(1) as f64), if heat > 0.0 { y.at(heat) } else { UNSEEN })
}

/// Sizes along the x axis, with ticks at powers of 16, 4 or 2, however far the sizes spread.
fn size_scale(sites: &[&SiteUse]) -> (Scale, Vec<Bytes>) {
    let sizes = || sites.iter().map(|s| s.peak.0.max(1));
    let low = sizes().min().unwrap_or(1).ilog2();
    let high = sizes().max().unwrap_or(1).ilog2() + 1;
    let step = if high - low > 14 { 4 } else { 2 };
    let (low, high) = (low.saturating_sub(1), (high + 1).min(63));
    let ticks = (low..=high).filter(|p| p % step == 0).map(|p| Bytes(1 << p)).collect();
    (Scale::log((2f64.powi(low as i32), 2f64.powi(high as i32)), (PLOT.0, PLOT.1)), ticks)
}

/// Misses along the y axis, with ticks at powers of ten and some room above the hottest.
fn heat_scale(sites: &[&SiteUse]) -> (Scale, Vec<f64>) {
    let heats = || sites.iter().map(|s| s.misses()).filter(|m| *m > 0.0);
    let low = heats().fold(f64::INFINITY, f64::min).log10().floor();
    let high = (heats().fold(0.0, f64::max).log10() + 0.3).max(low + 1.0);
    let ticks = (low as i32..=high.floor() as i32).map(|p| 10f64.powi(p)).collect();
    (Scale::log((10f64.powf(low), 10f64.powf(high)), (PLOT.3, PLOT.2)), ticks)
}

/// `0.01`, `1`, `10⁶`, as SVG.
fn power_of_ten(x: f64) -> String {
    match x.log10().round() as i32 {
        p @ -3..=1 => 10f64.powi(p).to_string(),
        p => format!("10<tspan dy=\"-5\" font-size=\"9\">{p}</tspan><tspan dy=\"5\">&#8203;</tspan>"),
    }
}

/// Lines of equal misses per byte, a factor of ten apart, named at their upper end.
fn density_lines(x: Scale, y: Scale, taken: &[Box]) -> String {
    let mut lines = String::new();
    for power in -9..=6 {
        let density = 10f64.powi(power);
        // Straight in a doubly logarithmic plot: from where it enters to where it leaves.
        let point = |bytes: f64| (x.at(bytes), y.at(bytes * density));
        let (a, b) = (point(1.0), point(2f64.powi(50)));
        let along = |t: f64| (a.0 + (b.0 - a.0) * t, a.1 + (b.1 - a.1) * t);
        let at_x = |px: f64| (px - a.0) / (b.0 - a.0);
        let at_y = |py: f64| (py - a.1) / (b.1 - a.1);
        let (start, end) = (at_x(PLOT.0).max(at_y(PLOT.3)), at_x(PLOT.1).min(at_y(PLOT.2)));
        if start >= end {
            continue;
        }
        let (p, q) = (along(start), along(end));
        lines += &format!("<path class=\"density\" d=\"M{:.1} {:.1}L{:.1} {:.1}\"/>", p.0, p.1, q.0, q.1);
        // No room for a name on a short corner piece, nor on top of a site's.
        let (nx, ny) = if q.1 <= PLOT.2 + 1.0 { (q.0 - 6.0, q.1 + 12.0) } else { (q.0 - 6.0, q.1 - 4.0) };
        let spot = (nx - 62.0, nx, ny - 10.0, ny + 3.0);
        if q.0 - p.0 > 60.0 && q.1 < PLOT.3 - 40.0 && is_free(spot, taken) {
            lines += &format!(
                "<text class=\"density\" x=\"{nx:.1}\" y=\"{ny:.1}\" text-anchor=\"end\">{}/byte</text>",
                power_of_ten(density)
            );
        }
        lines.push('\n');
    }
    lines
}

/// Class of a pattern, and its words in the legend.
fn kind(pattern: Pattern) -> (&'static str, &'static str) {
    match pattern {
        Pattern::Stream { .. } => ("stream", "stream: walked in order"),
        Pattern::Random => ("random", "random: single lines far apart"),
        Pattern::Mixed => ("mixed", "mixed"),
        Pattern::Unknown => ("unknown", "not known"),
    }
}

/// A mark of about `r` pixels' radius whose shape says the pattern as well as its colour does.
fn shape(class: &str, x: f64, y: f64, r: f64) -> String {
    match class {
        "stream" => {
            format!(
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{w:.1}\" height=\"{w:.1}\"/>",
                x - r * 0.9,
                y - r * 0.9,
                w = r * 1.8
            )
        }
        "random" => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r:.1}\"/>"),
        "mixed" => {
            let d = r * 1.2;
            format!("<path d=\"M{x:.1} {:.1}l{d:.1} {d:.1}l-{d:.1} {d:.1}l-{d:.1} -{d:.1}z\"/>", y - d)
        }
        _ => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{:.1}\"/>", r * 0.65),
    }
}

fn mark(site: &SiteUse, (x, y): (f64, f64), r: f64, label: &str, total: f64) -> String {
    let (class, _) = kind(site.pattern);
    let tip = format!(
        "{label}\n{} of misses: {} by loads, {} by stores\n{} a byte, {}\npeak {}, {}",
        words::percent(words::share(site.misses(), total)),
        words::count(site.load_misses),
        words::count(site.store_misses),
        significant(site.misses_per_byte()),
        words::pattern(site.pattern),
        site.peak,
        words::plural(site.objects, "object"),
    );
    let tip: Vec<String> = tip.lines().map(text).collect();
    format!(
        "<a class=\"mark {class}\" href=\"#s{}\"><title>{}</title>{}</a>\n",
        site.site.id,
        tip.join("\n"),
        shape(class, x, y, r)
    )
}

fn is_free(spot: Box, taken: &[Box]) -> bool {
    taken.iter().all(|t| spot.1 < t.0 || spot.0 > t.1 || spot.3 < t.2 || spot.2 > t.3)
}

/// Names of the hottest sites, each where it covers no mark and no name already there; left out where there is none.
fn names(sites: &[&SiteUse], x: Scale, y: Scale, labels: &Labels, taken: &mut Vec<Box>) -> String {
    let mut out = String::new();
    for site in sites.iter().filter(|s| s.misses() > 0.0).take(NAMED) {
        let name = shortened(&words::brief(&labels[&site.site.id]), 48);
        let (px, py) = position(site, x, y);
        // About 6.1 pixels a character at this size.
        let width = name.chars().count() as f64 * 6.1;
        let places = [
            ("start", px + 10.0, py + 4.0),
            ("end", px - 10.0, py + 4.0),
            ("start", px + 6.0, py - 10.0),
            ("end", px - 6.0, py - 10.0),
            ("start", px + 6.0, py + 18.0),
            ("end", px - 6.0, py + 18.0),
        ];
        let free = places.into_iter().find_map(|(anchor, nx, ny)| {
            let (left, right) = if anchor == "start" { (nx, nx + width) } else { (nx - width, nx) };
            let spot = (left, right, ny - 10.0, ny + 3.0);
            let inside = left > PLOT.0 && right < PLOT.1 + 10.0 && spot.2 > PLOT.2 - 8.0 && spot.3 < PLOT.3;
            (inside && is_free(spot, taken)).then_some((anchor, nx, ny, spot))
        });
        if let Some((anchor, nx, ny, spot)) = free {
            taken.push(spot);
            out += &format!(
                "<text class=\"site\" x=\"{nx:.1}\" y=\"{ny:.1}\" text-anchor=\"{anchor}\">{}</text>\n",
                text(&name)
            );
        }
    }
    out
}

/// The patterns that occur, with how many sites have them.
fn legend(sites: &[&SiteUse]) -> String {
    let mut out = String::from("<ul class=\"legend\">");
    for class in ["stream", "random", "mixed", "unknown"] {
        let with = || sites.iter().filter(|s| kind(s.pattern).0 == class);
        if let Some(first) = with().next() {
            out += &format!(
                "<li><svg width=\"16\" height=\"16\" class=\"mark {class}\" aria-hidden=\"true\">{}</svg>{} ({})</li>",
                shape(class, 8.0, 8.0, 5.5),
                kind(first.pattern).1,
                with().count()
            );
        }
    }
    out + "</ul>\n"
}
