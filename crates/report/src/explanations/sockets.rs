//! Ways to send without a copy, in words.

use bytecost_analysis::{Fact, Verdict};

use super::why::{AnswerParts, Why};
use crate::caveats::copied;

impl Why<'_> {
    /// Sentences about the bytes that the kernel copied for zero-copy movers, one a way.
    pub(super) fn copied(&self) -> Vec<String> {
        let sentence = |fact: &Fact| match fact {
            Fact::Copied(mover) => Some(copied(mover)),
            _ => None,
        };
        let facts = self.explanation.facts.iter();
        facts.filter_map(sentence).collect()
    }
}

pub(super) fn not_fastest(why: &Why<'_>) -> AnswerParts {
    let copied = why.copied();
    let answer = if why.explanation.facts.contains(&Fact::NoCopySaved) {
        let sentences = copied.join(" ");
        format!("it saves no copy here, and what it adds comes on top: {sentences}")
    } else if why.pairs.iter().any(|v| v.is(Verdict::Worse)) {
        format!(
            "what it adds to each message costs more than the copy that it saves, where it is worse. {}",
            why.comparisons()
        )
    } else {
        format!("it was not shown to be worse here. {}", why.comparisons())
    };
    AnswerParts {
        answer,
        evidence: copied,
        ..AnswerParts::default()
    }
}
