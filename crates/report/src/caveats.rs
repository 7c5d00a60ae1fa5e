//! Caveats in words, made of the facts that each rests on.

use bytecost_analysis::{Analysis, Caveat, CaveatEffect};
use serde::{Deserialize, Serialize};

mod book;
mod cards;
mod fill;
mod known;
mod path;
mod reasons;
mod run;
mod stall;
mod vocabulary;
mod zero_copy;

pub(crate) use known::others;
pub(crate) use reasons::{reason_by_name, withholding_reason};
pub(crate) use zero_copy::copied;

use book::{BOOK, Words};
use fill::filled;
use known::Known;
use vocabulary::word;

/// A caveat in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CaveatText {
    /// Short name: `zero-copy-copied`, `pacing`, …
    pub kind: String,
    /// Effect of the caveat on verdicts.
    #[serde(default)]
    pub effect: CaveatEffect,
    /// Description of the caveat, in a sentence or two.
    pub text: String,
    /// Short name of the outside disturbance; empty where nothing from outside disturbed the run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub brief: String,
    /// The readings behind it.
    pub evidence: String,
    /// Action that would remove the caveat.
    pub remedy: String,
    /// [`bytecost_spec::Cell::id`]s of the affected cells; empty where it affects the whole run.
    pub cells: Vec<String>,
}

/// A circumstance that can bend a ranking, as it was found in the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DisturbanceText {
    /// The name of its caveat.
    pub caveat: String,
    /// Short name of the disturbance.
    pub text: String,
    /// Judged findings that have no verdict for it.
    pub verdicts_withheld: usize,
    /// Findings of which the direction alone stands.
    pub amounts_withheld: usize,
}

/// The caveats of a result in words, in their order.
pub fn caveats(a: &Analysis) -> Vec<CaveatText> {
    a.caveats.iter().map(|c| caveat(a, c)).collect()
}

/// A caveat of a result in words.
pub(crate) fn caveat(a: &Analysis, caveat: &Caveat) -> CaveatText {
    let entry = BOOK.iter().find(|words| caveat.kind == words.kind);
    let known = Known { a, caveat };
    let say = |phrase: fn(&Words) -> &'static str| {
        entry.map_or_else(String::new, |words| {
            filled(phrase(words), |name| word(&known, name))
        })
    };
    CaveatText {
        kind: caveat.kind.0.to_owned(),
        effect: caveat.effect,
        text: say(|words| words.text),
        brief: if caveat.disturbs {
            say(|words| words.brief)
        } else {
            String::new()
        },
        evidence: say(|words| words.evidence),
        remedy: say(|words| words.remedy),
        cells: caveat.cells.clone(),
    }
}

/// Outside disturbances of the run in words, by the number of verdicts that each withheld, most
/// first.
pub fn disturbances(a: &Analysis) -> Vec<DisturbanceText> {
    let texts = a.disturbances.iter().filter_map(|disturbance| {
        let text = caveat(a, a.caveats.get(disturbance.caveat)?);
        Some(DisturbanceText {
            caveat: text.kind,
            text: text.brief,
            verdicts_withheld: disturbance.verdicts_withheld,
            amounts_withheld: disturbance.amounts_withheld,
        })
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::vocabulary::VOCABULARY;
    use super::*;
    use bytecost_analysis::caveat_kinds;

    #[test]
    fn each_caveat_has_its_words_and_no_words_are_of_another() {
        let words = BOOK.iter().map(|words| words.kind);
        assert!(words.eq(caveat_kinds()));
    }

    #[test]
    fn every_name_in_the_book_is_a_word_and_every_word_is_in_the_book() {
        let texts: Vec<&str> = BOOK
            .iter()
            .flat_map(|w| [w.brief, w.text, w.evidence, w.remedy])
            .collect();
        let is_used = |name: &str| texts.iter().any(|t| t.contains(&format!("{{{name}}}")));
        for (name, _) in VOCABULARY {
            assert!(is_used(name), "{name}");
        }
        for text in texts {
            let names = text
                .split('{')
                .skip(1)
                .filter_map(|rest| rest.split_once('}'));
            for (name, _) in names {
                assert!(
                    VOCABULARY.iter().any(|(word, _)| *word == name),
                    "{name}: {text}"
                );
            }
        }
    }
}
