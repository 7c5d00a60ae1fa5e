//! Ways to send without a copy, in words.

use bytecost_analysis::{Fact, Verdict};

use super::why::{Said, Why};
use crate::caveats::copied;

impl Why<'_> {
    /// Sentences about the bytes that the kernel copied for zero-copy movers, one a way.
    pub(super) fn copied(&self) -> Vec<String> {
        let facts = self.explanation.facts.iter();
        let sentences = facts.filter_map(|fact| match fact {
            Fact::Copied(of) => Some(copied(of)),
            _ => None,
        });
        sentences.collect()
    }
}

pub(super) fn not_fastest(why: &Why<'_>) -> Said {
    let copied = why.copied();
    let answer = if why.explanation.facts.contains(&Fact::NoCopySaved) {
        let copied = copied.join(" ");
        format!("it saves no copy here, and what it adds comes on top: {copied}")
    } else if why.pairs.iter().any(|v| v.is(Verdict::Worse)) {
        let where_worse = why.comparisons();
        format!(
            "what it adds to each message costs more than the copy that it saves, where it is worse. {where_worse}"
        )
    } else {
        format!("it was not shown to be worse here. {}", why.comparisons())
    };
    Said {
        answer,
        evidence: copied,
        ..Said::default()
    }
}
