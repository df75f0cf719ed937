//! A site's large objects as strips: from their start to their end, the darker the hotter.

use super::svg::text;
use crate::words;
use model::{Chunk, SiteUse};

/// A strip for each size class of the site's large objects; nothing if it has none.
pub fn strips(site: &SiteUse) -> String {
    let hottest = site.chunks.iter().map(Chunk::misses).fold(0.0, f64::max);
    let mut out = String::new();
    for class in site.chunks.chunk_by(|a, b| a.class == b.class) {
        let what = format!("~Heat by place: {}", words::chunks(class));
        out += &format!("<p>{}</p>", text(&what));
        // One unit wide each; stretched to the strip's width.
        out += &format!(
            "<svg class=\"strip\" viewBox=\"0 0 {} 1\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">",
            class.len(),
            text(&what)
        );
        for (n, chunk) in class.iter().enumerate() {
            let resident = chunk.resident.map_or(String::new(), |r| format!(", {r} resident"));
            let share = words::percent(words::share(chunk.misses(), site.misses()));
            let said = format!(
                "at {}: ~{share} of the misses; {} alive{resident}, {}",
                chunk.offset,
                chunk.peak,
                words::plural(chunk.samples, "sample")
            );
            let heat = words::share(chunk.misses(), hottest);
            out += &format!(
                "<rect class=\"stripe\" x=\"{n}\" width=\"1\" height=\"1\"/>\
                 <rect class=\"chunk\" x=\"{n}\" width=\"1\" height=\"1\" fill-opacity=\"{heat:.3}\"><title>{}</title></rect>",
                text(&said)
            );
        }
        out += "</svg>";
    }
    out
}
