//! Phrases with words in the place of their names.

/// A phrase with each `{name}` replaced by its word. What is in brackets is left out where a word in it
/// is not known; elsewhere nothing stands in its place.
pub(super) fn filled(phrase: &str, word: impl Fn(&str) -> Option<String>) -> String {
    let mut text = String::new();
    let mut rest = phrase;
    let word_or_nothing = |name: &str| Some(word(name).unwrap_or_default());
    while let Some((before, from)) = rest.split_once('[') {
        let (part, after) = from.split_once(']').unwrap_or((from, ""));
        text.extend(replaced(before, word_or_nothing));
        text.extend(replaced(part, &word));
        rest = after;
    }
    text.extend(replaced(rest, word_or_nothing));
    text
}

/// None where a word is not known.
fn replaced(phrase: &str, word: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut pieces = phrase.split('{');
    let mut text = pieces.next()?.to_owned();
    for piece in pieces {
        let (name, after) = piece.split_once('}')?;
        text += &word(name)?;
        text += after;
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_takes_its_brackets_with_it() {
        let word = |name: &str| (name == "known").then(|| "3".to_owned());
        let check = |phrase: &str, expected: &str| assert_eq!(filled(phrase, word), expected);
        check("plain", "plain");
        check("{known} and {another}.", "3 and .");
        check("a[, {known} b][, {another} c]; {known}", "a, 3 b; 3");
        check("[{another}][{known}{another}]", "");
    }
}
