//! One-line overrides: `TIER.FIELD=VALUE`, as in `cxl.latency=250ns`. The value's origin becomes `user`.

use crate::error::Error;
use crate::{file, sysfs, tiers};
use model::{Figure, Origin, Platform, TierKind};
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

const FIELDS: &str = "kind, nodes, dir, capacity, latency, loaded-latency, loaded-bandwidth, bandwidth, read-bandwidth, write-bandwidth, \
     mixed-bandwidth, near-cpus";

/// Applies overrides in their order, then puts the tiers in order again. All are applied, or none.
///
/// `llc=SIZE` sets the last-level cache and `cores=NUMBER` the cores; everything else is `TIER.FIELD=VALUE`; `bandwidth` sets both directions.
///
/// # Errors
/// If a tier, field or value is not valid; the sentence names the valid choices.
pub fn apply_overrides(platform: &mut Platform, overrides: &[String]) -> Result<(), Error> {
    let mut changed = platform.clone();
    for text in overrides {
        apply(&mut changed, text).map_err(|e| Error::new(format!("override `{text}`: {e}")))?;
    }
    file::check(&changed).map_err(|e| Error::new(format!("overrides {}: {e}", overrides.join(" "))))?;
    tiers::order(&mut changed);
    *platform = changed;
    Ok(())
}

fn apply(platform: &mut Platform, text: &str) -> Result<(), Error> {
    let form = "write TIER.FIELD=VALUE, for example cxl.latency=250ns";
    let (place, value) = text.split_once('=').ok_or_else(|| Error::new(form))?;
    let value = value.trim();
    if place.trim() == "llc" {
        platform.llc = Some(parse(value)?);
        return Ok(());
    }
    if place.trim() == "cores" {
        let number = value.parse().map_err(|_| Error::new(format!("`{value}` is not a number of cores")))?;
        platform.cores = Some(Figure::new(number, Origin::User));
        return Ok(());
    }
    let (tier, field) = place.split_once('.').ok_or_else(|| Error::new(form))?;
    let names: Vec<String> = platform.tiers.iter().map(|t| t.name.clone()).collect();
    let Some(tier) = platform.tiers.iter_mut().find(|t| t.name == tier.trim()) else {
        return Err(Error::new(format!("there is no tier `{}`; the tiers are {}", tier.trim(), names.join(", "))));
    };
    match field.trim().replace('_', "-").as_str() {
        "kind" => tier.kind = Figure::new(kind(value)?, Origin::User),
        "nodes" => {
            let bad = || Error::new(format!("`{value}` is not a list of NUMA nodes; write for example 0,2-3"));
            tier.nodes = sysfs::parse_list(value).filter(|n| !n.is_empty()).ok_or_else(bad)?;
        }
        "dir" => tier.dir = Some(PathBuf::from(value)),
        "capacity" => tier.capacity = Some(parse(value)?),
        "latency" => tier.latency = Some(parse(value)?),
        "loaded-latency" => tier.loaded_latency = Some(parse(value)?),
        "loaded-bandwidth" => tier.loaded_bandwidth = Some(parse(value)?),
        "read-bandwidth" => tier.read_bandwidth = Some(parse(value)?),
        "write-bandwidth" => tier.write_bandwidth = Some(parse(value)?),
        "mixed-bandwidth" => tier.mixed_bandwidth = Some(parse(value)?),
        "bandwidth" => {
            tier.read_bandwidth = Some(parse(value)?);
            tier.write_bandwidth = tier.read_bandwidth;
        }
        "near-cpus" => tier.near_cpus = value.to_string(),
        other => return Err(Error::new(format!("there is no field `{other}`; the fields are {FIELDS}"))),
    }
    Ok(())
}

fn parse<T: FromStr<Err: Display>>(value: &str) -> Result<Figure<T>, Error> {
    value.parse().map(|v| Figure::new(v, Origin::User)).map_err(|e: T::Err| Error::new(e.to_string()))
}

fn kind(value: &str) -> Result<TierKind, Error> {
    use TierKind::{Cxl, Dram, File, Gpu, Hbm, Nvm};
    [Dram, Hbm, Nvm, Cxl, Gpu, File].into_iter().find(|k| k.to_string().eq_ignore_ascii_case(value)).ok_or_else(|| {
        Error::new(format!("`{value}` is not a kind of memory; the kinds are dram, hbm, nvm, cxl, gpu, file"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Bytes, GbPerSec, Nanos};

    fn platform() -> Platform {
        let text = "name = \"x\"\n[[tier]]\nname = \"dram\"\nkind = \"dram\"\nread_bandwidth = \"100GB/s\"\n[[tier]]\nname = \"slow\"\nkind = \"nvm\"\nread_bandwidth = \"30GB/s\"\n";
        file::parse(text, Origin::Library).unwrap()
    }

    fn set(overrides: &[&str]) -> Result<Platform, Error> {
        let mut p = platform();
        let overrides: Vec<String> = overrides.iter().map(ToString::to_string).collect();
        apply_overrides(&mut p, &overrides).map(|()| p)
    }

    #[test]
    fn values_are_set_with_origin_user() {
        let p = set(&["slow.latency=250ns", "slow.capacity = 16GiB", "slow.kind=cxl", "dram.nodes=0,1", "llc=8MiB"]);
        let p = p.unwrap();
        let slow = p.tier("slow").unwrap();
        assert_eq!(slow.latency, Some(Figure::new(Nanos(250), Origin::User)));
        assert_eq!(slow.capacity, Some(Figure::new(Bytes::gib(16), Origin::User)));
        assert_eq!(slow.kind, Figure::new(TierKind::Cxl, Origin::User));
        assert_eq!(slow.read_bandwidth, Some(Figure::new(GbPerSec(30.0), Origin::Library)), "untouched");
        assert_eq!(p.tier("dram").unwrap().nodes, [0, 1]);
        assert_eq!(p.llc, Some(Figure::new(Bytes::mib(8), Origin::User)));
    }

    #[test]
    fn the_load_and_who_shares_it_are_set() {
        let p = set(&[
            "cores=16",
            "slow.loaded-latency=239ns",
            "slow.loaded_bandwidth=22GB/s",
            "slow.mixed-bandwidth=20GB/s",
        ]);
        let p = p.unwrap();
        let slow = p.tier("slow").unwrap();
        assert_eq!(p.cores, Some(Figure::new(16, Origin::User)));
        assert_eq!(slow.loaded_bandwidth, Some(Figure::new(GbPerSec(22.0), Origin::User)));
        assert_eq!(slow.mixed_bandwidth, Some(Figure::new(GbPerSec(20.0), Origin::User)));
    }

    #[test]
    fn the_order_follows_the_values() {
        let p = set(&["slow.bandwidth=400GB/s"]).unwrap();
        assert_eq!(p.tiers[0].name, "slow");
    }

    #[test]
    fn mistakes_name_the_valid_choices() {
        for (text, expected) in [
            ("latency", "TIER.FIELD=VALUE"),
            ("latency=3ns", "TIER.FIELD=VALUE"),
            ("hbm.latency=3ns", "the tiers are dram, slow"),
            ("slow.speed=3", "the fields are kind, nodes"),
            ("slow.latency=3", "not a time"),
            ("slow.latency=0ns", "latency of 0"),
            ("slow.capacity=0", "capacity 0"),
            ("slow.bandwidth=12", "not a bandwidth"),
            ("cores=many", "not a number of cores"),
            ("cores=0", "0 cores"),
            ("slow.loaded-bandwidth=12GB/s", "without `loaded_latency`"),
            ("slow.kind=tape", "the kinds are dram, hbm"),
            ("slow.kind=file", "`dir`"),
            ("slow.nodes=a", "not a list"),
            ("slow.nodes=", "not a list"),
        ] {
            let message = set(&[text]).unwrap_err().to_string();
            assert!(message.contains(expected) && !message.contains('\n'), "{text} -> {message}");
        }
    }
}
