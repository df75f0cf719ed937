//! Formulas: texts of words, each operator before what it is for (`* 8 p0`), as `compiler/counts.cpp` writes them.

/// What two numbers are put together by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Two {
    /// Sum.
    Add,
    /// Difference; of two addresses the bytes between them.
    Sub,
    /// Product.
    Mul,
    /// Quotient.
    Div,
    /// Quotient of whole numbers.
    Whole,
    /// Remainder.
    Rest,
    /// The first one times two to the power of the second.
    Left,
    /// The first one divided by two to the power of the second, whole.
    Right,
    /// Bits of both.
    And,
    /// The smaller one.
    Min,
    /// The larger one.
    Max,
    /// The first one to the power of the second.
    Power,
    /// 1 if the first one is smaller.
    Less,
    /// 1 if the first one is not larger.
    AtMost,
    /// 1 if they are the same.
    Same,
    /// 1 if they are not.
    Other,
}

/// What is made of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum One {
    /// Square root.
    Root,
    /// Rounded down.
    Floor,
    /// Rounded up.
    Ceil,
    /// Rounded to the nearest.
    Round,
    /// Rounded towards 0.
    Truncate,
    /// Without its sign.
    Absolute,
}

/// A formula.
#[derive(Clone, Debug, PartialEq)]
pub enum Formula {
    /// A number.
    Number(f64),
    /// What the function was given, from 0.
    Given(usize),
    /// What one of its calls gave back.
    Result(usize),
    /// The address of a local variable.
    Local(usize),
    /// The address of a variable or function.
    Global(String),
    /// What lies at an address.
    At(Box<Formula>),
    /// An address somewhere in what this points into.
    Into(Box<Formula>),
    /// What this points to, and all that it leads to from there.
    Chain(Box<Formula>),
    /// One of these.
    Any(Vec<Formula>),
    /// The second if the first is not 0, else the third.
    If(Box<[Formula; 3]>),
    /// Of two.
    Two(Two, Box<[Formula; 2]>),
    /// Of one.
    One(One, Box<Formula>),
    /// What nobody knows before the program runs: its name (file and line), and what to take for it.
    Unknown(String, Box<Formula>),
    /// What a loop comes to whose turns follow from each other.
    Turns(Box<Turns>),
    /// What the turns of the loop around hand on, by number.
    State(usize),
    /// The number of its turn, from 1.
    Turn,
    /// Bytes of the cache before the memories; 0: not known.
    Cache,
    /// How many elements of so many bytes an object has, for each of so many turns.
    Share(Box<[Formula; 3]>),
}

/// A loop that ends on what it computes.
#[derive(Clone, Debug, PartialEq)]
pub struct Turns {
    /// What its turns hand on, as it begins.
    pub starts: Vec<Formula>,
    /// What a turn makes of each.
    pub nexts: Vec<Formula>,
    /// Its ends in their order: not 0 if it ends there in this turn, and what it has come to then.
    pub ends: Vec<[Formula; 2]>,
    /// What to take where one of these is not known.
    pub otherwise: Formula,
}

/// Deeper formulas are not read: those of the compiler are not.
const DEEPEST: usize = 400;

impl Formula {
    /// Reads a formula; `None` if it is none.
    pub fn read(text: &str) -> Option<Formula> {
        let mut words = text.split(' ');
        let formula = next(&mut words, 0)?;
        words.next().is_none().then_some(formula)
    }
}

fn next<'a>(words: &mut impl Iterator<Item = &'a str>, depth: usize) -> Option<Formula> {
    if depth > DEEPEST {
        return None;
    }
    let word = words.next()?;
    let mut inner = || next(words, depth + 1);
    let op = match word {
        "+" => Some(Two::Add),
        "-" => Some(Two::Sub),
        "*" => Some(Two::Mul),
        "/" => Some(Two::Div),
        "div" => Some(Two::Whole),
        "%" => Some(Two::Rest),
        "shl" => Some(Two::Left),
        "shr" => Some(Two::Right),
        "and" => Some(Two::And),
        "min" => Some(Two::Min),
        "max" => Some(Two::Max),
        "pow" => Some(Two::Power),
        "<" => Some(Two::Less),
        "<=" => Some(Two::AtMost),
        "==" => Some(Two::Same),
        "!=" => Some(Two::Other),
        _ => None,
    };
    if let Some(op) = op {
        return Some(Formula::Two(op, Box::new([inner()?, inner()?])));
    }
    let op = match word {
        "sqrt" => Some(One::Root),
        "floor" => Some(One::Floor),
        "ceil" => Some(One::Ceil),
        "round" => Some(One::Round),
        "trunc" => Some(One::Truncate),
        "abs" => Some(One::Absolute),
        _ => None,
    };
    if let Some(op) = op {
        return Some(Formula::One(op, Box::new(inner()?)));
    }
    match word {
        "@" => return Some(Formula::At(Box::new(inner()?))),
        "chain" => return Some(Formula::Chain(Box::new(inner()?))),
        "x" => return Some(Formula::Into(Box::new(inner()?))),
        "?" => return Some(Formula::If(Box::new([inner()?, inner()?, inner()?]))),
        "share" => return Some(Formula::Share(Box::new([inner()?, inner()?, inner()?]))),
        "any" => {
            let n: usize = words.next()?.parse().ok()?;
            return (n <= 64).then(|| (0..n).map(|_| next(words, depth + 1)).collect()).flatten().map(Formula::Any);
        }
        "turn" => {
            let mut few = || words.next()?.parse().ok().filter(|n: &usize| *n <= 64);
            let (state, ends) = (few()?, few()?);
            let mut inner = || next(words, depth + 1);
            let starts = (0..state).map(|_| inner()).collect::<Option<Vec<Formula>>>()?;
            let nexts = (0..state).map(|_| inner()).collect::<Option<Vec<Formula>>>()?;
            let ends = (0..ends).map(|_| Some([inner()?, inner()?])).collect::<Option<Vec<[Formula; 2]>>>()?;
            return Some(Formula::Turns(Box::new(Turns { starts, nexts, ends, otherwise: inner()? })));
        }
        "t" => return Some(Formula::Turn),
        "c" => return Some(Formula::Cache),
        "u" => {
            let name = words.next()?.to_string();
            return Some(Formula::Unknown(name, Box::new(next(words, depth + 1)?)));
        }
        _ => {}
    }
    if let Some(name) = word.strip_prefix('g') {
        return Some(Formula::Global(name.to_string()));
    }
    let numbered = |letter: char| word.strip_prefix(letter).and_then(|n| n.parse::<usize>().ok());
    if let Some(n) = numbered('p') {
        return Some(Formula::Given(n));
    }
    if let Some(n) = numbered('r') {
        return Some(Formula::Result(n));
    }
    if let Some(n) = numbered('l') {
        return Some(Formula::Local(n));
    }
    if let Some(n) = numbered('s') {
        return Some(Formula::State(n));
    }
    word.parse().ok().filter(|n: &f64| n.is_finite()).map(Formula::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_read_and_what_is_none_is_refused() {
        let n = |v: f64| Formula::Number(v);
        let two = |op, a, b| Formula::Two(op, Box::new([a, b]));
        assert_eq!(
            Formula::read("* 8 + p0 -1"),
            Some(two(Two::Mul, n(8.0), two(Two::Add, Formula::Given(0), n(-1.0))))
        );
        let unknown = Formula::Unknown("a.c:5".into(), Box::new(n(10.0)));
        assert_eq!(Formula::read("? < 1 r2 u a.c:5 10 @ + gx 8"), {
            let at = Formula::At(Box::new(two(Two::Add, Formula::Global("x".into()), n(8.0))));
            Some(Formula::If(Box::new([two(Two::Less, n(1.0), Formula::Result(2)), unknown, at])))
        });
        assert_eq!(Formula::read("x chain r1"), {
            Some(Formula::Into(Box::new(Formula::Chain(Box::new(Formula::Result(1))))))
        });
        assert_eq!(Formula::read("x any 2 l0 gy"), {
            let any = Formula::Any(vec![Formula::Local(0), Formula::Global("y".into())]);
            Some(Formula::Into(Box::new(any)))
        });
        assert_eq!(Formula::read("turn 1 1 1 * 2 s0 < p0 s0 t 7"), {
            let double = two(Two::Mul, n(2.0), Formula::State(0));
            let end = [two(Two::Less, Formula::Given(0), Formula::State(0)), Formula::Turn];
            let turns = Turns { starts: vec![n(1.0)], nexts: vec![double], ends: vec![end], otherwise: n(7.0) };
            Some(Formula::Turns(Box::new(turns)))
        });
        assert_eq!(Formula::read("< 64 c"), Some(two(Two::Less, n(64.0), Formula::Cache)));
        for bad in [
            "turn 1 1 1 s0 1",
            "turn 1000000 1 1",
            "turn x",
            "",
            "*",
            "* 1",
            "1 2",
            "nan",
            "any 1000000 1",
            "zz",
            "u",
            "p",
            &"@ ".repeat(100_000),
        ] {
            assert_eq!(Formula::read(bad), None, "{bad}");
        }
    }
}
