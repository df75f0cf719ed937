//! Fixtures, and golden files that `UPDATE_GOLDEN=1` accepts anew.

pub mod compared;

use model::{Bytes, Chunk, Observed, SiteId, Touch};
use std::path::PathBuf;

fn tests() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// The profile of `fixtures/NAME.json`.
pub fn fixture(name: &str) -> Observed {
    let text = std::fs::read_to_string(tests().join("fixtures").join(name).with_extension("json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// `text` must be what `golden/NAME` holds.
pub fn assert_golden(name: &str, text: &str) {
    let path = tests().join("golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == golden, "{name} differs (UPDATE_GOLDEN=1 accepts):\n{text}\ninstead of\n{golden}");
}

/// `<` and `>` balance, and every element that is opened is closed.
pub fn assert_well_formed(text: &str) {
    // Of a page, what is between head and script; a picture is looked at as a whole.
    let body = text.find("<body>").map_or(text, |start| &text[start..text.find("<script>").unwrap()]);
    let mut open: Vec<&str> = Vec::new();
    for tag in body.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag ends");
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        match tag {
            _ if tag.starts_with('/') => assert_eq!(open.pop(), Some(name), "</{name}>"),
            _ if tag.ends_with('/') || ["br", "input"].contains(&name) => {}
            _ => open.push(name),
        }
    }
    assert!(open.is_empty() || open == ["body"], "{open:?}");
}

/// The fixture, with chunks of two size classes at its hottest site: the third is the hottest, and one was never looked at.
pub fn cut() -> Observed {
    let mut seen = fixture("lammps");
    let site = &mut seen.sites[0];
    let all = site.load_misses;
    for (class, shares) in [(64u64, [0.02, 0.0, 0.5, 0.08]), (128, [0.25, 0.1, 0.0, 0.05])] {
        site.chunks.extend(shares.iter().zip(0..).map(|(share, n)| Chunk {
            class: Bytes::mib(class),
            offset: Bytes::mib(class / 16 * n),
            size: Bytes::mib(class / 16),
            peak: Bytes::mib(class / 8),
            resident: (n != 3).then_some(Bytes::mib(class / 16)),
            load_misses: share * all,
            store_misses: 0.0,
            samples: 5,
        }));
    }
    seen
}

/// The fixture's sites over and over.
pub fn many(count: u64) -> Observed {
    let mut seen = fixture("lammps");
    let models = seen.sites.clone();
    seen.sites = (0..count)
        .map(|n| {
            let mut site = models[n as usize % models.len()].clone();
            site.site.id = SiteId(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            site.peak = Bytes(4096 + n * n % 77_777_777);
            site.load_misses *= (n % 97) as f64 / 97.0;
            site
        })
        .collect();
    let ids: Vec<SiteId> = seen.sites.iter().map(|s| s.site.id).collect();
    for point in &mut seen.timeline {
        point.live = ids.iter().map(|id| (*id, Bytes(10_000))).collect();
        point.misses = ids.iter().map(|id| (*id, 5.0)).collect();
    }
    seen
}

/// The fixture with names that would be markup.
pub fn hostile() -> Observed {
    let mut evil = fixture("lammps");
    let attack =
        "</title></script><script>alert(1)</script><img src=x onerror=alert(1)>\" onload=\"alert(1)'&lt;\0\u{1b}";
    evil.command.push(attack.to_string());
    evil.outcome = attack.to_string();
    evil.sampler = attack.to_string();
    evil.losses[0].note = attack.to_string();
    for frame in evil.sites.iter_mut().flat_map(|s| &mut s.site.frames) {
        if let Some(module) = &mut frame.module {
            module.path = format!("/x/{attack}");
        }
        for line in &mut frame.source {
            line.function = attack.to_string();
            line.file = attack.to_string();
        }
    }
    evil.touches = vec![Touch {
        site: Some(evil.sites[0].site.id),
        function: attack.to_string(),
        module: attack.to_string(),
        file: attack.to_string(),
        line: 1,
        loads: 1,
        stores: 0,
        misses: 0.0,
        timed: 0,
        latency: None,
    }];
    evil
}
