//! Words with a better one: STYLE.md's glossary in all that users read, and a shorter list in names
//! and comments of the code.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::documents::table;
use crate::source::{group, is_sign, tokens, walk, without_tests};
use crate::tree::{self, File};

/// Files that users read: pages, studies, reports of recorded runs, and the texts of crates.
const READ: &[&str] = &[
    "README.md",
    "CHANGELOG.md",
    "EXAMPLES.md",
    "METHOD.md",
    "benches/",
    "deploy/",
    "published/",
    "studies/",
    "crates/analysis/src/",
    "crates/bytecost/src/",
    "crates/bytecost/tests/goldens/",
    "crates/engine/src/",
    "crates/evidence/src/",
    "crates/host/src/",
    "crates/lab/src/",
    "crates/meter/src/",
    "crates/plan/src/",
    "crates/report/src/",
    "crates/spec/src/",
    "crates/store/src/",
    "crates/sys/src/",
];
/// Endings of the names of such files.
const ENDINGS: &[&str] = &[
    ".md",
    ".toml",
    ".rs",
    ".html",
    "screen.txt",
    "terminal.txt",
    "audit.txt",
];
/// Path of the files whose comments are help texts.
const HELP: &str = "crates/bytecost/src/args";

#[test]
fn what_users_read_has_the_words_of_the_glossary() {
    let style = tree::files(&["STYLE.md"]).remove(0).text;
    let glossary = table(&style, "instead of");
    assert!(glossary.len() > 10, "{glossary:?}");
    let mut broken = Vec::new();
    let is_read = |file: &File| READ.iter().any(|path| file.path.starts_with(path));
    for file in tree::files(ENDINGS).iter().filter(|file| is_read(file)) {
        for (line, text) in texts(file) {
            let normal_text = normal(&text);
            for row in &glossary {
                let found = row[0].split(", ").filter(|word| has(&normal_text, word));
                broken.extend(
                    found.map(|word| format!("{}:{line}: `{word}`: {}", file.path, row[1])),
                );
            }
        }
    }
    tree::none(&broken, "words with a better one:");
}

/// The texts of a file with their lines: paragraphs of a page, sentences of a source file.
fn texts(file: &File) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    if file.path.ends_with(".rs") {
        if !file.path.ends_with("tests.rs") && !file.path.contains("/tests/") {
            let source = without_tests(tokens(&file.path, &file.text));
            sentences(source, file.path.starts_with(HELP), &mut found);
        }
        return found;
    }
    let mut line = 1;
    for paragraph in file.text.split("\n\n") {
        found.push((line, paragraph.to_owned()));
        line += paragraph.matches('\n').count() + 2;
    }
    found
}

/// Texts of more than a word, and comments where these are help.
fn sentences(stream: TokenStream, with_comments: bool, found: &mut Vec<(usize, String)>) {
    let list: Vec<TokenTree> = stream.into_iter().collect();
    for (i, token) in list.iter().enumerate() {
        match token {
            TokenTree::Literal(text) => {
                let line = text.span().start().line;
                let literal = text.to_string();
                if literal.starts_with(['"', 'r']) && literal.contains(' ') {
                    found.push((line, literal));
                }
            }
            TokenTree::Group(inner) => {
                let before = |n: usize| i.checked_sub(n).and_then(|at| list.get(at));
                let inner_one = is_sign(before(1), '!') && is_sign(before(2), '#');
                let is_list = group(Some(token), Delimiter::Bracket).is_some();
                let attribute = is_list && (inner_one || is_sign(before(1), '#'));
                if with_comments || !attribute {
                    sentences(inner.stream(), with_comments, found);
                }
            }
            _ => {}
        }
    }
}

/// A text in small letters, its ends of lines as spaces.
fn normal(text: &str) -> String {
    let small = text.to_lowercase().replace('\\', " ");
    small.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns true if a text has a word, where `*` stands for any ending. A name in braces is no word.
fn has(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "_-{}".contains(c);
    let start = word.trim_end_matches('*');
    text.match_indices(start).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + start.len()..].chars().next();
        !before.is_some_and(is_part) && (word.ends_with('*') || !after.is_some_and(is_part))
    })
}

/// Words that a stranger does not understand at once in a name or a comment, and the better ones.
/// A word is also a part of a name: `is_told` and `ToldCell` have `told`.
const CODE_WORDS: &[(&str, &str)] = &[
    (
        "told",
        "name the thing itself: lines, summary, report, reason",
    ),
    ("tell", "report, print, show, distinguish"),
    ("tells", "reports, prints, shows, distinguishes"),
    (
        "had",
        "has, or available; `could be had` is `was available`",
    ),
    ("beside", "next to, in addition to, with"),
    ("whoever", "name it: the user, the process, the reader"),
    ("gone on", "continued, resumed"),
    ("go on", "continue, resume"),
    ("goes on", "continues, resumes"),
    ("thereof", "of it, or name it"),
    ("fn of", "`from_x`, `new`, or the noun that it gives"),
    ("fn own", "the noun that it gives"),
];

/// Uses of these words in each crate. A number may only fall; a crate without a line has none.
const CODE_WORD_USES: &[(&str, usize)] = &[
    ("crates/analysis", 20),
    ("crates/bytecost", 34),
    ("crates/engine", 22),
    ("crates/evidence", 5),
    ("crates/host", 1),
    ("crates/lab", 58),
    ("crates/meter", 19),
    ("crates/plan", 2),
    ("crates/report", 34),
    ("crates/spec", 29),
    ("crates/stats", 6),
    ("crates/store", 6),
    ("crates/sys", 4),
    ("tests", 1),
];

#[test]
fn names_and_comments_have_fewer_of_the_words_with_a_better_one() {
    let mut uses: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in tree::files(&[".rs"]) {
        let mut path = file.path.split('/');
        let folder = match (path.next(), path.next()) {
            (Some("crates"), Some(name)) => format!("crates/{name}"),
            (folder, _) => folder.unwrap_or_default().to_owned(),
        };
        // This list itself.
        if !file.path.ends_with("glossary.rs") {
            uses.entry(folder).or_default().extend(code_words(&file));
        }
    }
    let mut broken = Vec::new();
    for (folder, found) in &uses {
        let row = CODE_WORD_USES.iter().find(|(name, _)| name == folder);
        let allowed = row.map_or(0, |(_, count)| *count);
        if found.len() > allowed {
            broken.push(format!("{folder}: {} uses, at most {allowed}", found.len()));
            broken.extend(found.iter().cloned());
        } else if found.len() < allowed {
            broken.push(format!(
                "{folder}: {} uses: lower its number of {allowed} in CODE_WORD_USES",
                found.len()
            ));
        }
    }
    tree::none(
        &broken,
        "names and comments with words that have a better one:",
    );
}

/// The words of [`CODE_WORDS`] in a file, outside of its string literals, a line for each.
fn code_words(file: &File) -> Vec<String> {
    let code = without_strings(file);
    let mut words: Vec<(usize, String)> = Vec::new();
    for (number, line) in code.lines().enumerate() {
        words.extend(parts(line).into_iter().map(|part| (number + 1, part)));
    }
    let mut found = Vec::new();
    for (at, (line, _)) in words.iter().enumerate() {
        for (word, better) in CODE_WORDS {
            let is_there = word
                .split(' ')
                .enumerate()
                .all(|(i, part)| words.get(at + i).is_some_and(|(_, used)| used == part));
            if is_there {
                found.push(format!("{}:{line}: `{word}`: {better}", file.path));
            }
        }
    }
    found
}

/// The text of a file with spaces in place of string literals, which are texts for users.
fn without_strings(file: &File) -> String {
    let mut text = file.text.clone().into_bytes();
    walk(tokens(&file.path, &file.text), &mut |place| {
        if let TokenTree::Literal(literal) = place.token {
            let range = literal.span().byte_range();
            // A doc comment is a literal too, which begins with its slashes.
            if file.text[range.clone()].starts_with(['"', 'r', 'b', 'c']) {
                for byte in &mut text[range] {
                    *byte = if *byte == b'\n' { b'\n' } else { b' ' };
                }
            }
        }
    });
    String::from_utf8_lossy(&text).into_owned()
}

/// The words of a line in small letters, names in their parts: `is_told` and `IsTold` are two words.
fn parts(line: &str) -> Vec<String> {
    let mut parts = Vec::new();
    for name in line.split(|c: char| !c.is_alphanumeric()) {
        let mut part = String::new();
        for c in name.chars() {
            if c.is_uppercase() && part.ends_with(char::is_lowercase) {
                parts.push(std::mem::take(&mut part).to_lowercase());
            }
            part.push(c);
        }
        if !part.is_empty() {
            parts.push(part.to_lowercase());
        }
    }
    parts
}

#[test]
fn code_words_are_found_in_names_and_comments() {
    let count = |text: &str| {
        code_words(&File {
            path: "a.rs".to_owned(),
            text: text.to_owned(),
        })
        .len()
    };
    assert_eq!(count("fn is_told() {} struct ToldCell;"), 2);
    assert_eq!(
        count("/// Has gone\n/// on.\n// Nobody had it.\nfn a() {}"),
        2
    );
    assert_eq!(count("impl A { fn of(b: B) -> A { A::of(\"had\") } }"), 1);
    assert_eq!(count("const A: &str = r#\"is told\"#; fn thread() {}"), 0);
}

#[test]
fn words_are_found_as_words() {
    for (text, word, is_there) in [
        ("The Neighbour does", "neighbour", true),
        (
            "neighbour_ns, {neighbour}, neighbouring",
            "neighbour",
            false,
        ),
        ("cannot be \\\n   had here", "be had", true),
        ("doubtful", "doubt*", true),
        ("no doubt", "doubt*", true),
        ("redoubt", "doubt*", false),
    ] {
        assert_eq!(has(&normal(text), word), is_there, "{text}");
    }
    let file = |path: &str| {
        File {
        path: path.to_owned(),
        text: "//! Is told.\n/// Is told.\n#[x(\"is told\")] const A: &str = \"one two\"; const B: &str = \"b\";"
            .to_owned(),
    }
    };
    let texts_of = |path: &str| {
        texts(&file(path))
            .into_iter()
            .map(|t| t.1)
            .collect::<Vec<_>>()
    };
    assert_eq!(texts_of("crates/lab/src/a.rs"), ["\"one two\""]);
    assert_eq!(texts_of("crates/bytecost/src/args.rs").len(), 4);
}
