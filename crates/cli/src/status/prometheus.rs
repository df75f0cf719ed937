//! A status in the text format that Prometheus reads (prometheus.io, exposition formats, version 0.0.4).

use ::live::status::Status;
use std::fmt::Write;

/// Its metrics.
pub fn text(status: &Status) -> String {
    let mut out = Text::default();
    let gauge = "gauge";
    out.family("hearth_tier_used_bytes", gauge, "Bytes of objects in a tier of memory");
    status.tiers.iter().for_each(|t| out.sample(&[("tier", &t.name)], t.used.0 as f64));
    out.family("hearth_tier_limit_bytes", gauge, "Bytes that objects may take of a tier");
    let limited = status.tiers.iter().filter(|t| t.limit.0 != u64::MAX);
    limited.for_each(|t| out.sample(&[("tier", &t.name)], t.limit.0 as f64));
    out.family(
        "hearth_tier_read_bytes_per_second",
        gauge,
        "Bytes that objects read from a tier, as sampled in the last interval",
    );
    status.tiers.iter().for_each(|t| out.sample(&[("tier", &t.name)], t.read_per_second.0 as f64));
    out.family(
        "hearth_tier_written_bytes_per_second",
        gauge,
        "Bytes written back to a tier, as sampled in the last interval",
    );
    status.tiers.iter().for_each(|t| out.sample(&[("tier", &t.name)], t.written_per_second.0 as f64));
    out.family("hearth_moved_bytes_total", "counter", "Bytes moved to faster (up) and to slower (down) memory");
    out.sample(&[("direction", "up")], status.promoted.0 as f64);
    out.sample(&[("direction", "down")], status.demoted.0 as f64);
    out.family(
        "hearth_moved_beside_bytes_total",
        "counter",
        "Of these, bytes that were hardly used in the phase in which they moved",
    );
    out.sample(&[], status.beside.0 as f64);
    out.family("hearth_decisions_total", "counter", "Intervals after which something was to be moved");
    out.sample(&[], f64::from(status.decisions));
    out.family("hearth_intervals_total", "counter", "Intervals that have passed");
    out.sample(&[], f64::from(status.intervals));
    out.family("hearth_program_resident_bytes", gauge, "Bytes of a process's objects in a tier");
    for p in &status.programs {
        let (pid, uid) = (p.pid.to_string(), p.uid.to_string());
        for (tier, bytes) in status.tiers.iter().zip(&p.resident) {
            out.sample(&[("pid", &pid), ("uid", &uid), ("exe", &p.exe), ("tier", &tier.name)], bytes.0 as f64);
        }
    }
    out.family(
        "hearth_program_misses_per_second",
        gauge,
        "Cache misses that fall on a process's objects, as expected from what was seen",
    );
    for p in &status.programs {
        out.sample(&[("pid", &p.pid.to_string()), ("uid", &p.uid.to_string()), ("exe", &p.exe)], p.misses_per_second);
    }
    out.family("hearth_share_bytes", gauge, "Bytes of the fastest tier that a group of programs can count on");
    status.shares.iter().for_each(|s| out.sample(&[("group", &s.group)], s.part.0 as f64));
    out.family("hearth_share_used_bytes", gauge, "Bytes of the fastest tier that a group of programs has");
    status.shares.iter().for_each(|s| out.sample(&[("group", &s.group)], s.used.0 as f64));
    out.text
}

#[derive(Default)]
struct Text {
    text: String,
    family: &'static str,
}

impl Text {
    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.family = name;
        self.text += &format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<String> = labels.iter().map(|(name, text)| format!("{name}=\"{}\"", escaped(text))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        // Writing into a string does not fail.
        let _ = writeln!(self.text, "{}{labels} {value}", self.family);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_call_themselves_cannot_end_a_label() {
        let mut text = Text::default();
        text.family("a_total", "counter", "A");
        text.sample(&[("exe", "/tmp/\"} 1\nb \\")], 2.5);
        assert_eq!(text.text, "# HELP a_total A\n# TYPE a_total counter\na_total{exe=\"/tmp/\\\"} 1\\nb \\\\\"} 2.5\n");
    }
}
