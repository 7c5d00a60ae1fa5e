//! Rust source as tokens, so that comments and strings are not taken for code.

use std::str::FromStr;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// The tokens of a file.
pub fn tokens(path: &str, text: &str) -> TokenStream {
    TokenStream::from_str(text).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// A token and its line, from 1.
pub struct Place<'a> {
    pub token: &'a TokenTree,
    pub line: usize,
}

/// Visits every token, those inside groups and macros included, in the order of the file.
pub fn walk(stream: TokenStream, visit: &mut dyn FnMut(Place<'_>)) {
    for token in stream {
        visit(Place {
            token: &token,
            line: token.span().start().line,
        });
        if let TokenTree::Group(group) = token {
            walk(group.stream(), visit);
        }
    }
}

/// Returns true if a token is this word.
pub fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

/// Returns true if a token is this sign.
pub fn is_sign(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

/// The group that a token is, if it is one with these brackets.
pub fn group(token: Option<&TokenTree>, delimiter: Delimiter) -> Option<&Group> {
    match token {
        Some(TokenTree::Group(group)) if group.delimiter() == delimiter => Some(group),
        _ => None,
    }
}

/// The brackets of a group.
pub fn brackets(group: &Group) -> (&'static str, &'static str) {
    match group.delimiter() {
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::None => ("", ""),
    }
}

/// The file without what only tests see: `#[cfg(test)] mod … { … }`.
pub fn without_tests(stream: TokenStream) -> TokenStream {
    let list: Vec<TokenTree> = stream.into_iter().collect();
    let mut kept = Vec::new();
    let mut at = 0;
    while at < list.len() {
        if is_sign(list.get(at), '#') && is_cfg_test(list.get(at + 1)) {
            let is_end =
                |t: &TokenTree| is_sign(Some(t), ';') || group(Some(t), Delimiter::Brace).is_some();
            let rest = list[at..].iter().position(is_end);
            at = rest.map_or(list.len(), |n| at + n + 1);
        } else {
            kept.push(list[at].clone());
            at += 1;
        }
    }
    kept.into_iter().collect()
}

fn is_cfg_test(token: Option<&TokenTree>) -> bool {
    group(token, Delimiter::Bracket).is_some_and(|g| g.stream().to_string() == "cfg (test)")
}

#[test]
fn tests_are_left_out() {
    for (text, left) in [
        (
            "fn a() {} #[cfg(test)] mod tests { fn b() {} } fn c() {}",
            "fn a () { } fn c () { }",
        ),
        ("#[cfg(test)] mod tests; fn c() {}", "fn c () { }"),
        ("#[cfg(unix)] mod x; ", "# [cfg (unix)] mod x ;"),
    ] {
        let tokens = tokens("here", text);
        let squeezed = |s: String| s.split_whitespace().collect::<Vec<_>>().join(" ");
        let left_tokens = TokenStream::from_str(left).unwrap().to_string();
        assert_eq!(
            squeezed(without_tests(tokens).to_string()),
            squeezed(left_tokens)
        );
    }
}
