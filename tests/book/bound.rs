//! Builds the book, and looks at each link in what came of it.

use hearth_tests::workspace;
use mdbook::MDBook;
use mdbook::book::BookItem;
use pulldown_cmark::{Event, Parser, Tag};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Builds the book into `out`. Gives what is wrong: links that lead nowhere, and pages that it does not have.
pub fn build(out: &Path, pages: &[String]) -> Vec<String> {
    let _ = fs::remove_dir_all(out);
    let root = workspace().join("docs");
    let mut book = MDBook::load(&root).expect("docs/book.toml and docs/SUMMARY.md");
    book.config.build.build_dir = out.into();
    let chapters: BTreeSet<String> = book
        .iter()
        .filter_map(|item| if let BookItem::Chapter(chapter) = item { chapter.source_path.as_ref() } else { None })
        .map(|path| format!("docs/{}", path.display()))
        .collect();
    book.build().expect("building the book");
    let mut wrong: Vec<String> = pages
        .iter()
        .filter(|name| name.starts_with("docs/") && !chapters.contains(*name))
        .map(|name| format!("{name} is not in docs/SUMMARY.md"))
        .collect();
    let mut files = BTreeMap::new();
    read(out, &mut files);
    for (file, text) in &files {
        let place = file.strip_prefix(out).expect("below the book");
        let mut now = text.clone();
        for link in links(text) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let to = if path.is_empty() { file.clone() } else { plain(&file.parent().expect("a folder").join(path)) };
            if to.starts_with(out) {
                let there = to.is_file()
                    && (anchor.is_empty() || files.get(&to).is_some_and(|t| t.contains(&format!("id=\"{anchor}\""))));
                if !there {
                    wrong.push(format!("{}: {link} leads nowhere", place.display()));
                }
            } else {
                match beside(&root, place, path, out) {
                    Some(copy) => now = now.replace(&format!("\"{link}\""), &format!("\"{copy}\"")),
                    None => wrong.push(format!("{}: {link} is not in the repository", place.display())),
                }
            }
        }
        if now != *text {
            fs::write(file, now).expect("writing a page");
        }
    }
    wrong
}

/// The links of a page outside of the book that lead to no file.
pub fn dead(name: &str) -> Vec<String> {
    let text = fs::read_to_string(workspace().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let to = Parser::new(&text).filter_map(|event| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url.to_string()),
        _ => None,
    });
    let dead =
        to.filter(|to| !to.contains(':') && !workspace().join(to.split('#').next().unwrap_or_default()).exists());
    dead.map(|to| format!("{name}: {to} leads nowhere")).collect()
}

/// A link to a file of the repository outside of docs/: puts a copy beside the book, which can then be read anywhere. Gives the link to the copy.
fn beside(root: &Path, place: &Path, path: &str, out: &Path) -> Option<String> {
    let meant = plain(&root.join(place).parent()?.join(path));
    // The book has made .html of .md.
    let source = [meant.clone(), meant.with_extension("md")].into_iter().find(|p| p.is_file())?;
    let name = source.strip_prefix(workspace()).ok()?.to_str()?;
    let name = format!("sources/{}", if name.ends_with(".md") { format!("{name}.txt") } else { name.into() });
    let copy = out.join(&name);
    fs::create_dir_all(copy.parent()?).ok()?;
    fs::copy(&source, &copy).ok()?;
    Some("../".repeat(place.components().count() - 1) + name.as_str())
}

/// The pages of the book, but for those that are made of others.
fn read(folder: &Path, files: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).expect("the book").flatten() {
        let path = entry.path();
        let made = ["print.html", "404.html", "toc.html"].iter().any(|name| path.ends_with(name));
        if path.is_dir() {
            read(&path, files);
        } else if path.extension().is_some_and(|e| e == "html") && !made {
            files.insert(path.clone(), fs::read_to_string(&path).expect("a page"));
        }
    }
}

/// All links and pictures of a page that lead to files.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let at = |key| text.split(key).skip(1).filter_map(|rest: &str| rest.split('"').next());
    at(" href=\"").chain(at(" src=\"")).filter(|l| !l.contains(':') && !l.is_empty() && !l.contains("print.html"))
}

/// The path without `..` in it.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
        plain
    })
}
