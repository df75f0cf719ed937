//! What a user's script says: `fn priority(o)`, a number.

use super::benefit::Benefit;
use super::{Now, Prioritise};
use crate::item::Item;
use crate::script::{Object, Script, number};

pub struct Own(Script);

impl Own {
    pub fn load(file: Option<&str>) -> Result<Own, String> {
        Script::load(file, "priority", 1).map(Own)
    }
}

impl Prioritise for Own {
    fn priority(&self, item: &Item, now: &Now) -> f64 {
        self.0.ask((Object::new(item, now),), number).unwrap_or_else(|| Benefit.priority(item, now))
    }

    fn failed(&self) -> Option<String> {
        self.0.failed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::tests::item;
    use crate::script::tests::{file, now};

    #[test]
    fn the_script_decides_until_it_fails() {
        let (_dir, path) = file("fn priority(o) { if o.bytes > 100000 { o.nonsense } else { -o.bytes } }");
        let own = Own::load(Some(&path)).expect("a good script");
        assert_eq!(own.priority(&item(0, 8192, 1, 5.0), &now()), -8192.0);
        let large = item(0, 1 << 20, 1, 5.0);
        assert_eq!(own.priority(&large, &now()), Benefit.priority(&large, &now()));
        assert!(own.failed().is_some());
        let small = item(0, 8192, 1, 5.0);
        assert_eq!(own.priority(&small, &now()), Benefit.priority(&small, &now()));
    }
}
