//! Colours and shapes that tell placements apart, on paper, on a dark screen and without colour vision.
//!
//! The colours are those of Okabe and Ito, "Color Universal Design" (2008), without the yellow, which is too pale for
//! a line on white, and with a grey and a wine red in its place. Shapes repeat with another period than colours, so
//! that no two of the first 72 series look alike.

use super::svg::{shortened, text};

/// For light and for dark paper.
const COLOURS: [(&str, &str); 8] = [
    ("#0072b2", "#3ba3e0"),
    ("#d55e00", "#f0803c"),
    ("#009e73", "#2cc498"),
    ("#c25591", "#e58fc0"),
    ("#e69f00", "#f0b429"),
    ("#56b4e9", "#9bd4f5"),
    ("#6b6f78", "#b4b8c0"),
    ("#882255", "#d6618f"),
];

/// Rules for the classes `p0` to `p7`, for light paper.
pub fn light() -> String {
    COLOURS.iter().enumerate().map(|(n, (light, _))| format!(".p{n} {{ color: {light}; }}\n")).collect()
}

/// The same for a page that follows the reader's choice, and is light when printed.
pub fn themed() -> String {
    let dark: String = COLOURS.iter().enumerate().map(|(n, (_, d))| format!(".p{n} {{ color: {d}; }}\n")).collect();
    format!("{}@media screen and (prefers-color-scheme: dark) {{\n{dark}}}\n", light())
}

/// Class of the n-th series.
pub fn class(n: usize) -> String {
    format!("p{}", n % COLOURS.len())
}

/// The mark of the n-th series, of about `r` pixels' radius.
fn shape(n: usize, x: f64, y: f64, r: f64) -> String {
    let polygon = |points: &[(f64, f64)]| {
        let points: Vec<String> =
            points.iter().map(|(dx, dy)| format!("{:.1} {:.1}", x + dx * r, y + dy * r)).collect();
        format!("<path d=\"M{}Z\"/>", points.join("L"))
    };
    // Corners at these radii in turn, the first at the top.
    let star = |radii: &[f64], corners: usize| {
        let at = |k: usize| {
            let (radius, angle) = (radii[k % radii.len()], std::f64::consts::TAU * k as f64 / corners as f64);
            (radius * angle.sin(), -radius * angle.cos())
        };
        polygon(&(0..corners).map(at).collect::<Vec<_>>())
    };
    let (arm, thick) = (1.2, 0.42);
    let plus = [
        (-thick, -arm),
        (thick, -arm),
        (thick, -thick),
        (arm, -thick),
        (arm, thick),
        (thick, thick),
        (thick, arm),
        (-thick, arm),
        (-thick, thick),
        (-arm, thick),
        (-arm, -thick),
        (-thick, -thick),
    ];
    match n % 9 {
        0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r:.1}\"/>"),
        1 => polygon(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
        2 => polygon(&[(0.0, -1.15), (1.15, 0.85), (-1.15, 0.85)]),
        3 => polygon(&[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)]),
        4 => polygon(&[(0.0, 1.15), (1.15, -0.85), (-1.15, -0.85)]),
        5 => polygon(&plus),
        6 => polygon(&plus.map(|(dx, dy)| ((dx - dy) * 0.78, (dx + dy) * 0.78))),
        7 => star(&[1.4, 0.6], 10),
        _ => star(&[1.15], 6),
    }
}

/// What a mark stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// The n-th series: a colour and a shape.
    Series(usize),
    /// Something beside the series: a grey bar.
    Bar,
}

/// A mark with its tooltip, if there is anything to say.
pub fn mark(kind: Kind, (x, y): (f64, f64), tip: &str) -> String {
    const R: f64 = 5.3;
    let (class, drawn) = match kind {
        Kind::Series(n) => (class(n), shape(n, x, y, R)),
        Kind::Bar => (
            "whole".to_string(),
            format!("<rect x=\"{:.1}\" y=\"{:.1}\" width=\"4\" height=\"13\"/>", x - 2.0, y - 6.5),
        ),
    };
    let tip: Vec<String> = tip.lines().map(text).collect();
    let title = if tip.is_empty() { String::new() } else { format!("<title>{}</title>", tip.join("\n")) };
    format!("<g class=\"mark {class}\">{title}{drawn}</g>\n")
}

/// About the width of a text of 12 pixels' height, whichever sans-serif font the reader has.
fn width(text: &str) -> f64 {
    let wide = |c: char| match c {
        'm' | 'w' | 'M' | 'W' => 11.0,
        'f' | 'i' | 'j' | 'l' | 'r' | 't' | '-' | '.' | ' ' => 4.7,
        c if c.is_uppercase() => 8.6,
        _ => 7.2,
    };
    text.chars().map(wide).sum()
}

/// Entries in rows between `left` and `right`, the first at `top`, and the height that they take.
pub fn legend(entries: &[(Kind, &str)], (left, right): (f64, f64), top: f64) -> (String, f64) {
    const ROW: f64 = 20.0;
    let (mut x, mut y, mut out) = (left, top, String::new());
    for (kind, name) in entries {
        let name = shortened(name, 40);
        let wide = width(&name) + 40.0;
        if x > left && x + wide > right {
            (x, y) = (left, y + ROW);
        }
        out += &format!(
            "{}<text class=\"site\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
            mark(*kind, (x + 7.0, y + 8.0), ""),
            x + 18.0,
            y + 12.0,
            text(&name)
        );
        x += wide;
    }
    (out, y + ROW - top)
}

/// A picture on its own, on white, for pages that cannot style it: `body` is `width` by `height` pixels, under a title
/// and a line about it.
pub fn standalone(title: &str, about: &str, body: &str, width: f64, height: f64) -> String {
    const HEAD: f64 = 58.0;
    let style = include_str!("standalone.css");
    let whole = height + HEAD;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{whole:.0}\" viewBox=\"0 -{HEAD:.0} {width:.0} {whole:.0}\" font-family=\"sans-serif\" font-size=\"12\" role=\"img\" aria-label=\"{title}\">\n<style>\n{style}{}</style>\n<rect y=\"-{HEAD:.0}\" width=\"{width:.0}\" height=\"{whole:.0}\" fill=\"#fff\"/>\n<text class=\"title\" x=\"16\" y=\"-33\">{title}</text>\n<text class=\"name\" x=\"16\" y=\"-13\">{}</text>\n{body}</svg>\n",
        light(),
        text(&shortened(about, 140)),
        title = text(&shortened(title, 90)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_of_the_first_series_look_alike() {
        let looks: std::collections::HashSet<_> = (0..72).map(|n| (class(n), shape(n, 0.0, 0.0, 5.0))).collect();
        assert_eq!(looks.len(), 72);
    }

    #[test]
    fn legends_wrap_within_their_width() {
        let entry = |name| (Kind::Series(0), name);
        let (_, one) = legend(&[entry("a"), entry("b")], (0.0, 200.0), 0.0);
        let (_, two) = legend(&[entry("a long name indeed"), entry("another long name")], (0.0, 200.0), 0.0);
        assert_eq!((one, two), (20.0, 40.0));
    }
}
