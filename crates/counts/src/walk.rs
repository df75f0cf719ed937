//! Goes through a program's calls from `main` on, as its text tells them, and adds up what is asked of each object.
//!
//! An object is what one call path allocates, a variable, or a local one. Where pointers lead is followed without the order of things: what was ever written to a
//! place may be found there (L. Andersen, *Program analysis and specialization for the C programming language*, 1994, chapter 4), field by field where
//! the distance from an object's beginning is known. Since a place may be read before the walk has come by what writes it, the whole walk is done some
//! times, and the last one counts.

use crate::formula::{Formula, One, Turns, Two};
use crate::library::{self, Known};
use crate::text::{self, Call, Callee, Function, Part, Text};
use model::{Bytes, SizeClass};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

/// Bytes that an access is of.
const WORD: f64 = 8.0;
/// Stretches of an object that are told apart.
const MOST_STRETCHES: usize = 64;
/// Times the program is gone through: pointers that lie in what pointers lead to need one more for each step.
const PASSES: usize = 4;
/// Deeper calls are left out: what is asked there is asked rarely, or by a recursion that cannot be seen to end. So are all after so many calls, formulas and places
/// looked at in one pass (some seconds' worth), as in interpreters, where nearly every function may call every other one.
const DEEPEST: usize = 48;
const MOST_STEPS: usize = 8_000_000;
/// What runs more rarely is left out: the ways of errors.
const RAREST: f64 = 1e-9;
/// A loop that is gone through turn by turn may turn so often: those that double or halve something turn 64 times.
const MOST_TURNS: usize = 4096;
/// Turns of a loop of which nothing is known.
const TURNS: f64 = 10.0;
/// What a process can address, in bytes (x86-64 with four levels of page tables): a size that large is the most that its type has room for, as in `std::vector`, which
/// grows to at most that, and tells nothing.
const ADDRESSABLE: f64 = (1u64 << 47) as f64;

/// What an object is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// What a call path of these positions allocates, innermost first.
    Heap(Vec<u32>),
    /// A variable.
    Variable(String),
    /// A variable of a function, by number.
    Local(String, usize),
    /// The array of the program's arguments.
    Arguments,
    /// An argument, by its place.
    Argument(usize),
    /// A text of the environment, that of whoever plans.
    Environment(String),
}

/// What a phase begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// An operation of MPI, by the positions that lead to it, innermost first.
    Operation(Vec<u32>),
    /// A name that the program says (`hearth_phase`), blanks as `_`.
    Name(String),
}

/// What is asked of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Asked {
    /// Loads.
    pub loads: f64,
    /// Stores.
    pub stores: f64,
    /// Lines that loads ask for, in order and elsewhere.
    pub load_lines: [f64; 2],
    /// The same of stores.
    pub store_lines: [f64; 2],
    /// The part of the lines that rests on what had to be assumed.
    pub assumed: f64,
}

impl Asked {
    /// All lines.
    pub fn lines(&self) -> f64 {
        self.load_lines.iter().chain(&self.store_lines).sum()
    }
}

/// Where in an object it is asked for, as far as the text tells.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// Stretches that are asked for, from and to, in bytes from its beginning: in order, and apart from each other.
    pub stretches: Vec<(f64, f64)>,
    /// Lines that loads and stores ask for, by chunk: of a large object, whose size is known.
    pub chunks: Vec<[f64; 2]>,
    /// Lines that are in none of them, as nobody knows where they are.
    pub elsewhere: f64,
    /// A function elsewhere was given it, and may ask for any of it.
    pub given_away: bool,
}

impl Parts {
    /// So many lines of these bytes of an object of this size.
    fn add(&mut self, (from, to): (f64, f64), lines: f64, store: bool, size: f64) {
        let (from, to) = (from.clamp(0.0, size), to.clamp(0.0, size));
        if to <= from {
            self.elsewhere += lines;
            return;
        }
        self.stretch(from, to);
        if let Some(class) = SizeClass::of(Bytes(size as u64)) {
            self.chunks.resize(SizeClass::MOST, [0.0; 2]);
            for at in class.all() {
                let (a, b) = (at.offset().0 as f64, (at.offset() + class.chunk()).0 as f64);
                self.chunks[at.number()][usize::from(store)] +=
                    lines * (to.min(b) - from.max(a)).max(0.0) / (to - from);
            }
        }
    }

    fn stretch(&mut self, mut from: f64, mut to: f64) {
        self.stretches.retain(|&(a, b)| {
            let apart = b < from || a > to;
            if !apart {
                (from, to) = (from.min(a), to.max(b));
            }
            apart
        });
        let at = self.stretches.partition_point(|s| s.0 < from);
        self.stretches.insert(at, (from, to));
        // What lies in very many places lies everywhere between them.
        if self.stretches.len() > MOST_STRETCHES {
            let nearest = (1..self.stretches.len())
                .min_by(|&a, &b| {
                    let gap = |n: usize| self.stretches[n].0 - self.stretches[n - 1].1;
                    gap(a).total_cmp(&gap(b))
                })
                .unwrap_or(1);
            self.stretches[nearest - 1].1 = self.stretches[nearest].1;
            self.stretches.remove(nearest);
        }
    }
}

/// An object.
#[derive(Clone, Debug)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    /// Its size, if known; of several of one path the largest.
    pub bytes: Option<f64>,
    /// Bytes of all of them, as far as their sizes are known.
    pub total: f64,
    /// How many there are.
    pub number: f64,
    /// The loops around its allocation, with their turns.
    made_in: Vec<(String, usize, f64)>,
    /// Of so many of them one is alive at once: they are freed in a loop that they are made in.
    pub in_turn: Option<f64>,
    /// What is asked of it.
    pub asked: Asked,
    /// And where.
    pub parts: Parts,
    /// The moments (number of a mark, 0: the beginning) after which it may be asked for.
    pub moments: BTreeSet<usize>,
}

/// A number, an address in one of some objects (the number being the distance from its beginning), or unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Value {
    /// The number, if known.
    pub number: Option<f64>,
    /// Numbers of objects, sorted.
    pub objects: Vec<usize>,
    /// Where in an object is not known, but taken for its beginning.
    pub somewhere: bool,
    /// It may point to others than these: nothing is known of what lies in some places that it may have been read from.
    pub lacks: bool,
    /// The name of something that it rests on and that is not known.
    pub unsure: Option<Rc<str>>,
}

impl Object {
    /// Bytes that are alive at once, if sizes are known.
    pub fn alive(&self) -> Option<f64> {
        self.bytes.map(|_| self.total / self.in_turn.unwrap_or(1.0))
    }
}

impl Value {
    fn of(number: f64) -> Value {
        Value { number: Some(number).filter(|n| n.is_finite()), objects: vec![], ..Value::default() }
    }

    /// What is made of it, and so rests on the same.
    fn made(&self, number: Option<f64>) -> Value {
        Value { number: number.filter(|n| n.is_finite()), unsure: self.unsure.clone(), ..Value::default() }
    }

    fn add_objects(&mut self, more: &[usize]) {
        self.objects.extend(more);
        self.objects.sort_unstable();
        self.objects.dedup();
        // What may be almost anything is not followed.
        if self.objects.len() > 64 {
            self.objects.clear();
        }
    }

    fn or(mut self, other: Value) -> Value {
        if self.number != other.number {
            self.number = None;
        }
        self.add_objects(&other.objects);
        self.somewhere |= other.somewhere;
        self.lacks |= other.lacks;
        self.unsure = self.unsure.or(other.unsure);
        self
    }
}

/// What lies at a place.
#[derive(Clone, Debug, Default)]
struct Cell {
    /// The number that was written last; one that was read from the command line stays.
    number: Option<f64>,
    read: bool,
    /// The name of what it may be besides, as found in this pass or in the one before: a function that nobody knows may have written a number, or what rests on one.
    unsure: [Option<Rc<str>>; 2],
    objects: BTreeSet<usize>,
}

/// A function being called.
struct Frame<'a> {
    name: &'a str,
    given: Vec<Value>,
    results: Vec<Value>,
}

/// Something that was not known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Assumed {
    /// What was taken for it.
    pub taken: f64,
    /// Lines that rest on it.
    pub lines: f64,
    /// The size of an object rests on it.
    pub sizes: bool,
}

/// The walk.
pub struct Walk<'a> {
    text: &'a Text,
    arguments: &'a [String],
    with: &'a BTreeMap<String, f64>,
    /// Bytes of the cache; 0: not known.
    cache: f64,
    layers: usize,
    /// All objects.
    pub objects: Vec<Object>,
    numbers: HashMap<Kind, usize>,
    memory: HashMap<usize, BTreeMap<Option<i64>, Cell>>,
    /// What had to be assumed, by name.
    pub assumed: BTreeMap<String, Assumed>,
    /// What phases begin with, by number; the first one is the program's beginning, a path of nothing.
    pub marks: Vec<Mark>,
    after: HashMap<(String, i32), BTreeSet<usize>>,
    asking: Vec<String>,
    /// The loops that are gone through turn by turn: what the current turn was handed, and its number.
    turning: Vec<(Vec<f64>, usize)>,
    /// How many parallel regions are being gone through, one in the other.
    regions: usize,
    /// The loops that are being turned: function, number, turns.
    nest: Vec<(String, usize, f64)>,
    steps: usize,
    /// Calls were left out.
    pub cut: bool,
    /// Moments after which something is asked for of which nobody knows what it is.
    pub anything: BTreeSet<usize>,
    /// Something cannot be followed that may ask for anything in any phase: a pointer written to a place that nobody knows, a function that is called through one,
    /// called back, or started as a thread, or a phase that begins in a parallel region, where other threads are elsewhere.
    pub astray: bool,
    /// Texts that were copied to objects: a mark's name, in Fortran.
    copied: HashMap<usize, &'a str>,
    /// A mark's name is made as the program runs, so that its phase is not known.
    pub unnamed: bool,
    /// What functions elsewhere were given and may still have.
    kept: BTreeSet<usize>,
}

impl<'a> Walk<'a> {
    /// The walk through a program with these arguments, numbers for what is unknown, and so many bytes of cache (0: not known).
    pub fn new(text: &'a Text, arguments: &'a [String], with: &'a BTreeMap<String, f64>, cache: f64) -> Walk<'a> {
        Walk {
            text,
            arguments,
            with,
            cache,
            layers: text.layers,
            objects: vec![],
            numbers: HashMap::new(),
            memory: HashMap::new(),
            assumed: BTreeMap::new(),
            marks: vec![Mark::Operation(vec![])],
            after: HashMap::new(),
            asking: vec![],
            turning: vec![],
            regions: 0,
            nest: vec![],
            steps: 0,
            cut: false,
            anything: BTreeSet::new(),
            astray: false,
            copied: HashMap::new(),
            unnamed: false,
            kept: BTreeSet::new(),
        }
    }

    /// Goes through it. False if there is no `main`.
    pub fn run(&mut self) -> bool {
        if !self.text.functions.contains_key("main") {
            return false;
        }
        let all = self.object(Kind::Arguments);
        for k in 0..=self.arguments.len() {
            let one = self.object(Kind::Argument(k));
            self.write(
                &[all],
                Some(8 * k as i64),
                &Value { number: Some(0.0), objects: vec![one], ..Value::default() },
            );
        }
        for (name, variable) in &self.text.variables {
            let object = self.object(Kind::Variable(name.clone()));
            self.objects[object].bytes = Some(variable.bytes);
            self.objects[object].total = variable.bytes;
            self.objects[object].number = 1.0;
            for &(offset, number) in &variable.holds {
                self.write(&[object], Some(offset), &Value::of(number));
            }
            for (offset, target, distance) in &variable.points {
                let to = self.object(Kind::Variable(target.clone()));
                let pointer = Value { number: Some(*distance), objects: vec![to], ..Value::default() };
                self.write(&[object], Some(*offset), &pointer);
            }
        }
        for _ in 0..PASSES {
            (self.steps, self.regions) = (0, 0);
            self.cut = false;
            self.assumed.clear();
            self.anything.clear();
            (self.astray, self.unnamed) = (false, false);
            // What was not known as long as not all had been gone through may be by now.
            for cell in self.memory.values_mut().flat_map(BTreeMap::values_mut) {
                cell.unsure = [None, cell.unsure[0].take()];
            }
            for object in &mut self.objects {
                (object.asked, object.parts) = (Asked::default(), Parts::default());
                if matches!(object.kind, Kind::Heap(_)) {
                    (object.number, object.total, object.in_turn) = (0.0, 0.0, None);
                }
            }
            let given = vec![
                Value::of(self.arguments.len() as f64 + 1.0),
                Value { number: Some(0.0), objects: vec![all], ..Value::default() },
            ];
            self.call("main", given, 1.0, &[], &BTreeSet::from([0]), 0);
        }
        true
    }

    fn object(&mut self, kind: Kind) -> usize {
        if let Some(&n) = self.numbers.get(&kind) {
            return n;
        }
        let n = self.objects.len();
        self.numbers.insert(kind.clone(), n);
        self.objects.push(Object {
            kind,
            bytes: None,
            total: 0.0,
            number: 0.0,
            made_in: vec![],
            in_turn: None,
            asked: Asked::default(),
            parts: Parts::default(),
            moments: BTreeSet::new(),
        });
        n
    }

    /// A call of a function, so often; gives what it gives back.
    fn call(
        &mut self,
        name: &'a str,
        given: Vec<Value>,
        often: f64,
        path: &[u32],
        before: &BTreeSet<usize>,
        depth: usize,
    ) -> Value {
        let text: &'a Text = self.text;
        let Some(function) = text.functions.get(name) else { return Value::default() };
        self.steps += 1;
        if depth > DEEPEST || self.steps > MOST_STEPS {
            self.cut = true;
            return Value::default();
        }
        self.after.entry((name.to_string(), -1)).or_default().extend(before);
        let mut frame = Frame { name, given, results: Vec::with_capacity(function.calls.len()) };
        for (number, call) in function.calls.iter().enumerate() {
            let times = often * self.number(&call.count, &frame).unwrap_or(1.0);
            let moments = self.moments(name, &call.after);
            let mut result = Value::default();
            let mut ends = moments.clone();
            if times > RAREST {
                let given: Vec<Value> = call.given.iter().map(|g| self.value(g, &frame)).collect();
                let mut positions = call.positions.clone();
                if !call.ends {
                    positions.extend(path);
                }
                positions.truncate(self.layers);
                let callees: Vec<&'a str> = match &call.callee {
                    Callee::Name(name) => vec![name],
                    Callee::Pointer(pointer) => self.functions(pointer, &frame),
                };
                // Whatever is called there may ask for anything.
                self.astray |= callees.is_empty();
                let share = times / callees.len().max(1) as f64;
                let outside = self.nest.len();
                for &l in &call.loops {
                    let turns = function.loops.get(l).and_then(|turns| self.number(turns, &frame)).unwrap_or(1.0);
                    self.nest.push((name.to_string(), l, turns.max(1.0)));
                }
                for callee in callees {
                    let value = match text.functions.contains_key(callee) {
                        true => {
                            let value = self.call(callee, given.clone(), share, &positions, &moments, depth + 1);
                            ends = self.moments(callee, &text.functions[callee].last);
                            value
                        }
                        false => match self.library(callee, &given, share, &positions, &moments, depth) {
                            Some(Outcome::Value(value)) => value,
                            Some(Outcome::Mark(mark)) => {
                                ends = BTreeSet::from([mark]);
                                self.astray |= self.regions > 0;
                                let both = moments.iter().copied().chain([mark]).collect();
                                self.reaches(&given, &both, false, library::completes(callee));
                                self.overwritten(&given, call, callee);
                                Value::default()
                            }
                            None => {
                                self.reaches(&given, &moments, true, true);
                                self.overwritten(&given, call, callee);
                                // What is made of what is not known has that name.
                                let from = given.iter().find_map(|g| g.unsure.clone());
                                let name = from.filter(|_| library::known(callee).is_some());
                                self.unknown(name.or_else(|| call.place.as_deref().map(Rc::from)))
                            }
                        },
                    };
                    result = if result == Value::default() { value } else { result.or(value) };
                }
                self.nest.truncate(outside);
            }
            self.after.entry((name.to_string(), number as i32)).or_default().extend(&ends);
            frame.results.push(result);
        }
        self.accesses(function, &frame, often);
        for (to, from) in &function.copies {
            let (to, from) = (self.value(to, &frame), self.value(from, &frame));
            self.copy(&to, &from);
        }
        for (address, value) in &function.writes {
            let (at, value) = (self.value(address, &frame), self.value(value, &frame));
            self.astray |= at.objects.is_empty() && !value.objects.is_empty();
            self.write(&at.objects, at.number.map(|n| n as i64), &value);
        }
        let mut values = function.values.iter().map(|v| self.value(v, &frame)).collect::<Vec<_>>().into_iter();
        values.next().map_or_else(Value::default, |first| values.fold(first, Value::or))
    }

    fn accesses(&mut self, function: &Function, frame: &Frame<'_>, often: f64) {
        for access in &function.accesses {
            self.asking.clear();
            let count = often * self.number(&access.count, frame).unwrap_or(TURNS);
            let lines = (often * self.number(&access.lines, frame).unwrap_or(TURNS)).max(0.0);
            let mut asking = std::mem::take(&mut self.asking);
            asking.sort_unstable();
            asking.dedup();
            let base = self.value(&access.base, frame);
            let moments = self.moments(frame.name, &access.after);
            // However rare it is.
            base.objects.iter().for_each(|&n| self.objects[n].moments.extend(&moments));
            if base.objects.is_empty() {
                self.anything.extend(&moments);
            }
            if count.is_nan() || count <= RAREST {
                continue;
            }
            // What rests on a guess tells nothing of where it is.
            self.asking.clear();
            let part = access.part.as_ref().and_then(|part| self.part(part, frame)).filter(|_| self.asking.is_empty());
            let share = 1.0 / base.objects.len().max(1) as f64;
            for name in &asking {
                self.assumed.entry(name.clone()).or_default().lines += lines;
            }
            for &n in &base.objects {
                let object = &mut self.objects[n];
                let how = usize::from(!access.walks);
                match access.store {
                    true => {
                        object.asked.stores += count * share;
                        object.asked.store_lines[how] += lines * share;
                    }
                    false => {
                        object.asked.loads += count * share;
                        object.asked.load_lines[how] += lines * share;
                    }
                }
                match (part, object.bytes) {
                    (Some((of, part)), Some(size)) if of == n => {
                        object.parts.add(part, lines * share, access.store, size);
                    }
                    _ => object.parts.elsewhere += lines * share,
                }
                if !asking.is_empty() {
                    object.asked.assumed += lines * share;
                }
            }
        }
    }

    /// The object that these accesses are to, if they are to one, and the bytes in it, from and to.
    fn part(&mut self, part: &Part, frame: &Frame<'_>) -> Option<(usize, (f64, f64))> {
        let first = self.value(&part.first, frame);
        let [object] = first.objects[..] else { return None };
        if first.somewhere {
            return None;
        }
        let mut from = first.number?;
        let mut to = from + WORD;
        for [by, turns] in &part.steps {
            let way = self.number(by, frame)? * (self.number(turns, frame)? - 1.0).max(0.0);
            from += way.min(0.0);
            to += way.max(0.0);
        }
        Some((object, (from, to)))
    }

    fn moments(&self, name: &str, after: &[i32]) -> BTreeSet<usize> {
        if after.contains(&text::ANY) {
            return (0..self.marks.len()).collect();
        }
        after.iter().filter_map(|&n| self.after.get(&(name.to_string(), n))).flatten().copied().collect()
    }

    fn functions(&mut self, pointer: &Formula, frame: &Frame<'_>) -> Vec<&'a str> {
        let at = self.value(pointer, frame);
        self.astray |= at.lacks;
        let names = at.objects.iter().filter_map(|&n| match &self.objects[n].kind {
            Kind::Variable(name) => self.text.functions.get_key_value(name.as_str()).map(|(name, _)| name.as_str()),
            _ => None,
        });
        names.collect()
    }

    fn number(&mut self, formula: &Formula, frame: &Frame<'_>) -> Option<f64> {
        self.value(formula, frame).number
    }

    fn value(&mut self, formula: &Formula, frame: &Frame<'_>) -> Value {
        self.steps += 1;
        match formula {
            Formula::Number(n) => Value::of(*n),
            Formula::Given(n) => self.resting(frame.given.get(*n)),
            Formula::Result(n) => self.resting(frame.results.get(*n)),
            Formula::Local(n) => self.address(Kind::Local(frame.name.to_string(), *n)),
            Formula::Global(name) => self.address(Kind::Variable(name.clone())),
            Formula::At(address) => {
                let at = self.value(address, frame);
                self.read(&at)
            }
            Formula::Into(pointer) => Value { number: None, ..self.value(pointer, frame) },
            Formula::Chain(pointer) => {
                let mut value = self.value(pointer, frame);
                let all: Vec<usize> = self.led_to(&value.objects).into_iter().collect();
                value.add_objects(&all);
                value
            }
            Formula::Any(all) => {
                let mut values = all.iter().map(|f| self.value(f, frame)).collect::<Vec<_>>().into_iter();
                values.next().map_or_else(Value::default, |first| values.fold(first, Value::or))
            }
            Formula::If(parts) => {
                let [condition, yes, no] = &**parts;
                match self.number(condition, frame) {
                    Some(0.0) => self.value(no, frame),
                    Some(_) => self.value(yes, frame),
                    None => {
                        let (yes, no) = (self.value(yes, frame), self.value(no, frame));
                        let larger = match (yes.number, no.number) {
                            (Some(a), Some(b)) => Some(a.max(b)),
                            (a, b) => a.or(b),
                        };
                        Value { number: larger, ..yes.or(no) }
                    }
                }
            }
            Formula::Two(op, parts) => {
                let (a, b) = (self.value(&parts[0], frame), self.value(&parts[1], frame));
                two(*op, a, b)
            }
            Formula::One(op, part) => {
                let part = self.value(part, frame);
                part.made(part.number.map(|n| match op {
                    One::Root => n.sqrt(),
                    One::Floor => n.floor(),
                    One::Ceil => n.ceil(),
                    One::Round => n.round(),
                    One::Truncate => n.trunc(),
                    One::Absolute => n.abs(),
                }))
            }
            Formula::Unknown(name, otherwise) => {
                if let Some(&number) = self.with.get(name) {
                    return Value::of(number);
                }
                let mut value = match **otherwise {
                    // Nothing can be taken for it.
                    Formula::Number(0.0) => Value::default(),
                    _ => self.value(otherwise, frame),
                };
                if !name.is_empty() {
                    self.assume(name, value.number);
                    value.unsure = Some(name.as_str().into());
                }
                value
            }
            Formula::Turns(turns) => match self.turned(turns, frame) {
                Some(number) => Value::of(number),
                None => self.value(&turns.otherwise, frame),
            },
            Formula::State(n) => Value {
                number: self.turning.last().and_then(|(state, _)| state.get(*n).copied()),
                objects: vec![],
                ..Value::default()
            },
            Formula::Cache => Value::of(self.cache),
            Formula::Turn => Value::of(self.turning.last().map_or(f64::NAN, |&(_, turn)| turn as f64)),
            Formula::Share(parts) => {
                let [base, bytes, turns] = &**parts;
                let base = self.value(base, frame);
                let (bytes, turns) = (self.number(bytes, frame), self.number(turns, frame));
                let size = base.objects.iter().filter_map(|&n| self.objects[n].bytes).fold(0.0, f64::max);
                match (bytes, turns) {
                    (Some(bytes), Some(turns)) if size > 0.0 && bytes > 0.0 && turns > 0.0 => {
                        Value::of((size / bytes / turns).max(1.0))
                    }
                    _ => Value::of(TURNS),
                }
            }
        }
    }

    /// Goes through a loop whose turns follow from each other: what it comes to, if all is known.
    fn turned(&mut self, turns: &Turns, frame: &Frame<'_>) -> Option<f64> {
        let state = turns.starts.iter().map(|f| self.number(f, frame)).collect::<Option<Vec<f64>>>()?;
        self.turning.push((state, 1));
        let left = self.turn_by_turn(turns, frame);
        self.turning.pop();
        left
    }

    fn turn_by_turn(&mut self, turns: &Turns, frame: &Frame<'_>) -> Option<f64> {
        for turn in 1..=MOST_TURNS {
            for [ends, left] in &turns.ends {
                if self.number(ends, frame)? != 0.0 {
                    return self.number(left, frame);
                }
            }
            let next = turns.nexts.iter().map(|f| self.number(f, frame)).collect::<Option<Vec<f64>>>()?;
            *self.turning.last_mut()? = (next, turn + 1);
        }
        None
    }

    fn address(&mut self, kind: Kind) -> Value {
        Value { number: Some(0.0), objects: vec![self.object(kind)], ..Value::default() }
    }

    /// Something of this name is not known, and this is taken for it.
    fn assume(&mut self, name: &str, number: Option<f64>) {
        self.assumed.entry(name.to_string()).or_default().taken = number.unwrap_or(0.0);
        self.asking.push(name.to_string());
    }

    /// What was handed on, and may rest on something that is not known.
    fn resting(&mut self, value: Option<&Value>) -> Value {
        let Some(value) = value.cloned() else { return Value::default() };
        self.asking.extend(value.unsure.as_deref().map(str::to_string));
        value
    }

    /// What a function elsewhere gives back.
    fn unknown(&mut self, name: Option<Rc<str>>) -> Value {
        let Some(name) = name else { return Value::default() };
        if let Some(&number) = self.with.get(&*name) {
            return Value::of(number);
        }
        self.assume(&name, None);
        Value { unsure: Some(name), ..Value::default() }
    }

    fn read(&mut self, at: &Value) -> Value {
        let mut found = Value::default();
        let mut first = true;
        let mut unsure = None;
        let mut lacks = at.lacks;
        for n in &at.objects {
            let Some(cells) = self.memory.get(n) else {
                lacks = true;
                continue;
            };
            self.steps += cells.len();
            let mut points = false;
            let offset = at.number.map(|n| n as i64);
            // Where one of them is not known, it may be any.
            let near = cells.iter().filter(|(o, _)| offset.is_none() || o.is_none() || **o == offset);
            for (o, cell) in near {
                found.add_objects(&cell.objects.iter().copied().collect::<Vec<_>>());
                points |= !cell.objects.is_empty();
                if o.is_some() && offset.is_some() {
                    let name = cell.unsure.iter().flatten().next();
                    let said = name.and_then(|name| self.with.get(&**name)).copied();
                    let number = said.or(cell.number);
                    found.number = if first { number } else { found.number.filter(|n| number == Some(*n)) };
                    first = false;
                    unsure = unsure.or_else(|| name.filter(|_| said.is_none()).cloned());
                }
            }
            lacks |= !points;
        }
        found.lacks = lacks && !found.objects.is_empty();
        if !found.objects.is_empty() && found.number.is_none() {
            // Pointers are to the beginning of what they point to, as far as is known.
            (found.number, found.somewhere) = (Some(0.0), true);
        }
        if let Some(name) = unsure.filter(|_| found.objects.is_empty()) {
            self.assume(&name, found.number);
            found.unsure = Some(name);
        }
        found
    }

    /// What lies from one address on lies from another one on, too; as much of it as there is, since nobody counts.
    fn copy(&mut self, to: &Value, from: &Value) {
        for &source in &from.objects {
            let cells: Vec<(Option<i64>, Cell)> =
                self.memory.get(&source).into_iter().flatten().map(|(o, cell)| (*o, cell.clone())).collect();
            self.steps += cells.len() * to.objects.len();
            for &n in to.objects.iter().filter(|n| **n != source) {
                if let Some(text) = self.text_of(source) {
                    self.copied.insert(n, text);
                }
                for (at, cell) in &cells {
                    let distance =
                        at.zip(from.number).zip(to.number).map(|((at, from), to)| at - from as i64 + to as i64);
                    let number = cell.number.filter(|_| distance.is_some() && cell.objects.is_empty());
                    // A pointer's number is the distance in what it points to.
                    let number = number.or(Some(0.0).filter(|_| !cell.objects.is_empty()));
                    let somewhere = !cell.objects.is_empty() && cell.number != Some(0.0);
                    let objects = cell.objects.iter().copied().collect();
                    let unsure = cell.unsure.iter().flatten().next().cloned();
                    self.write(&[n], distance, &Value { number, objects, somewhere, lacks: false, unsure });
                }
            }
        }
    }

    /// A function that nobody knows was given these, and may have written to all that lies behind addresses among them. The number at the first of these is named
    /// by where the call is, those at the others by their place among them as well (`a.c:5#2`), and those behind by how many bytes they are away (`a.c:5+8`).
    fn overwritten(&mut self, given: &[Value], call: &Call, callee: &str) {
        let Some(place) = call.place.as_deref() else { return };
        let written = call.written.iter().filter(|&&n| !library::leaves(callee, n)).filter_map(|&n| given.get(n));
        for (which, value) in written.filter(|value| !value.objects.is_empty()).enumerate() {
            let which = if which == 0 { String::new() } else { format!("#{}", which + 1) };
            let from = value.number.filter(|_| !value.somewhere).map(|n| n as i64);
            for &n in &value.objects {
                let cells = self.memory.entry(n).or_default();
                self.steps += cells.len();
                if from.is_some() {
                    cells.entry(from).or_default();
                }
                let behind =
                    cells.iter_mut().filter_map(|(at, cell)| Some(((*at)?.saturating_sub(from.unwrap_or(0)), cell)));
                for (distance, cell) in behind.filter(|(distance, cell)| *distance >= 0 && !cell.read) {
                    let away = if distance == 0 { String::new() } else { format!("+{distance}") };
                    cell.unsure[0].get_or_insert_with(|| format!("{place}{which}{away}").into());
                }
            }
        }
    }

    fn write(&mut self, objects: &[usize], offset: Option<i64>, value: &Value) {
        for &n in objects {
            let cell = self.memory.entry(n).or_default().entry(offset).or_default();
            if let Some(number) = value.number.filter(|_| !cell.read && !value.somewhere) {
                cell.number = Some(number);
            }
            if let Some(name) = value.unsure.clone().filter(|_| !cell.read && value.objects.is_empty()) {
                // What a variable holds that nobody has set yet tells nothing of what it will be set to.
                cell.number = cell.number.filter(|n| value.number.is_some() || *n != 0.0);
                cell.unsure[0].get_or_insert(name);
            }
            cell.objects.extend(&value.objects);
        }
    }

    /// What a function does that is not in the text.
    fn library(
        &mut self,
        name: &str,
        given: &[Value],
        often: f64,
        path: &[u32],
        before: &BTreeSet<usize>,
        depth: usize,
    ) -> Option<Outcome> {
        let number = |n: usize| given.get(n).and_then(|g| g.number);
        let pointer = |n: usize| given.get(n).map(|g| (g.objects.clone(), g.number.map(|n| n as i64)));
        let value = match library::known(name)? {
            Known::Mark => {
                return Some(Outcome::Mark(self.mark(Mark::Operation(path.to_vec()))));
            }
            Known::NamedMark => {
                let name = given.first().and_then(|g| g.objects.iter().find_map(|&n| self.text_of(n)));
                self.unnamed |= name.is_none();
                let name = name?.to_string();
                return Some(Outcome::Mark(self.mark(Mark::Name(name))));
            }
            Known::Allocates(sizes) => {
                let bytes = sizes.iter().map(|&n| number(n)).try_fold(1.0, |all, n| Some(all * n?));
                self.sizes(sizes.iter().filter_map(|&n| given.get(n)));
                let object = self.allocated(path, bytes, often);
                // What is enlarged keeps what it holds.
                if let (Some((old, _)), "realloc" | "reallocarray") = (pointer(0), name) {
                    for cells in old.iter().filter_map(|n| self.memory.get(n).cloned()).collect::<Vec<_>>() {
                        self.memory.entry(object).or_default().extend(cells);
                    }
                }
                Value { number: Some(0.0), objects: vec![object], ..Value::default() }
            }
            Known::AllocatesInto(at, size) => {
                self.sizes(given.get(size));
                let object = self.allocated(path, number(size), often);
                let (objects, offset) = pointer(at)?;
                self.write(&objects, offset, &Value { number: Some(0.0), objects: vec![object], ..Value::default() });
                Value::of(0.0)
            }
            Known::Frees(at) => {
                for n in given.get(at)?.objects.clone() {
                    self.freed(n, often);
                }
                Value::default()
            }
            Known::FreesDescriptor => {
                for n in self.read(given.first()?).objects {
                    self.freed(n, often);
                }
                Value::default()
            }
            Known::Descriptor => {
                let (boxes, offset) = pointer(0)?;
                let at = |field: i64| Value {
                    number: offset.map(|o| (o + field) as f64),
                    objects: boxes.clone(),
                    ..Value::default()
                };
                // Flang's descriptor: address, bytes of an element, then of each dimension the lower bound, the extent, the stride.
                let extents: Vec<Value> =
                    (0..15).map(|d| self.read(&at(32 + 24 * d))).take_while(|e| e.number.is_some()).collect();
                self.sizes(&extents);
                let elements: f64 = extents.iter().filter_map(|e| e.number).product();
                let bytes = self.read(&at(8)).number.map(|bytes| elements * bytes);
                let object = self.allocated(path, bytes, often);
                self.write(&boxes, offset, &Value { number: Some(0.0), objects: vec![object], ..Value::default() });
                Value::of(0.0)
            }
            Known::Bounds => {
                let ((boxes, offset), dimension) = (pointer(0)?, number(1)? as i64);
                let extent = number(3)? - number(2)? + 1.0;
                let unsure = given[2].unsure.clone().or_else(|| given[3].unsure.clone());
                let extent = Value { unsure, ..Value::of(extent) };
                self.write(&boxes, offset.map(|o| o + 32 + 24 * dimension), &extent);
                Value::default()
            }
            Known::Number => {
                let texts = &given.first()?.objects;
                let text = texts.iter().find_map(|&n| self.argument(n))?;
                Value::of(library::parsed(&text)?)
            }
            Known::Argument => {
                let (boxes, offset) = pointer(1)?;
                let text = Value { number: offset.map(|o| o as f64), objects: boxes, ..Value::default() };
                let into = self.read(&text).objects;
                let one = self.object(Kind::Argument(number(0)? as usize));
                self.write(&into, None, &Value { number: Some(0.0), objects: vec![one], ..Value::default() });
                Value::of(0.0)
            }
            Known::Environment => {
                let name = given.first()?.objects.iter().find_map(|&n| self.text_of(n))?;
                match std::env::var(name) {
                    Ok(text) => {
                        let object = self.object(Kind::Environment(text));
                        Value { number: Some(0.0), objects: vec![object], ..Value::default() }
                    }
                    Err(_) => Value::of(0.0),
                }
            }
            Known::ArgumentCount => Value::of(self.arguments.len() as f64),
            Known::Input => {
                let at = Value { number: None, objects: given.first()?.objects.clone(), ..Value::default() };
                Value { number: Some(0.0), objects: self.read(&at).objects, ..Value::default() }
            }
            Known::Read => {
                let text = given.first()?.objects.iter().find_map(|&n| self.argument(n))?;
                let (objects, offset) = pointer(1)?;
                let number = library::parsed(&text)?;
                for n in objects {
                    let cell = self.memory.entry(n).or_default().entry(offset).or_default();
                    (cell.number, cell.read, cell.unsure) = (Some(number), true, [None, None]);
                }
                Value::of(1.0)
            }
            Known::Calls(function, argument) => {
                let callee = given.get(function)?.objects.iter().find_map(|&n| match &self.objects[n].kind {
                    Kind::Variable(name) => {
                        self.text.functions.get_key_value(name.as_str()).map(|(name, _)| name.as_str())
                    }
                    _ => None,
                })?;
                // It may go on in any phase that follows.
                self.astray = true;
                let argument = given.get(argument).cloned().unwrap_or_default();
                self.call(callee, vec![argument], often, &[], before, depth + 1);
                Value::of(0.0)
            }
            Known::Copies(to, from) => {
                let bytes =
                    |w: &Walk<'_>, v: &Value| v.objects.iter().filter_map(|&n| w.objects[n].bytes).fold(0.0, f64::max);
                for (box_, store) in [(to, true), (from, false)] {
                    let at = given.get(box_)?.clone();
                    let array = self.read(&at);
                    let size = bytes(self, &array);
                    for &n in &array.objects {
                        self.objects[n].moments.extend(before);
                        let asked = &mut self.objects[n].asked;
                        let (count, lines) = match store {
                            true => (&mut asked.stores, &mut asked.store_lines[0]),
                            false => (&mut asked.loads, &mut asked.load_lines[0]),
                        };
                        *count += often * size / 8.0;
                        *lines += often * size / 64.0;
                        self.objects[n].parts.elsewhere += often * size / 64.0;
                    }
                }
                Value::default()
            }
            Known::Reckons(function) => {
                let numbers: Option<Vec<f64>> = (0..given.len().min(2)).map(number).collect();
                let unsure = given.iter().find_map(|g| g.unsure.clone());
                Value { unsure, ..Value::of(function(&numbers?)?) }
            }
            Known::Forks => {
                self.regions += 1;
                Value::default()
            }
            Known::Joins => {
                self.regions = self.regions.saturating_sub(1);
                Value::default()
            }
        };
        Some(Outcome::Value(value))
    }

    /// What is done elsewhere may ask for all that it is given, and for what that leads to; if it `keeps` what it was given, also later, when something else
    /// is done elsewhere, as the completion of a transfer.
    fn reaches(&mut self, given: &[Value], moments: &BTreeSet<usize>, keeps: bool, asks_kept: bool) {
        let first: Vec<usize> = given.iter().flat_map(|g| g.objects.iter().copied()).collect();
        let mut all = self.led_to(&first);
        self.steps += all.len();
        // What calls back may do so at any time.
        let is_function = |n: &usize| match &self.objects[*n].kind {
            Kind::Variable(name) => self.text.functions.contains_key(name),
            _ => false,
        };
        self.astray |= all.iter().any(is_function);
        if keeps {
            self.kept.extend(&all);
        }
        if asks_kept {
            all.extend(&self.kept);
        }
        for n in all {
            self.objects[n].moments.extend(moments);
            self.objects[n].parts.given_away = true;
        }
    }

    /// These objects, and all that pointers in them lead to.
    fn led_to(&self, from: &[usize]) -> BTreeSet<usize> {
        let mut open = from.to_vec();
        let mut seen: BTreeSet<usize> = from.iter().copied().collect();
        while let Some(n) = open.pop() {
            let cells = self.memory.get(&n).into_iter().flat_map(BTreeMap::values);
            open.extend(cells.flat_map(|c| &c.objects).copied().filter(|&o| seen.insert(o)));
        }
        seen
    }

    fn mark(&mut self, mark: Mark) -> usize {
        self.marks.iter().position(|m| *m == mark).unwrap_or_else(|| {
            self.marks.push(mark);
            self.marks.len() - 1
        })
    }

    /// The text that a variable is.
    fn text_of(&self, object: usize) -> Option<&'a str> {
        let text: &'a Text = self.text;
        match &self.objects[object].kind {
            Kind::Variable(name) => text.variables.get(name).map(|v| v.text.as_str()).filter(|t| !t.is_empty()),
            _ => self.copied.get(&object).copied(),
        }
    }

    /// The text of an argument, or of the environment.
    fn argument(&self, object: usize) -> Option<String> {
        match &self.objects[object].kind {
            Kind::Argument(0) => None,
            Kind::Argument(n) => self.arguments.get(n - 1).cloned(),
            Kind::Environment(text) => Some(text.clone()),
            _ => None,
        }
    }

    /// What is freed in a loop in which it was made is there for a turn. Where several calls free it the outermost one counts, as pointers are often freed that are
    /// null before they are set; not those that are rare, of errors.
    fn freed(&mut self, n: usize, often: f64) {
        let object = &mut self.objects[n];
        if often < 0.3 * object.number {
            return;
        }
        let common = object.made_in.iter().zip(&self.nest).take_while(|(a, b)| (&a.0, a.1) == (&b.0, b.1));
        let turns: f64 = common.map(|(a, _)| a.2).product();
        object.in_turn = Some(object.in_turn.map_or(turns, |t| t.min(turns)));
    }

    /// An object is as large as these say.
    fn sizes<'v>(&mut self, numbers: impl IntoIterator<Item = &'v Value>) {
        for name in numbers.into_iter().filter_map(|n| n.unsure.as_deref()) {
            self.assumed.entry(name.to_string()).or_default().sizes = true;
        }
    }

    fn allocated(&mut self, path: &[u32], bytes: Option<f64>, often: f64) -> usize {
        let n = self.object(Kind::Heap(path.to_vec()));
        let object = &mut self.objects[n];
        object.made_in.clone_from(&self.nest);
        // Since the last pass more may have been found that its size may rest on.
        if object.number == 0.0 {
            object.bytes = None;
        }
        if let Some(bytes) = bytes.filter(|b| (0.0..ADDRESSABLE).contains(b)) {
            object.bytes = Some(object.bytes.unwrap_or(0.0).max(bytes));
            // Of one that is perhaps made there is one.
            object.total += bytes * if often > 0.3 { often.max(1.0) } else { often };
        }
        object.number += often;
        n
    }
}

/// What came of a call of a function that is not in the text.
enum Outcome {
    Value(Value),
    Mark(usize),
}

fn two(op: Two, a: Value, b: Value) -> Value {
    let somewhere = a.somewhere || b.somewhere;
    let lacks = a.lacks || b.lacks;
    let unsure = a.unsure.clone().or_else(|| b.unsure.clone());
    let numbers = a.number.zip(b.number);
    let whole = |(x, y): (f64, f64)| if y == 0.0 { f64::NAN } else { (x / y).trunc() };
    let number = numbers.map(|(x, y)| match op {
        Two::Add => x + y,
        Two::Sub => x - y,
        Two::Mul => x * y,
        Two::Div => x / y,
        Two::Whole => whole((x, y)),
        Two::Rest => x % y,
        Two::Left => x * y.exp2(),
        Two::Right => (x / y.exp2()).floor(),
        Two::And => ((x as i64) & (y as i64)) as f64,
        Two::Min => x.min(y),
        Two::Max => x.max(y),
        Two::Power => x.powf(y),
        Two::Less => f64::from(u8::from(x < y)),
        Two::AtMost => f64::from(u8::from(x <= y)),
        Two::Same => f64::from(u8::from(x == y)),
        Two::Other => f64::from(u8::from(x != y)),
    });
    // Where one is known, so is which one counts.
    let number = number.or(match op {
        Two::Max | Two::Min => a.number.or(b.number),
        _ => None,
    });
    let pointers = !a.objects.is_empty() && !b.objects.is_empty();
    let (number, objects) = match op {
        // Two pointers that may be to different objects tell nothing.
        Two::Same | Two::Other if pointers => {
            ((a.objects.len() == 1 && a.objects == b.objects).then_some(number).flatten(), vec![])
        }
        // A pointer that is one is not 0.
        Two::Same if !a.objects.is_empty() || !b.objects.is_empty() => (Some(0.0), vec![]),
        Two::Other if !a.objects.is_empty() || !b.objects.is_empty() => (Some(1.0), vec![]),
        Two::Add => {
            let mut all = a;
            all.add_objects(&b.objects);
            (number, all.objects)
        }
        Two::Sub if pointers => (number, vec![]),
        Two::Sub | Two::And => (number, a.objects),
        _ => (number, vec![]),
    };
    let lacks = lacks && !objects.is_empty();
    Value { number: number.filter(|n| n.is_finite()), objects, somewhere, lacks, unsure }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_that_touch_are_one_and_lines_lie_in_their_chunks() {
        let mib = f64::from(1 << 20);
        let mut parts = Parts::default();
        parts.add((8.0 * mib, 12.0 * mib), 100.0, false, 64.0 * mib);
        parts.add((40.0 * mib, 44.0 * mib), 30.0, true, 64.0 * mib);
        parts.add((12.0 * mib, 14.0 * mib), 10.0, false, 64.0 * mib);
        parts.add((70.0 * mib, 80.0 * mib), 1.0, false, 64.0 * mib);
        assert_eq!(parts.stretches, [(8.0 * mib, 14.0 * mib), (40.0 * mib, 44.0 * mib)]);
        assert_eq!(parts.elsewhere, 1.0, "behind its end");
        // Chunks of 4 MiB.
        assert_eq!(parts.chunks[2], [100.0, 0.0]);
        assert_eq!((parts.chunks[3], parts.chunks[10]), ([10.0, 0.0], [0.0, 30.0]));
        assert_eq!(parts.chunks.iter().flatten().sum::<f64>(), 140.0);
        for n in 0..1000 {
            parts.stretch(f64::from(n * 100), f64::from(n * 100 + n % 7));
        }
        assert!(parts.stretches.len() <= MOST_STRETCHES);
        assert!(parts.stretches.windows(2).all(|w| w[0].1 < w[1].0));
    }
}
