//! Platform files: TOML that a person writes, as described in `docs/platform.md`.

use crate::error::Error;
use crate::library;
use crate::tiers;
use model::{Bytes, Coefficients, Figure, GbPerSec, Nanos, Origin, Platform, Tier, TierKind};
use serde::{Deserialize, Deserializer};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A platform by name or by path.
///
/// A text with a `/` or the ending `.toml` is a path. A name is looked up among the user's files
/// (`$XDG_CONFIG_HOME/hearth/platforms/NAME.toml`, by default below `~/.config`), then in the library.
///
/// # Errors
/// If there is no such platform, or its file cannot be read or says something impossible.
pub fn load(name_or_path: &str) -> Result<Platform, Error> {
    if name_or_path.contains('/') || name_or_path.ends_with(".toml") {
        return read(Path::new(name_or_path));
    }
    if let Some(file) = user_files().map(|dir| dir.join(format!("{name_or_path}.toml"))).filter(|f| f.is_file()) {
        return read(&file);
    }
    if let Some(text) = library::text(name_or_path) {
        return parse(text, Origin::Library).map_err(|e| Error::new(format!("library entry `{name_or_path}`: {e}")));
    }
    let names: Vec<String> = library::library().into_iter().map(|e| e.name).collect();
    Err(Error::new(format!(
        "there is no platform `{name_or_path}`; known are {}, or give the path of a platform file",
        names.join(", ")
    )))
}

/// Where the user's own platforms are.
fn user_files() -> Option<PathBuf> {
    let absolute = |v: &str| std::env::var_os(v).map(PathBuf::from).filter(|p| p.is_absolute());
    let config = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(config.join("hearth/platforms"))
}

fn read(path: &Path) -> Result<Platform, Error> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| {
        Error::new(format!(
            "platform file `{shown}` cannot be read: {e}; `hearth platform --list` names the built-in platforms"
        ))
    })?;
    parse(&text, Origin::User).map_err(|e| Error::new(format!("platform file `{shown}`: {e}")))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlatformFile {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    source: String,
    llc: Option<Bytes>,
    cores: Option<u32>,
    #[serde(rename = "tier", default)]
    tiers: Vec<TierFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TierFile {
    name: String,
    kind: TierKind,
    #[serde(default)]
    nodes: Vec<u32>,
    dir: Option<PathBuf>,
    capacity: Option<Bytes>,
    latency: Option<Written<Nanos>>,
    loaded_latency: Option<Written<Nanos>>,
    loaded_bandwidth: Option<Written<GbPerSec>>,
    read_bandwidth: Option<Written<GbPerSec>>,
    write_bandwidth: Option<Written<GbPerSec>>,
    mixed_bandwidth: Option<Written<GbPerSec>>,
    coefficients: Option<Coefficients>,
    #[serde(default)]
    near_cpus: String,
}

/// A quantity as people write it: `"90ns"`, `"105GB/s"`.
struct Written<T>(T);

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Written<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Written<T>, D::Error> {
        String::deserialize(d)?.parse().map(Written).map_err(serde::de::Error::custom)
    }
}

/// Reads a platform file; all its values get this origin.
pub(crate) fn parse(text: &str, origin: Origin) -> Result<Platform, Error> {
    let file: PlatformFile = toml::from_str(text).map_err(|e| {
        let line = e.span().map(|s| text[..s.start].lines().count().max(1));
        let place = line.map(|l| format!("line {l}: ")).unwrap_or_default();
        Error::new(format!("{place}{}", e.message().replace('\n', ", ")))
    })?;
    fn figure<T>(origin: Origin) -> impl Fn(T) -> Figure<T> {
        move |value| Figure::new(value, origin)
    }
    let tiers = file.tiers.into_iter().map(|t| Tier {
        name: t.name,
        kind: Figure::new(t.kind, origin),
        nodes: t.nodes,
        dir: t.dir,
        capacity: t.capacity.map(figure(origin)),
        free: None,
        latency: t.latency.map(|w| w.0).map(figure(origin)),
        loaded_latency: t.loaded_latency.map(|w| w.0).map(figure(origin)),
        loaded_bandwidth: t.loaded_bandwidth.map(|w| w.0).map(figure(origin)),
        read_bandwidth: t.read_bandwidth.map(|w| w.0).map(figure(origin)),
        write_bandwidth: t.write_bandwidth.map(|w| w.0).map(figure(origin)),
        mixed_bandwidth: t.mixed_bandwidth.map(|w| w.0).map(figure(origin)),
        coefficients: t.coefficients,
        near_cpus: t.near_cpus,
    });
    let mut platform = Platform {
        name: file.name,
        description: file.description,
        source: file.source,
        llc: file.llc.map(figure(origin)),
        cores: file.cores.map(figure(origin)),
        tiers: tiers.collect(),
    };
    check(&platform)?;
    tiers::order(&mut platform);
    Ok(platform)
}

/// Says what is impossible about a platform, whoever wrote it.
pub(crate) fn check(platform: &Platform) -> Result<(), Error> {
    if platform.tiers.is_empty() {
        return Err(Error::new("it has no tier; add at least one `[[tier]]` with `name` and `kind`"));
    }
    if platform.cores.is_some_and(|f| f.value == 0) {
        return Err(Error::new("it has 0 cores; leave `cores` out if the number is not known"));
    }
    for (i, tier) in platform.tiers.iter().enumerate() {
        let name = &tier.name;
        let fail = |what: &str| Err(Error::new(format!("tier `{name}` {what}")));
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
            return fail("needs a name of letters, digits, `-` and `_`");
        }
        if platform.tiers[..i].iter().any(|t| &t.name == name) {
            return fail("is there twice; give each tier its own name");
        }
        if (tier.kind.value == TierKind::File) != tier.dir.is_some() {
            return fail("must have both `kind = \"file\"` and `dir`, or neither");
        }
        if tier.capacity.is_some_and(|f| f.value.0 == 0) {
            return fail("has capacity 0; leave the tier out instead");
        }
        if [tier.latency, tier.loaded_latency].into_iter().flatten().any(|f| f.value.0 == 0) {
            return fail("has a latency of 0; leave the latency out if it is not known");
        }
        let bandwidths = [tier.read_bandwidth, tier.write_bandwidth, tier.mixed_bandwidth, tier.loaded_bandwidth];
        if bandwidths.into_iter().flatten().any(|f| f.value.0 <= 0.0) {
            return fail("has a bandwidth of 0; leave the bandwidth out if it is not known");
        }
        if tier.loaded_bandwidth.is_some() && tier.loaded_latency.is_none() {
            return fail("has `loaded_bandwidth` without `loaded_latency`; give the latency at that bandwidth too");
        }
        if tier
            .coefficients
            .is_some_and(|c| !(c.load > 0.0 && c.store > 0.0 && c.load.is_finite() && c.store.is_finite()))
        {
            return fail("has a coefficient that is not positive");
        }
        if crate::sysfs::parse_list(&tier.near_cpus).is_none() {
            return fail("has `near_cpus` that are not a list such as 0-7,16-23");
        }
        let taken = |n: &u32| platform.tiers[..i].iter().any(|t| t.nodes.contains(n));
        if let Some(node) = tier.nodes.iter().find(|n| taken(n)) {
            return fail(&format!("has node {node}, which another tier has too"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(text, Origin::User).unwrap_err().to_string()
    }

    #[test]
    fn a_full_file_is_read() {
        let text = r#"
            name = "mine"
            llc = "32MiB"
            cores = 24
            [[tier]]
            name = "slow"
            kind = "cxl"
            capacity = "1TiB"
            latency = "250ns"
            read_bandwidth = "24GB/s"
            [[tier]]
            name = "fast"
            kind = "dram"
            nodes = [0, 1]
            capacity = 68719476736
            latency = "90ns"
            loaded_latency = "0.12us"
            loaded_bandwidth = "150GB/s"
            read_bandwidth = "200GB/s"
            write_bandwidth = "0.1TB/s"
            mixed_bandwidth = "160GB/s"
            coefficients = { load = 1.0, store = 1.5 }
            near_cpus = "0-7"
        "#;
        let p = parse(text, Origin::User).unwrap();
        let names: Vec<&str> = p.tiers.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["fast", "slow"], "fast to slow, whatever the order in the file");
        let fast = &p.tiers[0];
        assert_eq!(fast.capacity, Some(Figure::new(Bytes::gib(64), Origin::User)));
        assert_eq!(fast.loaded_latency, Some(Figure::new(Nanos(120), Origin::User)));
        assert_eq!(p.cores, Some(Figure::new(24, Origin::User)));
        assert_eq!(fast.loaded_bandwidth, Some(Figure::new(GbPerSec(150.0), Origin::User)));
        assert_eq!(fast.mixed_bandwidth, Some(Figure::new(GbPerSec(160.0), Origin::User)));
        assert_eq!(fast.write_bandwidth, Some(Figure::new(GbPerSec(100.0), Origin::User)));
        assert_eq!(fast.coefficients, Some(Coefficients { load: 1.0, store: 1.5 }));
    }

    #[test]
    fn every_mistake_is_named_in_one_line() {
        let tier = |fields: &str| format!("name = \"x\"\n[[tier]]\nname = \"a\"\nkind = \"dram\"\n{fields}");
        for (text, expected) in [
            ("name = ".to_string(), "line 1"),
            ("name = \"x\"".to_string(), "no tier"),
            (tier("latency = \"90\""), "not a time"),
            (tier("latency = 90"), "line 5"),
            (tier("read_bandwidth = \"90ns\""), "not a bandwidth"),
            (tier("capacity = \"12 parsecs\""), "not a size"),
            (tier("capacity = 0"), "capacity 0"),
            (tier("mixed_bandwidth = \"0GB/s\""), "bandwidth of 0"),
            (tier("loaded_bandwidth = \"9GB/s\""), "without `loaded_latency`"),
            (format!("cores = 0\n{}", tier("")), "0 cores"),
            (tier("speed = 3"), "unknown field `speed`"),
            (tier("dir = \"/mnt\""), "kind = \"file\""),
            (tier("near_cpus = \"x\""), "near_cpus"),
            (tier("[[tier]]\nname = \"a\"\nkind = \"hbm\""), "twice"),
            (tier("[[tier]]\nname = \"b\"\nkind = \"tape\""), "unknown variant `tape`, expected one of"),
            (tier("nodes = [1]\n[[tier]]\nname = \"b\"\nkind = \"hbm\"\nnodes = [1]"), "node 1"),
        ] {
            let message = error(&text);
            assert!(message.contains(expected) && !message.contains('\n'), "{text}\n-> {message}");
        }
    }
}
