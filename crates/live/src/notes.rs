//! What the user should know, one sentence each. A note of a program is its user's business only, is forgotten some time after the program has
//! ended, and however many there are of one program or user, those of others stand.

use crate::status::NoteStatus;

/// Notes that are kept of each user, and of what is nobody's: when another one comes the oldest goes.
const MOST: usize = 100;
/// Notes of one process that are kept.
const MOST_OF_ONE: usize = 8;
/// So long a note stays after its process has ended, or after it was said if it is of no process that is known.
const STAYS_NS: u64 = 600_000_000_000;
/// Characters of a note: much of one may be what a program says.
const LONGEST: usize = 600;

/// Whose business a note is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// All that look.
    All,
    /// A user.
    User(u32),
    /// A user's process.
    Process(u32, u32),
}

#[derive(Debug)]
struct Note {
    about: About,
    /// Replaces an earlier one of this name.
    kind: String,
    text: String,
    /// When it goes.
    until: Option<u64>,
}

impl About {
    fn user(self) -> Option<u32> {
        match self {
            About::All => None,
            About::User(user) | About::Process(user, _) => Some(user),
        }
    }
}

/// All notes, oldest first.
#[derive(Debug, Default)]
pub struct Notes {
    notes: Vec<Note>,
    now_ns: u64,
}

impl Notes {
    /// Notes that stand from the beginning.
    pub fn new(texts: impl IntoIterator<Item = String>) -> Notes {
        let mut new = Notes::default();
        texts.into_iter().for_each(|text| new.add(About::All, "", text));
        new
    }

    /// Adds one, each thing once; where it has a `kind` it replaces the one of that kind.
    pub fn add(&mut self, about: About, kind: &str, text: String) {
        if text.is_empty() {
            return;
        }
        let text: String = text.chars().take(LONGEST).collect();
        let until = matches!(about, About::User(_)).then_some(self.now_ns + STAYS_NS);
        let same = |n: &&mut Note| n.about == about && n.kind == kind && (!kind.is_empty() || n.text == text);
        if let Some(known) = self.notes.iter_mut().find(same) {
            (known.text, known.until) = (text, until);
            return;
        }
        let of_it = |n: &Note| n.about == about;
        if matches!(about, About::Process(..)) && self.notes.iter().filter(|n| of_it(n)).count() >= MOST_OF_ONE {
            self.drop_first(of_it);
        }
        let of_user = |n: &Note| n.about.user() == about.user();
        if self.notes.iter().filter(|n| of_user(n)).count() >= MOST {
            self.drop_first(of_user);
        }
        self.notes.push(Note { about, kind: kind.into(), text, until });
    }

    fn drop_first(&mut self, of: impl Fn(&Note) -> bool) {
        let first = self.notes.iter().position(of);
        first.map(|i| self.notes.remove(i));
    }

    /// A process has ended: its number may be another one's soon.
    pub fn ended(&mut self, pid: u32) {
        let until = self.now_ns + STAYS_NS;
        let of_it = |n: &&mut Note| matches!(n.about, About::Process(_, p) if p == pid);
        self.notes.iter_mut().filter(of_it).for_each(|n| _ = n.until.get_or_insert(until));
    }

    /// It is so late now.
    pub fn pass(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.notes.retain(|n| n.until.is_none_or(|until| now_ns < until));
    }

    /// All, for those who look.
    pub fn shown(&self) -> Vec<NoteStatus> {
        let one = |n: &Note| NoteStatus { user: n.about.user(), text: n.said() };
        self.notes.iter().map(one).collect()
    }

    /// All, as sentences.
    pub fn sentences(self) -> Vec<String> {
        self.notes.iter().map(Note::said).collect()
    }
}

impl Note {
    fn said(&self) -> String {
        match self.about {
            About::Process(_, pid) => format!("process {pid}: {}", self.text),
            _ => self.text.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(notes: &Notes) -> Vec<(Option<u32>, String)> {
        notes.shown().into_iter().map(|n| (n.user, n.text)).collect()
    }

    #[test]
    fn nobody_silences_others() {
        let mut notes = Notes::new(["one tier".to_string()]);
        notes.add(About::Process(7, 1), "", "first".into());
        notes.add(About::Process(8, 2), "", "of another user".into());
        // A process says much, and many processes of a user say something.
        (0..1000).for_each(|n| notes.add(About::Process(7, 3), "", format!("{n}")));
        assert_eq!(notes.shown().iter().filter(|n| n.text.starts_with("process 3")).count(), MOST_OF_ONE);
        assert!(texts(&notes).contains(&(Some(7), "process 1: first".into())));
        (0..1000).for_each(|n| notes.add(About::Process(7, 10 + n), "", "x".repeat(LONGEST * 2)));
        assert_eq!(notes.shown().iter().filter(|n| n.user == Some(7)).count(), MOST);
        assert!(notes.shown().iter().all(|n| n.text.len() < LONGEST + 20));
        assert_eq!(texts(&notes)[..2], [(None, "one tier".into()), (Some(8), "process 2: of another user".into())]);
        notes.add(About::Process(7, 4), "", "the latest".into());
        assert_eq!(texts(&notes).last(), Some(&(Some(7), "process 4: the latest".into())));
    }

    #[test]
    fn notes_of_what_is_over_go() {
        let mut notes = Notes::default();
        notes.pass(5);
        notes.add(About::All, "paused", "3 percent".into());
        notes.add(About::All, "paused", "4 percent".into());
        notes.add(About::Process(7, 1), "", "it is so".into());
        notes.add(About::Process(7, 1), "", "it is so".into());
        notes.add(About::User(7), "", "was left alone".into());
        assert_eq!(notes.shown().len(), 3);
        notes.ended(1);
        // What is said again stays.
        notes.pass(STAYS_NS);
        notes.add(About::User(7), "", "was left alone".into());
        assert_eq!(notes.shown().len(), 3);
        notes.pass(STAYS_NS + 5);
        assert_eq!(texts(&notes), [(None, "4 percent".into()), (Some(7), "was left alone".into())]);
        notes.pass(2 * STAYS_NS + 5);
        assert_eq!(texts(&notes), [(None, "4 percent".into())]);
    }
}
