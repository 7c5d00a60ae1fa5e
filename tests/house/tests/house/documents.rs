//! The pages in Markdown: what they point at exists.

use std::path::Path;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::tree::{self, File};

/// Folders at the root; a path in a page that starts with one of them is a file's.
const FOLDERS: &[&str] = &[
    "benches/", "crates/", "docs/", "fuzz/", "schemas/", "studies/", "tests/",
];

fn parser(page: &str) -> Parser<'_> {
    Parser::new_ext(page, Options::ENABLE_TABLES)
}

/// The rows of all tables whose first heading is this, cell by cell, without their headings.
/// Marks of Markdown are gone; pieces of code are kept apart by `code`.
pub fn table(page: &str, first: &str) -> Vec<Vec<String>> {
    let mut tables: Vec<Vec<Vec<String>>> = Vec::new();
    let mut in_cell = false;
    for event in parser(page) {
        match event {
            Event::Start(Tag::Table(_)) => tables.push(Vec::new()),
            Event::Start(Tag::TableHead | Tag::TableRow) => {
                tables.last_mut().unwrap().push(Vec::new());
            }
            Event::Start(Tag::TableCell) => {
                in_cell = true;
                tables
                    .last_mut()
                    .unwrap()
                    .last_mut()
                    .unwrap()
                    .push(String::new());
            }
            Event::End(TagEnd::TableCell) => in_cell = false,
            Event::Text(text) | Event::Code(text) if in_cell => {
                let row = tables.last_mut().unwrap().last_mut().unwrap();
                row.last_mut().unwrap().push_str(&text);
            }
            _ => {}
        }
    }
    tables.retain(|t| t[0][0] == first);
    tables
        .into_iter()
        .flat_map(|t| t.into_iter().skip(1))
        .collect()
}

/// Targets of the links of a page, with their lines.
fn links(page: &str) -> Vec<(usize, String)> {
    let events = parser(page).into_offset_iter();
    let targets = events.filter_map(|(event, range)| {
        let target = match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => dest_url,
            Event::Code(code) if is_path(&code) => format!("/{code}").into(),
            _ => return None,
        };
        Some((
            page[..range.start].matches('\n').count() + 1,
            target.to_string(),
        ))
    });
    targets.collect()
}

/// Returns true if a piece of code is a path from the root, and not a pattern or a stand-in.
fn is_path(code: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "/._-".contains(c);
    FOLDERS.iter().any(|f| code.starts_with(f)) && code.chars().all(plain)
}

/// The fault of a target in a page at this path; none for a good one.
fn wrong(path: &str, page: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let root = tree::root();
    let place = match file.strip_prefix('/') {
        Some(from_root) => root.join(from_root),
        None => root.join(path).parent().unwrap_or(Path::new("")).join(file),
    };
    if !file.is_empty() && !place.exists() {
        return Some(format!("there is no {file}"));
    }
    if heading.is_empty() || !(file.is_empty() || file.ends_with(".md")) {
        return None;
    }
    let other = if file.is_empty() {
        page.to_owned()
    } else {
        std::fs::read_to_string(place).ok()?
    };
    let known = headings(&other);
    (!known.contains(&heading.to_owned())).then(|| format!("no heading gives #{heading}"))
}

/// The names that a page's headings can be pointed at by.
fn headings(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut heading: Option<String> = None;
    for event in parser(page) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => found.extend(heading.take().map(|h| slug(&h))),
            Event::Text(text) | Event::Code(text) => {
                if let Some(h) = &mut heading {
                    h.push_str(&text);
                }
            }
            _ => {}
        }
    }
    found
}

fn slug(heading: &str) -> String {
    let lower = heading.to_lowercase().replace(' ', "-");
    lower
        .chars()
        .filter(|c| c.is_alphanumeric() || "-_".contains(*c))
        .collect()
}

#[test]
fn links_lead_somewhere() {
    let mut broken = Vec::new();
    for File { path, text } in tree::files(&[".md"]) {
        for (line, target) in links(&text) {
            if let Some(why) = wrong(&path, &text, &target) {
                broken.push(format!("{path}:{line}: {why}"));
            }
        }
    }
    tree::none(&broken, "links and paths that lead nowhere:");
}

#[test]
fn a_broken_link_is_seen() {
    let page = "# One thing: `two`\n[a](LICENSE) [b](#one-thing-two) [c](#three)\n\n![d](no.png)\n\
        `crates/spec` `crates/no/such.rs` `crates/NAME.rs` <https://example.org/x>\n";
    let found: Vec<(usize, String)> = links(page)
        .into_iter()
        .filter_map(|(line, target)| Some((line, wrong("x.md", page, &target)?)))
        .collect();
    let expected = [
        (2, "no heading gives #three"),
        (4, "there is no no.png"),
        (5, "there is no /crates/no/such.rs"),
    ];
    assert_eq!(found, expected.map(|(l, w)| (l, w.to_owned())));
}

#[test]
fn tables_are_read_by_their_first_heading() {
    let page = "| a | b |\n| --- | --- |\n| 1 | `x: y`; z |\n\n| c |\n| --- |\n| 2 |\n";
    assert_eq!(table(page, "a"), [["1", "x: y; z"]]);
    assert_eq!(table(page, "c"), [["2"]]);
    assert!(table(page, "d").is_empty());
}
