//! Routines that a user writes: functions of a script (rhai.rs), which is read when the program is started. A script sees numbers and gives
//! numbers; it has no files, no clock and no other scripts, and only so much of everything. One that fails or takes too long is not asked
//! again: the usual routine goes on, and the user is told.
//!
//! `docs/live.md` has the functions, what an object is, and two worked examples, which the tests run.

use crate::enforce::Room;
use crate::item::Item;
use crate::prioritise::Now;
use rhai::packages::{Package, StandardPackage};
use rhai::{AST, Array, Dynamic, Engine, EvalAltResult, FuncArgs, Scope};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Most operations of one call: a hundredth of a second.
const OPERATIONS: u64 = 1_000_000;
/// Most objects that a script is shown: a call has two hundred operations for each, and time for so many also where others want the processor.
pub const OBJECTS: usize = 5_000;
/// Most elements of an array, and characters of a text, that a script may make.
const ELEMENTS: usize = 100_000;
/// Most that a script may take of each second, while it is asked.
const SHARE: Duration = Duration::from_millis(250);

/// An object, as scripts see it.
#[derive(Clone, Debug)]
pub struct Object {
    item: Item,
    interval: u32,
    value: f64,
}

impl Object {
    /// An item at the end of an interval.
    pub fn new(item: &Item, now: &Now) -> Object {
        let last = now.prices.len() - 1;
        Object { item: *item, interval: now.interval, value: item.value(now, last, 0) }
    }
}

/// A script of which one function is asked.
pub struct Script {
    engine: Engine,
    ast: AST,
    file: String,
    function: &'static str,
    failed: RefCell<Option<String>>,
    /// Begin of the current second, and what was used of it.
    second: Cell<(Instant, Duration)>,
    deadline: Rc<Cell<Instant>>,
}

impl Script {
    /// Reads a script, which must have this function of so many parameters.
    pub fn load(file: Option<&str>, function: &'static str, parameters: usize) -> Result<Script, String> {
        let file = file.filter(|f| !f.is_empty()).ok_or("name the file of the script: script=FILE")?;
        let text = std::fs::read_to_string(file).map_err(|e| format!("{file} cannot be read: {e}"))?;
        let deadline = Rc::new(Cell::new(Instant::now()));
        let engine = engine(deadline.clone());
        let ast = engine.compile(&text).map_err(|e| format!("{file} is no script: {e}"))?;
        if !ast.iter_functions().any(|f| f.name == function && f.params.len() == parameters) {
            return Err(format!("{file} has no function `{function}` of {parameters} parameters (docs/live.md)"));
        }
        let (failed, second) = (RefCell::new(None), Cell::new((Instant::now(), Duration::ZERO)));
        Ok(Script { engine, ast, file: file.to_string(), function, failed, second, deadline })
    }

    /// Whether the script also has another function.
    pub fn has(&self, function: &str, parameters: usize) -> bool {
        self.ast.iter_functions().any(|f| f.name == function && f.params.len() == parameters)
    }

    /// Asks the function; none if the script has failed, now or before.
    pub fn ask<T>(&self, arguments: impl FuncArgs, read: impl FnOnce(Dynamic) -> Option<T>) -> Option<T> {
        self.ask_for(self.function, arguments, read)
    }

    /// Asks a function of this name.
    pub fn ask_for<T>(
        &self,
        name: &str,
        arguments: impl FuncArgs,
        read: impl FnOnce(Dynamic) -> Option<T>,
    ) -> Option<T> {
        if self.failed.borrow().is_some() {
            return None;
        }
        let began = Instant::now();
        let (mut since, mut used) = self.second.get();
        if began - since > Duration::from_secs(1) {
            (since, used) = (began, Duration::ZERO);
        }
        self.deadline.set(began + SHARE.saturating_sub(used));
        let answer = self.engine.call_fn::<Dynamic>(&mut Scope::new(), &self.ast, name, arguments);
        self.second.set((since, used + began.elapsed()));
        let kind = answer.as_ref().map_or("", |a| a.type_name()).to_string();
        let why = match answer.map(read) {
            Ok(Some(value)) => return Some(value),
            Ok(None) => format!("`{name}` answered with {kind}, which is not what it is asked for"),
            Err(e) => match *e {
                // Said by `on_progress`.
                EvalAltResult::ErrorTerminated(why, _) => format!("`{name}`: {why}"),
                e => format!("`{name}`: {e}"),
            },
        };
        *self.failed.borrow_mut() =
            Some(format!("{} is not asked any more, and the usual routine goes on: {why}", self.file));
        None
    }

    /// Why it is not asked any more.
    pub fn failed(&self) -> Option<String> {
        self.failed.borrow().clone()
    }
}

/// A number, whole or not; nothing that could not be compared.
pub fn number(answer: Dynamic) -> Option<f64> {
    answer.as_float().or_else(|_| answer.as_int().map(|i| i as f64)).ok().filter(|x| x.is_finite())
}

/// Moves: pairs of the place of an object in the table and of a tier.
pub fn pairs(answer: Dynamic) -> Option<Vec<(usize, usize)>> {
    let pair = |p: Dynamic| match p.into_array().ok()?.as_slice() {
        [a, b] => Some((usize::try_from(a.as_int().ok()?).ok()?, usize::try_from(b.as_int().ok()?).ok()?)),
        _ => None,
    };
    answer.into_array().ok()?.into_iter().map(pair).collect()
}

/// The objects as a table.
pub fn table(objects: impl Iterator<Item = Object>) -> Array {
    objects.map(Dynamic::from).collect()
}

/// The tiers as a table.
pub fn tiers(rooms: &[Room]) -> Array {
    rooms.iter().map(|r| Dynamic::from(*r)).collect()
}

fn engine(deadline: Rc<Cell<Instant>>) -> Engine {
    let mut engine = Engine::new_raw();
    StandardPackage::new().register_into_engine(&mut engine);
    engine.disable_symbol("eval");
    // Neither operations nor the deadline, which is looked at between them, end that.
    let sleep = || Err::<(), Box<EvalAltResult>>("a script does not sleep".into());
    engine.register_fn("sleep", move |_: i64| sleep()).register_fn("sleep", move |_: f64| sleep());
    engine.set_max_operations(OPERATIONS).set_max_call_levels(32).set_max_expr_depths(64, 64);
    engine.set_max_array_size(ELEMENTS).set_max_map_size(ELEMENTS).set_max_string_size(ELEMENTS);
    engine.on_progress(move |_| (Instant::now() > deadline.get()).then(|| "it takes too long".into()));
    engine.register_type_with_name::<Object>("Object");
    let whole = |f: fn(&Object) -> u64| move |o: &mut Object| i64::try_from(f(o)).unwrap_or(i64::MAX);
    let real = |f: fn(&Object) -> f64| move |o: &mut Object| f(o);
    engine
        .register_get("process", whole(|o| o.item.process as u64))
        .register_get("address", whole(|o| o.item.addr))
        .register_get("bytes", whole(|o| o.item.bytes))
        .register_get("tier", whole(|o| o.item.tier as u64))
        .register_get("age", whole(|o| u64::from(o.interval.saturating_sub(o.item.born))))
        .register_get("idle", whole(|o| u64::from(o.interval.saturating_sub(o.item.seen))))
        .register_get("there", real(|o| o.item.there))
        .register_get("loads", real(|o| o.item.heat.random + o.item.heat.stream))
        .register_get("stores", real(|o| o.item.heat.stores))
        .register_get("misses", real(|o| o.item.heat.misses()))
        .register_get("phase_misses", real(|o| o.item.phase.misses()))
        .register_get("life", real(|o| o.item.life))
        .register_get("value", real(|o| o.value));
    engine.register_type_with_name::<Room>("Tier");
    let size = |f: fn(&Room) -> u64| move |r: &mut Room| i64::try_from(f(r)).unwrap_or(i64::MAX);
    engine.register_get("limit", size(|r| r.limit)).register_get("used", size(|r| r.used));
    engine
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::item::tests::item;
    use policy::cost::moment::Lines;

    /// A script in a file, for as long as the folder lives.
    pub fn file(text: &str) -> (tempfile::TempDir, String) {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("own.rhai");
        std::fs::write(&path, text).expect("it can be written");
        (dir, path.display().to_string())
    }

    pub fn now() -> Now {
        let line = |random: f64| Lines { random, ..Lines::default() };
        Now { interval: 9, prices: vec![line(100.0), line(300.0)] }
    }

    fn object() -> Object {
        Object::new(&item(4096, 8192, 1, 50.0), &now())
    }

    fn load(text: &str, function: &'static str, parameters: usize) -> Result<Script, String> {
        let (_dir, path) = file(text);
        Script::load(Some(&path), function, parameters)
    }

    #[test]
    fn a_script_sees_what_is_known_of_an_object() {
        let text = "fn priority(o) { if o.tier == 1 && o.age == 8 && o.idle == 8 && o.address == 4096 { o.misses / o.bytes } else { 0 } }";
        let script = load(text, "priority", 1).expect("a good script");
        assert_eq!(script.ask((object(),), number), Some(50.0 / 8192.0));
        let script = load("fn priority(o) { o.value }", "priority", 1).expect("a good script");
        assert_eq!(script.ask((object(),), number), Some(10_000.0));
        assert_eq!(script.failed(), None);
    }

    #[test]
    fn what_is_no_script_is_refused_with_the_reason() {
        let why = |text: &str| load(text, "priority", 1).err().expect("it must be refused");
        assert!(why("fn priority(o) { o.misses ").contains("is no script"), "{}", why("fn priority(o) {"));
        assert!(why("fn priority() { 1 }").contains("no function `priority` of 1 parameters"));
        assert!(why("fn priority(o) { eval(\"1\") }").contains("eval"));
        assert!(Script::load(None, "priority", 1).is_err_and(|why| why.contains("script=FILE")));
        assert!(
            Script::load(Some("/nowhere"), "priority", 1).is_err_and(|why| why.contains("/nowhere cannot be read"))
        );
    }

    #[test]
    fn what_fails_or_never_ends_is_asked_once() {
        for (text, says) in [
            ("fn priority(o) { loop {} }", "operations"),
            ("fn priority(o) { priority(o) }", "overflow"),
            ("fn priority(o) { o.colour }", "colour"),
            ("fn priority(o) { sleep(100); 1 }", "does not sleep"),
            ("fn priority(o) { sleep(100.0); 1 }", "does not sleep"),
            ("fn priority(o) { \"much\" }", "answered with string"),
            ("fn priority(o) { 0.0 / 0.0 }", "answered with f64"),
            ("fn priority(o) { let a = []; loop { a.push(1); } }", ""),
            ("fn priority(o) { let s = \"x\"; loop { s += s; } }", ""),
        ] {
            let script = load(text, "priority", 1).expect("it can be compiled");
            assert_eq!(script.ask((object(),), number), None, "{text}");
            let why = script.failed().expect("it has failed");
            // A busy machine comes to the limit of time first.
            let is_said =
                why.to_lowercase().contains(says) || (says == "operations" && why.contains("it takes too long"));
            assert!(is_said && why.contains("the usual routine goes on"), "{text}: {why}");
            assert_eq!(script.ask((object(),), number), None);
        }
    }
}
