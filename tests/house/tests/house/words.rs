//! What must not be left behind in the code.

use proc_macro2::Delimiter;

use crate::source::{Place, group, is_sign, is_word, tokens, walk};
use crate::tree::{self, File};

/// Macros of unfinished work.
const MACROS: &[&str] = &["todo", "unimplemented", "dbg"];

#[test]
fn nothing_unfinished_is_left_behind() {
    let mut broken = Vec::new();
    for File { path, text } in tree::files(&[".rs"]) {
        walk(tokens(&path, &text), &mut |place| {
            if let Some(what) = unfinished(&place) {
                broken.push(format!("{path}:{}: {what}", place.line));
            }
        });
    }
    tree::none(&broken, "unfinished work:");
}

/// Names of files that say nothing of what is in them.
#[test]
fn every_file_is_named_for_what_it_defines() {
    let mut broken = Vec::new();
    for File { path, .. } in tree::files(&[".rs"]) {
        let stem = path.rsplit('/').next().unwrap().trim_end_matches(".rs");
        if [
            "util", "utils", "helper", "helpers", "misc", "common", "types",
        ]
        .contains(&stem)
        {
            broken.push(path);
        }
    }
    tree::none(&broken, "files whose name is no noun of the house:");
}

fn unfinished(place: &Place<'_>) -> Option<String> {
    let next = place.after.first();
    if let Some(name) = MACROS.iter().find(|m| is_word(place.token, m)) {
        return is_sign(next, '!').then(|| format!("{name}!"));
    }
    let attribute = group(next, Delimiter::Bracket)?;
    let first = attribute.stream().into_iter().next()?;
    let ignored = is_sign(Some(place.token), '#') && is_word(&first, "ignore");
    ignored.then(|| "#[ignore]: a test runs, or it is not there".to_owned())
}

#[test]
fn words_count_as_code_only() {
    for (text, found) in [
        ("fn f() { todo!() }", 1),
        ("fn f() { assert!(dbg!(true)) }", 1),
        ("#[test] #[ignore] fn f() {}", 1),
        ("#[ignore = \"slow\"] fn f() {}", 1),
        (
            "// todo!()\nfn f() { println!(\"dbg!\"); let todo = 1; }",
            0,
        ),
        ("/// ```ignore\n/// ```\nfn ignore() {}", 0),
    ] {
        let mut count = 0;
        walk(tokens("here", text), &mut |place| {
            count += usize::from(unfinished(&place).is_some())
        });
        assert_eq!(count, found, "{text}");
    }
}
