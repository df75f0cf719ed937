//! Names of sites that the engine tells of in binary form: looked up here, with the rights of who looks.

use model::{Module, Site, SiteId, SourceLine};
use record::annotated;
use std::collections::HashMap;

/// Names that are known so far.
#[derive(Default)]
pub struct Names {
    lines: HashMap<Module, HashMap<u64, Vec<SourceLine>>>,
    /// Of all annotated modules among them.
    positions: annotated::Table,
    labels: HashMap<SiteId, String>,
}

impl Names {
    /// Looks up what is new among these.
    pub fn learn<'a>(&mut self, sites: impl Iterator<Item = &'a Site> + Clone) {
        let mut unknown: HashMap<Module, Vec<u64>> = HashMap::new();
        for frame in sites.clone().filter(|s| !self.labels.contains_key(&s.id)).flat_map(|s| &s.frames) {
            let Some(module) = &frame.module else { continue };
            let known = self.lines.get(module).is_some_and(|lines| lines.contains_key(&frame.offset));
            if !known && frame.source.is_empty() && module.file().is_some() {
                unknown.entry(module.clone()).or_default().push(frame.offset);
            }
        }
        // Each file is read once.
        let new = unknown.keys().filter(|m| m.is_source() && !self.lines.contains_key(m));
        self.positions.add(annotated::together(new, std::iter::empty()));
        for (module, offsets) in unknown {
            // What has no names is shown by its place.
            let found = annotated::lines(&module, &offsets, &self.positions);
            let found = found.unwrap_or_else(|_| vec![Vec::new(); offsets.len()]);
            self.lines.entry(module).or_default().extend(offsets.into_iter().zip(found));
        }
        let new = sites.filter(|s| !self.labels.contains_key(&s.id));
        let labels: Vec<_> = new.map(|s| (s.id, report::words::brief(&self.named(s).label()))).collect();
        self.labels.extend(labels);
    }

    /// The site with all names that were found.
    pub fn named(&self, site: &Site) -> Site {
        let mut site = site.clone();
        for frame in site.frames.iter_mut().filter(|f| f.source.is_empty()) {
            let lines = frame.module.as_ref().and_then(|m| self.lines.get(m)?.get(&frame.offset));
            let told = frame.module.as_ref().and_then(|m| m.line_at(frame.offset));
            frame.source = lines.cloned().unwrap_or_else(|| told.into_iter().collect());
        }
        site
    }

    /// What a site is called.
    pub fn of(&self, site: &Site) -> String {
        self.labels.get(&site.id).cloned().unwrap_or_else(|| site.label())
    }
}
