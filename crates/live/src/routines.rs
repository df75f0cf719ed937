//! The four routines that decide (Flexible and Effective Object Tiering, ISMM 2023, section 3.4), each of which can be chosen by name
//! and told a value: `time=5`. One file a routine, one line in the table of its kind.

use crate::Error;
use crate::aggregate::{self, Aggregate};
use crate::enforce::{self, Enforce};
use crate::prioritise::{self, Prioritise};
use crate::trigger::{self, Trigger};
use model::Bytes;

/// A routine that can be chosen.
pub struct Routine<T: ?Sized> {
    /// Its name.
    pub name: &'static str,
    /// What it does, and what its value means, as one line.
    pub about: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Makes it, with the value behind `=`. The error says what is wrong with the value.
    pub make: fn(Option<&str>) -> Result<Box<T>, String>,
}

/// Finds a routine by `NAME` or `NAME=VALUE`. `kind`: the option that names it.
fn find<T: ?Sized>(kind: &str, all: &[Routine<T>], text: &str) -> Result<Box<T>, Error> {
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    let Some(routine) = all.iter().find(|r| r.name == name) else {
        let names: Vec<&str> = all.iter().map(|r| r.name).collect();
        return Err(Error(format!("--{kind} {text}: there is no such routine; choose one of {}", names.join(", "))));
    };
    (routine.make)(value).map_err(|why| Error(format!("--{kind} {text}: {why}")))
}

/// Names of the four, each with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// How samples are aggregated.
    pub aggregate: String,
    /// What comes first.
    pub prioritise: String,
    /// When it is decided.
    pub trigger: String,
    /// How the decision is carried out.
    pub enforce: String,
}

impl Default for Names {
    fn default() -> Names {
        let [aggregate, prioritise, trigger, enforce] =
            [aggregate::ALL[0].name, prioritise::ALL[0].name, trigger::ALL[0].name, enforce::ALL[0].name]
                .map(str::to_string);
        Names { aggregate, prioritise, trigger, enforce }
    }
}

/// The four.
pub struct Routines {
    pub(crate) aggregate: Box<dyn Aggregate>,
    pub(crate) prioritise: Box<dyn Prioritise>,
    pub(crate) trigger: Box<dyn Trigger>,
    pub(crate) enforce: Box<dyn Enforce>,
}

impl Routines {
    /// Those of these names.
    ///
    /// # Errors
    /// An unknown name, or a value that makes no sense.
    pub fn new(names: &Names) -> Result<Routines, Error> {
        Ok(Routines {
            aggregate: find("aggregate", aggregate::ALL, &names.aggregate)?,
            prioritise: find("priority", prioritise::ALL, &names.prioritise)?,
            trigger: find("trigger", trigger::ALL, &names.trigger)?,
            enforce: find("enforce", enforce::ALL, &names.enforce)?,
        })
    }
}

impl Routines {
    /// Why scripts are not asked any more.
    pub(crate) fn failed(&self) -> impl Iterator<Item = String> {
        let Routines { aggregate, prioritise, trigger, enforce } = self;
        [aggregate.failed(), prioritise.failed(), trigger.failed(), enforce.failed()].into_iter().flatten()
    }
}

/// All routines, as `(option, name, about, source)`, the usual one of each kind first.
pub fn list() -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
    fn rows<T: ?Sized>(
        kind: &'static str,
        all: &'static [Routine<T>],
    ) -> impl Iterator<Item = (&'static str, &'static str, &'static str, &'static str)> {
        all.iter().map(move |r| (kind, r.name, r.about, r.source))
    }
    rows("aggregate", aggregate::ALL)
        .chain(rows("priority", prioritise::ALL))
        .chain(rows("trigger", trigger::ALL))
        .chain(rows("enforce", enforce::ALL))
        .collect()
}

/// Reads the values of routines.
pub struct Value;

impl Value {
    /// A share above 0 and up to 1, also in percent.
    pub fn share(value: Option<&str>, usual: f64) -> Result<f64, String> {
        let Some(text) = value else { return Ok(usual) };
        let number = match text.strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().map(|p| p / 100.0),
            None => text.trim().parse(),
        };
        match number {
            Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
            _ => Err("give a share above 0 and up to 1, for example 0.5 or 50%".into()),
        }
    }

    /// A positive number.
    pub fn positive(value: Option<&str>, usual: f64) -> Result<f64, String> {
        match value.map(|text| text.trim().parse::<f64>()) {
            None => Ok(usual),
            Some(Ok(number)) if number > 0.0 && number.is_finite() => Ok(number),
            Some(_) => Err("give a number above 0".into()),
        }
    }

    /// A whole number from 1 on.
    pub fn count(value: Option<&str>, usual: u32) -> Result<u32, String> {
        match value.map(|text| text.trim().parse::<u32>()) {
            None => Ok(usual),
            Some(Ok(number)) if number > 0 => Ok(number),
            Some(_) => Err("give a whole number from 1 on".into()),
        }
    }

    /// A size above 0.
    pub fn size(value: Option<&str>, usual: Bytes) -> Result<Bytes, String> {
        match value.map(|text| text.parse::<Bytes>()) {
            None => Ok(usual),
            Some(Ok(size)) if size.0 > 0 => Ok(size),
            Some(_) => Err("give a size, for example 1GiB".into()),
        }
    }

    /// None at all.
    pub fn none(value: Option<&str>) -> Result<(), String> {
        value.map_or(Ok(()), |_| Err("it takes no value".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routines_are_chosen_by_name_and_value() {
        let names = |trigger: &str| Names { trigger: trigger.into(), ..Names::default() };
        assert!(Routines::new(&Names::default()).is_ok());
        assert!(Routines::new(&names("time=3")).is_ok() && Routines::new(&names("alloc=512MiB")).is_ok());
        let wrong = |trigger: &str| Routines::new(&names(trigger)).err().expect("must be refused").0;
        assert!(
            wrong("never").contains("there is no such routine; choose one of worth-it, time"),
            "{}",
            wrong("never")
        );
        assert!(wrong("time=0").starts_with("--trigger time=0: give a whole number"));
        assert!(wrong("alloc=-1").contains("give a size"));
        assert!(
            list().iter().all(|(_, name, about, source)| !name.is_empty() && !about.is_empty() && !source.is_empty())
        );
    }
}
