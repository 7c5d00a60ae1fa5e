//! The words of STYLE.md's glossary, held against all that users read.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::documents::table;
use crate::source::{group, is_sign, tokens, without_tests};
use crate::tree::{self, File};

/// What users read: pages, studies, reports of recorded runs, and the texts of crates.
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
/// How the names of such files end.
const ENDINGS: &[&str] = &[
    ".md",
    ".toml",
    ".rs",
    ".html",
    "screen.txt",
    "terminal.txt",
    "audit.txt",
];
/// Where comments are help texts.
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
            let text = normal(&text);
            for row in &glossary {
                let found = row[0].split(", ").filter(|word| has(&text, word));
                let told = |word| format!("{}:{line}: `{word}`: {}", file.path, row[1]);
                broken.extend(found.map(told));
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
                let text = text.to_string();
                found.extend(
                    (text.starts_with(['"', 'r']) && text.contains(' ')).then_some((line, text)),
                );
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
    let text = text.to_lowercase().replace('\\', " ");
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

/// Whether a text has a word; `*` stands for any ending. What stands in braces is a value.
fn has(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "_-{}".contains(c);
    let start = word.trim_end_matches('*');
    text.match_indices(start).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + start.len()..].chars().next();
        !before.is_some_and(is_part) && (word.ends_with('*') || !after.is_some_and(is_part))
    })
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
    let said = |path: &str| {
        texts(&file(path))
            .into_iter()
            .map(|t| t.1)
            .collect::<Vec<_>>()
    };
    assert_eq!(said("crates/lab/src/a.rs"), ["\"one two\""]);
    assert_eq!(said("crates/bytecost/src/args.rs").len(), 4);
}
