//! The order of the files of a crate: no two need each other, by whatever way.
//!
//! A file needs another where a path outside of tests leads to what that one defines, through
//! whatever re-exports. Two do not count: what is only given on (`pub use`), and a table, which is
//! a const or static with a list, naming rows in files of its own folder. Methods are not seen,
//! and of what macros make, only its types.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proc_macro2::{TokenStream, TokenTree};

use crate::source::{brackets, tokens, without_tests};
use crate::tree::{self, File};

/// Arrows that may close a circle, and why: a file, and what it needs though that needs it.
const ALLOWED: &[(&str, &str, &str)] = &[
    (
        "crates/spec/src/axis/table.rs",
        "crates/spec/src/axis/row.rs",
        "a row names an axis and a cell, which the macro makes of the rows",
    ),
    (
        "crates/spec/src/axis/table.rs",
        "crates/spec/src/axis/values.rs",
        "an error of a value names its axis, which the macro makes of the rows",
    ),
];

/// A word or sign of a file, its line, and how many brackets it stands in.
struct Word {
    text: String,
    line: usize,
    depth: usize,
}

/// A file of a crate as others see it.
#[derive(Default)]
struct Module {
    file: String,
    /// Its place in its crate: none for the root.
    place: Vec<String>,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// Names of its own items.
    defines: BTreeSet<String>,
    /// Paths of items from elsewhere, by their names here.
    imports: BTreeMap<String, Vec<String>>,
    /// Modules of which it has everything.
    globs: Vec<Vec<String>>,
    /// Paths that it needs, with their lines.
    needs: Vec<Need>,
}

struct Need {
    path: Vec<String>,
    line: usize,
    /// It stands in a table: a const or static that is a list.
    in_table: bool,
}

/// The target of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    Module(usize),
    Item(usize),
    /// Something that a macro makes in this module, or nothing.
    Unknown(usize),
}

/// The modules of a crate from its files; the first is the root.
fn modules(files: &[(Vec<String>, String, String)]) -> Vec<Module> {
    let mut all: Vec<Module> = Vec::new();
    let mut by_place = BTreeMap::new();
    for (place, path, text) in files {
        let mut module = read(path, text);
        module.place.clone_from(place);
        if let Some((name, above)) = place.split_last() {
            let parent: usize = by_place[above];
            let child = all.len();
            all[parent].children.insert(name.clone(), child);
            module.parent = Some(parent);
        }
        by_place.insert(place.as_slice(), all.len());
        all.push(module);
    }
    all
}

/// A file as others see it, its place in the crate left out.
fn read(path: &str, text: &str) -> Module {
    let mut words = Vec::new();
    flatten(without_tests(tokens(path, text)), 0, &mut words);
    let mut module = Module {
        file: path.to_owned(),
        ..Module::default()
    };
    let tables = tables(&words);
    let mut imports = Vec::new();
    let mut rest = Vec::new(); // words outside of imports
    // Ends of inline modules, each with one `super` that stays in the file.
    let mut inline: Vec<usize> = Vec::new();
    let mut at = 0;
    while at < words.len() {
        inline.retain(|end| at < *end);
        let word = words[at].text.as_str();
        let next = |n: usize| words.get(at + n).map_or("", |w| w.text.as_str());
        if word == "use" && next(1) != "<" {
            let is_public = at > 0 && matches!(words[at - 1].text.as_str(), "pub" | ")");
            let end = at + words[at..].iter().position(|w| w.text == ";").unwrap_or(0);
            leaves(
                &words[at + 1..end],
                &mut Vec::new(),
                &mut |leaf, name, line| {
                    let from = leaf[within(leaf, inline.len())..].to_vec();
                    imports.push((from, name.to_owned(), line, is_public));
                },
            );
            at = end + 1;
            continue;
        }
        if word == "mod" && next(2) == "{" {
            let depth = words[at].depth;
            let end = words[at + 3..].iter().position(|w| w.depth == depth);
            inline.push(at + 3 + end.unwrap_or(0));
        }
        module
            .defines
            .extend(defined(&words, at).map(str::to_owned));
        let in_table = tables.iter().any(|(from, to)| (*from..*to).contains(&at));
        if !is_name(word) {
            at += 1;
            continue;
        }
        let needed = path_at(&words, at);
        let end = at + 3 * needed.len() - 2;
        // What is defined here, a field and what follows a dot are no names from elsewhere.
        let before = at.checked_sub(1).map_or("", |n| words[n].text.as_str());
        let is_own = needed.len() == 1
            && (matches!(before, "." | "fn" | "type" | "mod" | "const" | "struct")
                || words.get(end).is_some_and(|w| w.text == ":"));
        if !is_own {
            rest.push(Need {
                path: needed[within(&needed, inline.len())..].to_vec(),
                line: words[at].line,
                in_table,
            });
        }
        at = end;
    }
    module.take(imports, rest);
    module
}

/// An import: path, name here, line, and whether it is exported again.
type Import = (Vec<String>, String, usize, bool);

impl Module {
    /// Takes what it imports, and all paths and words outside of imports.
    fn take(&mut self, imports: Vec<Import>, rest: Vec<Need>) {
        for (path, name, line, is_public) in imports {
            if name == "*" {
                self.globs.push(path);
                continue;
            }
            let mut used = rest
                .iter()
                .filter(|n| n.path.first() == Some(&name))
                .peekable();
            let in_table = used.peek().is_some() && used.clone().all(|n| n.in_table);
            // What is only given on is not needed here.
            if !is_public || used.peek().is_some() {
                self.needs.push(Need {
                    path: path.clone(),
                    line,
                    in_table,
                });
            }
            if name != "_" {
                self.imports.insert(name, path);
            }
        }
        self.needs.extend(
            rest.into_iter()
                .filter(|n| n.path.len() > 1 || !self.globs.is_empty()),
        );
    }
}

/// The name that is defined at a word, if others may use it: an item, or a type in a macro.
fn defined(words: &[Word], at: usize) -> Option<&str> {
    let next = |n: usize| words.get(at + n).map(|w| w.text.as_str());
    let in_macro = at > 0 && words[at - 1].text == "pub" && words[at].depth == 1;
    match words[at].text.as_str() {
        "struct" | "enum" if in_macro => next(1),
        _ if words[at].depth > 0 => None,
        "fn" | "struct" | "enum" | "trait" | "type" | "static" | "union" => next(1),
        "const" => next(1).filter(|name| *name != "fn"),
        "macro_rules" => next(2),
        _ => None,
    }
}

/// The names of the path that begins at a word.
fn path_at(words: &[Word], at: usize) -> Vec<String> {
    let more = words[at + 1..].chunks_exact(3).take_while(|three| {
        three[0].text == ":" && three[1].text == ":" && is_name(&three[2].text)
    });
    let names = std::iter::once(&words[at]).chain(more.map(|three| &three[2]));
    names.map(|word| word.text.clone()).collect()
}

/// The number of `super` of a path that lead out of inline modules, not out of the file.
fn within(path: &[String], inline: usize) -> usize {
    let above = path.iter().take_while(|s| *s == "super").count();
    above.min(inline)
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn flatten(stream: TokenStream, depth: usize, words: &mut Vec<Word>) {
    for token in stream {
        let line = token.span().start().line;
        let mut push = |text: String, at: usize| {
            words.push(Word {
                text,
                line: at,
                depth,
            })
        };
        match token {
            TokenTree::Group(group) => {
                let (open, close) = brackets(&group);
                push(open.to_owned(), line);
                flatten(group.stream(), depth + 1, words);
                let last_line = group.span_close().start().line;
                words.push(Word {
                    text: close.to_owned(),
                    line: last_line,
                    depth,
                });
            }
            TokenTree::Literal(_) => push("\"\"".to_owned(), line),
            other => push(other.to_string(), line),
        }
    }
}

/// Where tables stand: from the word `const` or `static` of a list to its end.
fn tables(words: &[Word]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if word.depth > 0 || !matches!(word.text.as_str(), "const" | "static") {
            continue;
        }
        let after = &words[at..];
        let end = |sign: &str| {
            after
                .iter()
                .position(|w| w.depth == 0 && w.text == sign)
                .unwrap_or(0)
        };
        if after[..end("=")].iter().any(|w| w.text == "[") {
            found.push((at, at + end(";")));
        }
    }
    found
}

/// Visits the leaves of an import: path, name here, line.
fn leaves(words: &[Word], above: &mut Vec<String>, visit: &mut dyn FnMut(&[String], &str, usize)) {
    let Some(depth) = words.first().map(|w| w.depth) else {
        return;
    };
    for one in words.split(|w| w.depth == depth && w.text == ",") {
        let before = above.len();
        let mut at = 0;
        while at < one.len() {
            let text = one[at].text.as_str();
            match text {
                ":" => {}
                "{" => {
                    leaves(&one[at + 1..one.len() - 1], above, visit);
                    break;
                }
                "*" => visit(above, "*", one[at].line),
                name => {
                    let renamed = one.get(at + 1).filter(|w| w.text == "as").map(|_| at + 2);
                    if name != "self" || above.is_empty() {
                        above.push(name.to_owned());
                    }
                    if at + 1 == one.len() || renamed.is_some() {
                        let last = above.last().cloned().unwrap_or_default();
                        let here = renamed.map_or(last, |n| one[n].text.clone());
                        visit(above, &here, one[at].line);
                        break;
                    }
                }
            }
            at += 1;
        }
        above.truncate(before);
    }
}

/// Where a path leads that is written in a module; nothing for what is of other crates.
fn find(all: &[Module], from: usize, path: &[String], is_start: bool, turns: u8) -> Option<Found> {
    let Some((name, rest)) = path.split_first() else {
        return Some(Found::Module(from));
    };
    let here = &all[from];
    if is_start {
        match name.as_str() {
            "crate" => return find(all, 0, rest, false, turns),
            "self" => return find(all, from, rest, false, turns),
            "super" => return find(all, here.parent?, rest, false, turns),
            _ => {}
        }
    } else if name == "super" {
        return find(all, here.parent?, rest, false, turns);
    }
    let is_item = here.defines.contains(name);
    if let Some(child) = here
        .children
        .get(name)
        .filter(|_| !is_item || !rest.is_empty())
    {
        return find(all, *child, rest, false, turns);
    }
    if is_item {
        return Some(Found::Item(from));
    }
    let turns_left = turns.checked_sub(1)?;
    if let Some(import) = here.imports.get(name) {
        return match find(all, from, import, true, turns_left)? {
            Found::Module(module) => find(all, module, rest, false, turns_left),
            other => Some(other),
        };
    }
    for glob in &here.globs {
        if let Some(Found::Module(module)) = find(all, from, glob, true, turns_left) {
            match find(all, module, path, false, turns_left) {
                Some(Found::Unknown(_)) | None => {}
                found => return found,
            }
        }
    }
    (!is_start).then_some(Found::Unknown(from))
}

/// Pairs of files of which the first imports from the second, with the lines that do.
type Arrows = BTreeMap<(usize, usize), BTreeSet<usize>>;

fn arrows(all: &[Module]) -> Arrows {
    let mut arrows = Arrows::new();
    for (from, module) in all.iter().enumerate() {
        for need in &module.needs {
            let Some(Found::Item(to) | Found::Unknown(to)) = find(all, from, &need.path, true, 9)
            else {
                continue;
            };
            let is_row = need.in_table && all[to].place.starts_with(&module.place);
            if to != from && !is_row {
                arrows.entry((from, to)).or_default().insert(need.line);
            }
        }
    }
    arrows
}

/// The shortest way from one module to another along the arrows, both included.
fn way(arrows: &Arrows, from: usize, to: usize) -> Option<Vec<usize>> {
    let mut before = BTreeMap::from([(from, from)]);
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        if at == to {
            let mut way = vec![to];
            while way[way.len() - 1] != from {
                way.push(before[&way[way.len() - 1]]);
            }
            way.reverse();
            return Some(way);
        }
        for (_, next) in arrows.range((at, 0)..(at + 1, 0)).map(|(arrow, _)| arrow) {
            if !before.contains_key(next) {
                before.insert(*next, at);
                queue.push_back(*next);
            }
        }
    }
    None
}

/// Every circle that is the shortest one of one of its arrows, each once.
fn circles(arrows: &Arrows) -> Vec<Vec<usize>> {
    let mut found = BTreeMap::new();
    for (from, to) in arrows.keys() {
        if let Some(way) = way(arrows, *to, *from) {
            let members: BTreeSet<usize> = way.iter().copied().collect();
            found.entry((way.len(), members)).or_insert(way);
        }
    }
    found.into_values().collect()
}

/// The crates, each with its files: place, path and text.
fn crates() -> BTreeMap<String, Vec<(Vec<String>, String, String)>> {
    let mut crates = BTreeMap::<_, Vec<_>>::new();
    for File { path, text } in tree::files(&[".rs"]) {
        let Some((name, file)) = path
            .strip_prefix("crates/")
            .and_then(|p| p.split_once("/src/"))
        else {
            continue;
        };
        let place: Vec<String> = match file.trim_end_matches(".rs") {
            "lib" | "main" => Vec::new(),
            file => file.split('/').map(str::to_owned).collect(),
        };
        if !place.iter().any(|p| p == "tests") {
            let files = crates.entry(name.to_owned()).or_default();
            files.push((place, path, text));
        }
    }
    for files in crates.values_mut() {
        files.sort();
    }
    crates
}

#[test]
fn no_files_of_a_crate_need_each_other() {
    let mut broken = Vec::new();
    let mut closing: BTreeSet<&(&str, &str, &str)> = BTreeSet::new();
    for files in crates().into_values() {
        let all = modules(&files);
        let excuse = |(from, to): &(usize, usize)| {
            let (from, to) = (&all[*from].file, &all[*to].file);
            ALLOWED.iter().find(|row| row.0 == from && row.1 == to)
        };
        let (back, rest): (Arrows, Arrows) = arrows(&all)
            .into_iter()
            .partition(|(arrow, _)| excuse(arrow).is_some());
        let closes = |arrow: &&(usize, usize)| way(&rest, arrow.1, arrow.0).is_some();
        closing.extend(back.keys().filter(closes).filter_map(excuse));
        broken.extend(
            circles(&rest)
                .iter()
                .map(|way| circle_line(&all, &rest, way)),
        );
    }
    let idle = ALLOWED.iter().filter(|row| !closing.contains(row));
    broken.extend(idle.map(|row| format!("{} no longer closes a circle: take it off", row.0)));
    tree::none(
        &broken,
        "what both need goes into the lower file, or into one that stands below both:",
    );
}

/// Levels of imports that a crate may have, where it is more than nine. The numbers only fall.
const LEVELS: &[(&str, usize)] = &[("lab", 13)];

/// The most levels of imports among the files of a crate that is not named in `LEVELS`.
const MAX_LEVELS: usize = 9;

#[test]
fn files_of_a_crate_stand_on_few_levels_of_imports() {
    let mut broken = Vec::new();
    for (name, files) in crates() {
        let all = modules(&files);
        let excused = |(from, to): &(usize, usize)| {
            let (from, to) = (&all[*from].file, &all[*to].file);
            ALLOWED.iter().any(|row| row.0 == from && row.1 == to)
        };
        let arrows: Vec<(usize, usize)> = arrows(&all)
            .into_keys()
            .filter(|arrow| !excused(arrow))
            .collect();
        let chain = longest_chain(&arrows, all.len());
        let bound = LEVELS
            .iter()
            .find(|(crate_name, _)| *crate_name == name)
            .map_or(MAX_LEVELS, |(_, bound)| *bound);
        let is_idle = bound > MAX_LEVELS && chain.len() < bound;
        if chain.len() > bound || is_idle {
            let levels: Vec<&str> = chain.iter().map(|at| all[*at].file.as_str()).collect();
            broken.push(format!(
                "{name} has {} levels and may have {bound}:\n    {}",
                chain.len(),
                levels.join("\n    ")
            ));
        }
    }
    tree::none(
        &broken,
        "put what is needed deep down into fewer files, or lower its number:",
    );
}

/// The longest chain of files of which each imports from the next.
fn longest_chain(arrows: &[(usize, usize)], files: usize) -> Vec<usize> {
    fn below(
        file: usize,
        arrows: &[(usize, usize)],
        known: &mut [Option<Vec<usize>>],
    ) -> Vec<usize> {
        if let Some(chain) = &known[file] {
            return chain.clone();
        }
        let mut longest = Vec::new();
        for (_, needed) in arrows.iter().filter(|(from, _)| *from == file) {
            let chain = below(*needed, arrows, known);
            if chain.len() > longest.len() {
                longest = chain;
            }
        }
        longest.insert(0, file);
        known[file] = Some(longest.clone());
        longest
    }
    let mut known = vec![None; files];
    (0..files)
        .map(|file| below(file, arrows, &mut known))
        .max_by_key(Vec::len)
        .unwrap_or_default()
}

/// A circle, a line for each file with the lines that need the next.
fn circle_line(all: &[Module], arrows: &Arrows, circle: &[usize]) -> String {
    let pairs = circle.iter().zip(circle.iter().cycle().skip(1));
    let steps = pairs.map(|(from, to)| {
        let lines: Vec<String> = arrows[&(*from, *to)].iter().map(usize::to_string).collect();
        let (from, to) = (&all[*from].file, &all[*to].file);
        format!("\n    {from}:{} needs {to}", lines.join(","))
    });
    format!("a circle:{}", steps.collect::<String>())
}

/// Imports among files that are given by their places, as `a/b`; `` is the root.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    let file = |(place, text): &(&str, &str)| {
        let parts = place.split('/').filter(|p| !p.is_empty());
        let path: Vec<String> = parts.map(str::to_owned).collect();
        (path.clone(), path.join("/"), (*text).to_owned())
    };
    let all = modules(&files.iter().map(file).collect::<Vec<_>>());
    let arrows = arrows(&all);
    let name = |i: &usize| match all[*i].file.as_str() {
        "" => "root",
        name => name,
    };
    let named = arrows
        .keys()
        .map(|(from, to)| format!("{} {}", name(from), name(to)));
    named.collect()
}

#[test]
fn a_file_needs_what_its_paths_lead_to() {
    let two = |a: &str, b: &str| found(&[("", "mod a; mod b; pub use b::B;"), ("a", a), ("b", b)]);
    let b = "pub struct B; pub fn f() {} pub(crate) mod inner { pub fn g() {} }";
    for (a, arrows) in [
        ("use crate::b::B;", &["a b"][..]),
        ("use super::b::{self, B as C}; fn f() { b::f() }", &["a b"]),
        ("use crate::{B, a};", &["a b"]),
        ("fn f() -> crate::B { super::b::f() }", &["a b"]),
        ("use crate::b::*; fn g(b: B) {}", &["a b"]),
        ("pub use crate::b::B;", &[]),
        ("pub use crate::b::B; fn f(b: B) {}", &["a b"]),
        ("use crate::b;", &[]),
        ("use std::fs; fn f() { fs::read() }", &[]),
        ("#[cfg(test)] mod tests { use crate::b::B; }", &[]),
        ("mod m { use super::super::b::B; }", &["a b"]),
        ("mod m { use super::B; } struct B;", &[]),
        (
            "fn f() -> &'static str { \"crate::b::B\" } // crate::b::B",
            &[],
        ),
    ] {
        assert_eq!(two(a, b), arrows, "{a}");
    }
}

#[test]
fn a_table_may_name_the_rows_of_its_folder() {
    let row = "use super::Row; pub const ROW: Row = Row;";
    for (root, needs) in [
        ("mod t; pub struct Row; const T: &[Row] = &[t::ROW];", false),
        (
            "mod t; use t::ROW; pub struct Row; static T: [Row; 1] = [ROW];",
            false,
        ),
        ("mod t; pub struct Row; fn f() -> Row { t::ROW }", true),
        ("mod t; pub struct Row; const T: Row = t::ROW;", true),
    ] {
        let arrows = found(&[("", root), ("t", row)]);
        assert_eq!(arrows.contains(&"root t".to_owned()), needs, "{root}");
        assert!(arrows.contains(&"t root".to_owned()), "{root}");
    }
}

#[test]
fn circles_are_found_by_every_way_and_once() {
    let arrows = |list: &[(usize, usize)]| -> Arrows {
        let lines = BTreeSet::from([1]);
        list.iter().map(|arrow| (*arrow, lines.clone())).collect()
    };
    let count = |list: &[(usize, usize)]| circles(&arrows(list)).len();
    assert_eq!(count(&[(0, 1), (1, 2), (0, 2)]), 0);
    assert_eq!(count(&[(0, 1), (1, 0)]), 1);
    assert_eq!(count(&[(0, 1), (1, 2), (2, 0)]), 1);
    assert_eq!(count(&[(0, 1), (1, 0), (1, 2), (2, 1)]), 2);
}
