//! One page and its blocks, in the order in which they stand.

use hearth_tests::workspace;
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use std::fs;

/// A page of the documentation.
pub struct Page {
    /// Its path in the repository.
    pub name: String,
    /// Its blocks of code.
    pub blocks: Vec<Block>,
    /// What is wrong with how they are written.
    pub wrong: Vec<String>,
}

/// A block of code.
pub struct Block {
    /// What is to be done with it.
    pub kind: Kind,
    /// Why it is not run.
    pub not_run: Option<String>,
    /// Its text.
    pub text: String,
    /// Where it stands.
    pub line: usize,
}

/// What is to be done with a block.
pub enum Kind {
    /// Commands.
    Shell,
    /// Commands after `$ ` with their output.
    Console,
    /// The contents of this file.
    File(String),
    /// A plan or a platform.
    Toml,
    /// JSON.
    Json,
    /// Nothing.
    Text,
}

impl Kind {
    /// Whether there is something to run.
    pub fn counts(&self) -> bool {
        !matches!(self, Kind::Text)
    }
}

/// Languages of files that blocks show.
const LANGUAGES: [&str; 9] = ["c", "cpp", "fortran", "python", "cmake", "make", "rhai", "toml", "sh"];

impl Page {
    /// Reads a page by its path in the repository.
    pub fn read(name: &str) -> Page {
        let source = fs::read_to_string(workspace().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        Page::of(name, &source)
    }

    fn of(name: &str, source: &str) -> Page {
        let (mut blocks, mut wrong): (Vec<Block>, Vec<String>) = (Vec::new(), Vec::new());
        let (mut open, mut html) = (None, String::new());
        for (event, range) in Parser::new(source).into_offset_iter() {
            let line = source[..range.start].matches('\n').count() + 1;
            match event {
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                    open = Some((info.to_string(), String::new()))
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)) => {
                    wrong.push(format!("{name}:{line}: an indented block: fence it, and say what it is"));
                }
                Event::Text(text) => {
                    if let Some((_, block)) = &mut open {
                        block.push_str(&text);
                    }
                }
                Event::End(TagEnd::CodeBlock) => {
                    if let Some((info, text)) = open.take() {
                        match kind(&info) {
                            Ok((kind, not_run)) => blocks.push(Block { kind, not_run, text, line }),
                            Err(why) => wrong.push(format!("{name}:{line}: {why}")),
                        }
                    }
                }
                Event::Start(Tag::HtmlBlock) => html.clear(),
                Event::Html(text) => html.push_str(&text),
                Event::End(TagEnd::HtmlBlock) => {
                    if let Some(text) = html.strip_prefix("<!-- sh\n").and_then(|t| t.trim_end().strip_suffix("-->")) {
                        blocks.push(Block { kind: Kind::Shell, not_run: None, text: text.into(), line });
                    }
                }
                _ => {}
            }
        }
        let uses = |from: usize, file: &str| {
            blocks[from..].iter().any(|b| matches!(b.kind, Kind::Shell | Kind::Console) && b.text.contains(file))
        };
        for (i, block) in blocks.iter().enumerate() {
            if let (Kind::File(file), None) = (&block.kind, &block.not_run) {
                if !uses(i + 1, file) {
                    wrong.push(format!("{name}:{}: no later block uses {file}", block.line));
                }
            }
        }
        Page { name: name.into(), blocks, wrong }
    }
}

/// What the words behind the fence say.
fn kind(info: &str) -> Result<(Kind, Option<String>), String> {
    let (language, rest) = info.split_once(' ').unwrap_or((info, ""));
    let value = |key: &str| {
        let (_, after) = rest.split_once(&format!("{key}="))?;
        Some(match after.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next().unwrap_or_default(),
            None => after.split(' ').next().unwrap_or_default(),
        })
    };
    let not_run = value("not-run").map(String::from);
    if not_run.as_ref().is_some_and(String::is_empty) {
        return Err("not-run without a reason".into());
    }
    let kind = match (language, value("file")) {
        (language, Some(file)) if LANGUAGES.contains(&language) => Kind::File(file.into()),
        ("sh", None) => Kind::Shell,
        ("console", None) => Kind::Console,
        ("toml", None) => Kind::Toml,
        ("json", None) => Kind::Json,
        ("text", None) => Kind::Text,
        (language, None) if not_run.is_some() && LANGUAGES.contains(&language) => Kind::Text,
        ("", _) => return Err("a block without a language".into()),
        _ => return Err(format!("`{info}`: an unknown language, or one that needs file=NAME")),
    };
    Ok((kind, not_run))
}

#[test]
fn no_block_is_forgotten() {
    let wrong = |source: &str| Page::of("x.md", source).wrong;
    assert_eq!(wrong("```sh\ntrue\n```\n\n<!-- sh\ntrue\n-->\n\n```text\nfree\n```\n"), Vec::<String>::new());
    assert_eq!(wrong("```\ntrue\n```\n"), ["x.md:1: a block without a language"]);
    assert_eq!(wrong("words\n\n    true\n"), ["x.md:3: an indented block: fence it, and say what it is"]);
    assert_eq!(wrong("```sh not-run=\"\"\ntrue\n```\n"), ["x.md:1: not-run without a reason"]);
    assert_eq!(wrong("```c file=a.c\nint a;\n```\n"), ["x.md:1: no later block uses a.c"]);
    assert_eq!(wrong("```c file=a.c\nint a;\n```\n\n```sh\ncc -c a.c\n```\n"), Vec::<String>::new());
    assert!(wrong("```klingon\nnuqneH\n```\n")[0].contains("unknown language"));
    let page = Page::of("x.md", "```sh not-run=\"needs Slurm\"\nsrun\n```\n");
    assert_eq!(page.blocks[0].not_run.as_deref(), Some("needs Slurm"));
}
