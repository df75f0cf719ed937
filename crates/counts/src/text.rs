//! The section `hearth_counts` of a program: what `compiler/counts.cpp` has found of each function. Lines of words with tabs between:
//!
//! - `F name`: a function begins. `X number formula`: from here on this formula is spoken of as `#number` in it.
//! - `N number turns`: a loop.
//! - `C number count callee positions moments loops given...`: a call. Positions are those it adds to the call path, innermost first, 0 where the path ends.
//! - `P number place written`: where that call is in the source, if it leaves what nobody knows where its function is elsewhere: by its result, or by what it writes
//!   to addresses that it is given (their places among its arguments).
//! - `M l|s count lines walks|jumps base moments [first [step turns]...]`: loads or stores, the lines they ask for, and of what; moments `=` are those of the
//!   access before. They begin at the address `first`, which changes by such steps as loops turn.
//! - `W address value`: what is written there. `Y to from`: what lies from one address on is copied to another.
//! - `V value`: what it gives back. `E moments`: the last ones before it ends.
//! - `L n`: call paths have so many positions at most.
//! - `G name bytes`, `K name offset number`, `A name offset target distance`: a variable, and numbers and pointers that it holds at the start; `T name text`: a text.
//!
//! Names of calls that begin with a dot are no function's: `.fork` and `.join` stand around a parallel region, `.asm` is inline assembly, and `.elsewhere` is given a
//! function that is called at some time.
//!
//! Moments are the calls after which something happens: -1 is the function's own beginning, [`ANY`] any call of the program.

use crate::formula::Formula;
use std::collections::HashMap;

/// Where what happened last is not known: control came there by an exception or by `longjmp`.
pub const ANY: i32 = -2;

/// A call.
#[derive(Clone, Debug)]
pub struct Call {
    /// How often for each call of its function.
    pub count: Formula,
    /// The name of what is called, or how it is found.
    pub callee: Callee,
    /// What it adds to the call path, innermost first.
    pub positions: Vec<u32>,
    /// Nothing of the callers is on the path.
    pub ends: bool,
    /// The calls one of which was the last one before.
    pub after: Vec<i32>,
    /// Numbers of the loops around it, the outermost first.
    pub loops: Vec<usize>,
    /// What it is given.
    pub given: Vec<Formula>,
    /// Where it is in the source: the name of what nobody knows if its function is elsewhere.
    pub place: Option<String>,
    /// Its arguments by which such a function may write numbers.
    pub written: Vec<usize>,
}

/// What a call calls.
#[derive(Clone, Debug)]
pub enum Callee {
    /// By its name.
    Name(String),
    /// Through a pointer.
    Pointer(Formula),
}

/// Loads or stores of one kind.
#[derive(Clone, Debug)]
pub struct Access {
    /// It stores.
    pub store: bool,
    /// How often for each call of its function.
    pub count: Formula,
    /// Lines that it asks for.
    pub lines: Formula,
    /// In order, or with the same place again and again.
    pub walks: bool,
    /// An address in the object.
    pub base: Formula,
    /// Where in it they lie; none: anywhere.
    pub part: Option<Part>,
    /// As of a call.
    pub after: Vec<i32>,
}

/// Where in an object accesses lie.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The first address.
    pub first: Formula,
    /// For each loop, bytes from one turn to the next, and turns.
    pub steps: Vec<[Formula; 2]>,
}

/// A function.
#[derive(Clone, Debug, Default)]
pub struct Function {
    /// How often each loop turns when it is come to.
    pub loops: Vec<Formula>,
    written: Vec<Formula>,
    /// Calls, by number.
    pub calls: Vec<Call>,
    /// Accesses.
    pub accesses: Vec<Access>,
    /// What the one that was read last comes after.
    latest: Vec<i32>,
    /// Address and value of what it writes.
    pub writes: Vec<(Formula, Formula)>,
    /// Where it copies what lies from an address on: to, from.
    pub copies: Vec<(Formula, Formula)>,
    /// What it may give back.
    pub values: Vec<Formula>,
    /// The last calls before it ends.
    pub last: Vec<i32>,
}

/// A variable.
#[derive(Clone, Debug, Default)]
pub struct Variable {
    /// Its size.
    pub bytes: f64,
    /// Numbers that it holds at the start, by offset.
    pub holds: Vec<(i64, f64)>,
    /// Pointers that it holds at the start, by offset: to a variable or function, so far from its beginning.
    pub points: Vec<(i64, String, f64)>,
    /// The text that it is, blanks as `_`.
    pub text: String,
}

/// All of a program.
#[derive(Debug)]
pub struct Text {
    /// Positions that a call path has at most.
    pub layers: usize,
    /// Functions by name.
    pub functions: HashMap<String, Function>,
    /// Variables by name.
    pub variables: HashMap<String, Variable>,
}

impl Text {
    /// Puts what a library tells behind it. Of what both have the first one counts, as for the loader.
    pub fn add(&mut self, library: Text) {
        for (name, function) in library.functions {
            self.functions.entry(name).or_insert(function);
        }
        for (name, variable) in library.variables {
            self.variables.entry(name).or_insert(variable);
        }
    }

    /// Reads the section; what cannot be read of it is left out. Of functions that several files have the first one counts.
    pub fn read(section: &[u8]) -> Text {
        let mut text = Text { layers: 3, functions: HashMap::new(), variables: HashMap::new() };
        let section = String::from_utf8_lossy(section);
        let mut current: Option<(String, Function)> = None;
        let end = |at: &mut Option<(String, Function)>, functions: &mut HashMap<String, Function>| {
            if let Some((name, function)) = at.take() {
                functions.entry(name).or_insert(function);
            }
        };
        for line in section.split(['\n', '\0']) {
            let words: Vec<&str> = line.split('\t').collect();
            match words[..] {
                ["F", name] => {
                    end(&mut current, &mut text.functions);
                    current = Some((name.to_string(), Function::default()));
                }
                ["L", n] => text.layers = n.parse().unwrap_or(3).clamp(1, 3),
                // Files come one behind the other, and each begins with its variables.
                ["G", name, bytes] => {
                    end(&mut current, &mut text.functions);
                    let variable = text.variables.entry(name.to_string()).or_default();
                    variable.bytes = bytes.parse().unwrap_or(0.0);
                    variable.holds.clear();
                    variable.points.clear();
                }
                ["T", name, words] => {
                    if let Some(v) = text.variables.get_mut(name) {
                        v.text = words.to_string();
                    }
                }
                ["A", name, offset, target, distance] => {
                    if let (Some(v), Ok(offset), Ok(distance)) =
                        (text.variables.get_mut(name), offset.parse(), distance.parse())
                    {
                        v.points.push((offset, target.to_string(), distance));
                    }
                }
                ["K", name, offset, number] => {
                    if let (Some(v), Ok(offset), Ok(number)) =
                        (text.variables.get_mut(name), offset.parse(), number.parse())
                    {
                        v.holds.push((offset, number));
                    }
                }
                _ => {
                    if let Some((_, function)) = &mut current {
                        function.take(&words);
                    }
                }
            }
        }
        end(&mut current, &mut text.functions);
        text
    }
}

impl Function {
    fn formula(&self, word: &str) -> Option<Formula> {
        match word.strip_prefix('#') {
            Some(number) => self.written.get(number.parse::<usize>().ok()?).cloned(),
            None => Formula::read(word),
        }
    }

    fn part(&self, words: &[&str]) -> Option<Part> {
        let (first, steps) = words.split_first()?;
        let step = |pair: &[&str]| Some([self.formula(pair.first()?)?, self.formula(pair.get(1)?)?]);
        Some(Part { first: self.formula(first)?, steps: steps.chunks(2).map(step).collect::<Option<_>>()? })
    }

    fn take(&mut self, words: &[&str]) -> Option<()> {
        match *words {
            ["X", number, formula] => {
                if number.parse() != Ok(self.written.len()) {
                    return None;
                }
                self.written.push(Formula::read(formula).unwrap_or_else(unknown));
            }
            ["N", number, turns] => {
                if number.parse() != Ok(self.loops.len()) {
                    return None;
                }
                let turns = self.formula(turns).unwrap_or(Formula::Number(1.0));
                self.loops.push(turns);
            }
            ["C", number, count, callee, positions, after, loops, ref given @ ..] => {
                // They come in order; one that cannot be read would give its number to the next.
                if number.parse() != Ok(self.calls.len()) {
                    return None;
                }
                let mut path: Vec<u32> =
                    positions.split(',').filter(|p| !p.is_empty()).filter_map(|p| p.parse().ok()).collect();
                let ends = path.last() == Some(&0);
                path.retain(|&p| p != 0);
                let call = Call {
                    count: self.formula(count).unwrap_or(Formula::Number(1.0)),
                    callee: match callee.strip_prefix("? ") {
                        Some(pointer) => Callee::Pointer(self.formula(pointer).unwrap_or(Formula::Number(0.0))),
                        None => Callee::Name(callee.to_string()),
                    },
                    positions: path,
                    ends,
                    after: numbers(after),
                    loops: numbers(loops).into_iter().filter_map(|n| usize::try_from(n).ok()).collect(),
                    given: given.iter().map(|g| self.formula(g).unwrap_or_else(unknown)).collect(),
                    place: None,
                    written: vec![],
                };
                self.calls.push(call);
            }
            ["P", number, place, written] => {
                let call = self.calls.get_mut(number.parse::<usize>().ok()?)?;
                call.place = Some(place.to_string());
                call.written = numbers(written).into_iter().filter_map(|n| usize::try_from(n).ok()).collect();
            }
            ["M", kind, count, lines, how, base, after, ref part @ ..] => {
                if after != "=" {
                    self.latest = numbers(after);
                }
                let access = Access {
                    store: kind == "s",
                    count: self.formula(count)?,
                    lines: self.formula(lines)?,
                    walks: how == "walks",
                    base: self.formula(base)?,
                    part: self.part(part),
                    after: self.latest.clone(),
                };
                self.accesses.push(access);
            }
            ["W", address, value] => {
                let write = (self.formula(address)?, self.formula(value)?);
                self.writes.push(write);
            }
            ["Y", to, from] => {
                let copy = (self.formula(to)?, self.formula(from)?);
                self.copies.push(copy);
            }
            ["V", value] => {
                let value = self.formula(value)?;
                self.values.push(value);
            }
            ["E", last] => self.last = numbers(last),
            _ => return None,
        }
        Some(())
    }
}

fn unknown() -> Formula {
    Formula::Unknown(String::new(), Box::new(Formula::Number(0.0)))
}

fn numbers(text: &str) -> Vec<i32> {
    text.split(',').filter_map(|n| n.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_read_and_what_is_damaged_is_left_out() {
        let section = "G\tn\t8\nK\tn\t0\t5\nA\tn\t8\tmain\t0\nA\tn\tx\tmain\t0\nF\tmain\nN\t0\t10\nX\t0\t* 8 @ gn\nC\t0\t1\tmalloc\t7,8,0\t-1\t0\t#0\nC\t1\tx y\t? r0\t\t0\t\tp0\t+\nP\t0\tx.c:7\t0,2\nP\t5\ty\t\nP\t1\tz\n\
            M\ts\t10\t1.25\twalks\tr0\t0,1\nM\ts\tnone\t1\twalks\tr0\t1\nM\tl\t10\t0\twalks\tr0\t=\t+ r0 8\t#0\t10\nM\ts\t10\nW\tgn\t3\nY\tp0\tgn\nY\tp0\nV\t0\nE\t1\nF\tmain\n\0nonsense\nG\n";
        let text = Text::read(section.as_bytes());
        assert_eq!(text.variables["n"].holds, [(0, 5.0)]);
        assert_eq!(text.variables["n"].points, [(8, "main".to_string(), 0.0)]);
        let main = &text.functions["main"];
        assert_eq!(main.accesses[0].part, None);
        let formula = |text| Formula::read(text).unwrap();
        let part = Part { first: formula("+ r0 8"), steps: vec![[formula("* 8 @ gn"), formula("10")]] };
        assert_eq!(main.accesses[1].part, Some(part));
        assert_eq!((main.calls.len(), main.accesses.len(), main.writes.len(), &main.last[..]), (2, 2, 1, &[1][..]));
        assert_eq!((main.calls[0].place.as_deref(), main.calls[1].place.as_deref()), (Some("x.c:7"), None));
        assert_eq!(main.calls[0].written, [0, 2]);
        assert_eq!(Some(&main.calls[0].given[0]), Formula::read("* 8 @ gn").as_ref());
        assert_eq!((&main.calls[0].positions[..], main.calls[0].ends), (&[7, 8][..], true));
        assert!(matches!(main.calls[1].callee, Callee::Pointer(Formula::Result(0))) && !main.calls[1].ends);
        assert_eq!((&main.calls[0].loops[..], main.loops.len(), main.calls[1].given.len()), (&[0][..], 1, 2));
        assert_eq!(main.copies.len(), 1);
        // The third comes after what the second does, which cannot be read itself.
        assert_eq!((&main.accesses[0].after[..], &main.accesses[1].after[..]), (&[0, 1][..], &[1][..]));
    }
}
