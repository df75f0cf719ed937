//! How figures and facts about a profile are put into words, the same in the terminal and on the page.

use model::{Bytes, Chunk, Observed, Pattern, SiteUse};
use std::time::{Duration, UNIX_EPOCH};

/// A large number in three digits: `987`, `1.23k`, `45.6M`.
pub fn count(x: f64) -> String {
    let mut scaled = x;
    for unit in ["", "k", "M", "G", "T"] {
        if scaled < 999.5 {
            let digits = match scaled {
                _ if unit.is_empty() => 0,
                s if s < 9.995 => 2,
                s if s < 99.95 => 1,
                _ => 0,
            };
            return format!("{scaled:.digits$}{unit}");
        }
        scaled /= 1000.0;
    }
    format!("{x:.1e}")
}

/// A round number without the zeros that [`count`] gives it: `5M`.
pub fn round_count(x: f64) -> String {
    let text = count(x);
    match text.split_once('.') {
        Some((whole, rest)) => {
            let digits = rest.trim_end_matches(char::is_alphabetic);
            let unit = &rest[digits.len()..];
            match digits.trim_end_matches('0') {
                "" => format!("{whole}{unit}"),
                kept => format!("{whole}.{kept}{unit}"),
            }
        }
        None => text,
    }
}

/// A bar for a terminal: this share (0 to 1) of `longest` columns, to an eighth of one.
pub fn bar(share: f64, longest: usize) -> String {
    const LAST: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share * (8 * longest) as f64).round() as usize;
    "█".repeat(eighths / 8) + LAST[eighths % 8]
}

/// The chunks of one size class: "16 chunks of 8 MiB, in objects of 128 MiB to 256 MiB".
pub fn chunks(chunks: &[Chunk]) -> String {
    let Some(first) = chunks.first() else { return String::new() };
    let (least, most) = (first.class, Bytes(first.class.0.saturating_mul(2)));
    format!("{} of {}, in objects of {least} to {most}", plural(chunks.len() as u64, "chunk"), first.size)
}

/// A label for where room is scarce: functions without arguments and outer namespaces.
/// `LAMMPS_NS::NeighList::grow(int, int) (neigh_list.cpp:174)` becomes `NeighList::grow (neigh_list.cpp:174)`.
pub fn brief(label: &str) -> String {
    let one = |part: &str| {
        let (part, offset) = part.rfind(", at ").map_or((part, ""), |at| part.split_at(at));
        let (name, place) = match (part.rfind(" ("), part.rfind(" [")) {
            (Some(at), _) if part.ends_with(')') => part.split_at(at),
            (_, Some(at)) if part.ends_with(']') => part.split_at(at),
            _ => (part, ""),
        };
        // Templates and operators do not shorten by rule; they stay as they are.
        if name.contains('<') || name.contains("operator") {
            return format!("{part}{offset}");
        }
        let name = name.split('(').next().unwrap_or(name);
        let segments: Vec<&str> = name.split("::").collect();
        format!("{}{place}{offset}", segments[segments.len().saturating_sub(2)..].join("::"))
    };
    label.split(", from ").map(one).collect::<Vec<_>>().join(", from ")
}

/// A share as a percentage: `41.2%`, `<0.1%`.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p <= 0.0 => "0%".to_string(),
        p if p < 0.1 => "<0.1%".to_string(),
        p if p >= 99.95 => "100%".to_string(),
        p => format!("{p:.1}%"),
    }
}

/// A latency: `85 ns`, `1.2 us`.
pub fn latency(ns: f64) -> String {
    if ns < 9999.5 { format!("{ns:.0} ns") } else { format!("{:.1} us", ns / 1e3) }
}

/// `part / whole`, or 0 of nothing.
pub fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// `stream 8 B`, `random`, `mixed`, or `-`.
pub fn pattern(pattern: Pattern) -> String {
    match pattern {
        Pattern::Unknown => "-".to_string(),
        Pattern::Stream { stride } if stride < 0 => format!("stream -{}", Bytes(stride.unsigned_abs())),
        Pattern::Stream { stride } => format!("stream {}", Bytes(stride.unsigned_abs())),
        Pattern::Random => "random".to_string(),
        Pattern::Mixed => "mixed".to_string(),
    }
}

/// `1 site`, `3 sites`, `3 processes`.
pub fn plural(n: u64, one: &str) -> String {
    match n {
        1 => format!("1 {one}"),
        n if one.ends_with('s') => format!("{n} {one}es"),
        n => format!("{n} {one}s"),
    }
}

/// The command as a shell would take it, quoted where a reader would stumble.
pub fn command(command: &[String]) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%^".contains(c);
    let word = |a: &String| match a.as_str() {
        a if !a.is_empty() && a.chars().all(plain) => a.to_string(),
        a => format!("'{}'", a.replace('\'', r"'\''")),
    };
    command.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Without control characters: names come from the program, and must not steer the terminal.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// What was run and observed, one sentence each.
pub fn header(observed: &Observed) -> Vec<String> {
    let started = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(observed.started));
    let mut said = vec![format!(
        "{} after {}; {}, started {started}",
        observed.outcome,
        observed.duration,
        plural(observed.processes, "process"),
    )];
    said.push(format!(
        "{} with allocations of {} or more; at most {} alive at one moment",
        plural(observed.sites.len() as u64, "site"),
        observed.threshold,
        observed.peak(),
    ));
    if let Some(m) = &observed.fullest {
        let (anonymous, huge) = (m.anonymous, m.huge);
        said.push(format!(
            "at most {anonymous} of anonymous memory resident (after {}), {huge} of it on huge pages",
            m.at
        ));
    }
    let samples: u64 = observed.sites.iter().map(|s| s.samples).sum();
    if samples == 0 {
        said.push(format!("no access samples (sampler: {}), so nothing is known about heat", observed.sampler));
    } else {
        said.push(format!(
            "~ marks estimates of the {} sampler from {}{}",
            observed.sampler,
            plural(samples, "sample"),
            match observed.sampler_error.trim_end_matches('.') {
                "" => String::new(),
                error => format!(": {error}"),
            }
        ));
        let places: Vec<String> =
            observed.elsewhere.iter().map(|(place, share)| format!("{place} {}", percent(*share))).collect();
        let places = if places.is_empty() { String::new() } else { format!(" ({})", places.join(", ")) };
        said.push(if observed.sampler == "page-fault" && observed.unattributed == 0.0 {
            "only recorded objects are watched by this sampler: not stacks, files, and what is smaller".to_string()
        } else {
            format!("{} of the samples hit no recorded object{places}", percent(observed.unattributed))
        });
        said.extend(concentration(observed));
    }
    said
}

/// "~90% of the misses fall on 3 of 35 sites with 112 MiB at their peaks": how much a small fast tier can win.
pub fn concentration(observed: &Observed) -> Option<String> {
    let total = observed.total_misses();
    let mut hottest: Vec<&SiteUse> = observed.sites.iter().collect();
    hottest.sort_by(|a, b| b.misses().total_cmp(&a.misses()));
    let (mut misses, mut bytes) = (0.0, Bytes(0));
    for (n, site) in hottest.iter().enumerate() {
        misses += site.misses();
        bytes += site.peak;
        if total > 0.0 && misses >= 0.9 * total {
            let sites = observed.sites.len();
            return Some(format!(
                "~{} of the misses fall on {} of {sites} sites, {bytes} at their peaks",
                percent(misses / total),
                n + 1
            ));
        }
    }
    None
}

/// Everything that was lost, one sentence each.
pub fn losses(observed: &Observed) -> Vec<String> {
    let sentence = |l: &model::observed::Loss| format!("lost ({}, {}): {}", l.kind, l.count, l.note);
    observed.losses.iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_true() {
        let counts = [0.0, 0.4, 7.0, 999.4, 999.6, 1234.0, 45_600.0, 999_499.0, 999_500.0, 1.2e9, 3e15];
        let said: Vec<String> = counts.into_iter().map(count).collect();
        assert_eq!(said, ["0", "0", "7", "999", "1.00k", "1.23k", "45.6k", "999k", "1.00M", "1.20G", "3.0e15"]);
        let said: Vec<String> = [0.0, 0.0004, 0.0312, 0.9996, 1.0].into_iter().map(percent).collect();
        assert_eq!(said, ["0%", "<0.1%", "3.1%", "100%", "100%"]);
        let said: Vec<String> = [0.0, 5e6, 2.5e6, 1e7, 250.0].into_iter().map(round_count).collect();
        assert_eq!(said, ["0", "5M", "2.5M", "10M", "250"]);
        assert_eq!(pattern(Pattern::Stream { stride: -8 }), "stream -8 B");
        assert_eq!((plural(1, "process"), plural(2, "process")), ("1 process".into(), "2 processes".into()));
    }

    #[test]
    fn brief_labels_keep_what_tells_sites_apart() {
        for (label, brief_label) in [
            ("LAMMPS_NS::NeighList::grow(int, int) (neigh_list.cpp:174)", "NeighList::grow (neigh_list.cpp:174)"),
            ("grow (a.c:1), from ns::b::setup(int) (b.c:2)", "grow (a.c:1), from b::setup (b.c:2)"),
            ("a::b::c(int)", "b::c"),
            ("a::b::c(int) [lib.so+0x12]", "b::c [lib.so+0x12]"),
            ("n::a::f(int) (a.c:1), at lib.so+0x12", "a::f (a.c:1), at lib.so+0x12"),
            ("MyPage<int>::allocate() (my_page.cpp:1)", "MyPage<int>::allocate() (my_page.cpp:1)"),
            ("app+0x12", "app+0x12"),
        ] {
            assert_eq!(brief(label), brief_label);
        }
    }
}
