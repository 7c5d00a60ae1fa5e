//! Questions about why, each answered from the run or said what is missing.

use itertools::Itertools as _;

use crate::phrases;
use crate::result::Explanation;
use crate::stages::Explained;

mod asked;
mod cache_levels;
mod cache_steps;
mod causes;
mod ceiling;
mod copies;
mod files;
mod servers;
mod sockets;
mod unexpected;
mod work;

use asked::{Answered, Evidence, MOST_ROWS, PairQuery};

/// What is missing where evidence was asked for, and no cell has it.
const CUT_SHORT: &str = "no cell was looked at to the end: continue with --resume";

/// A question, which runs are asked it, and how it is answered.
struct Question {
    key: &'static str,
    text: &'static str,
    asks: fn(&Explained<'_>) -> bool,
    answers: Answers,
    would_change: &'static str,
}

enum Answers {
    /// By what is decided of pairs. What else bears on it is evidence.
    Pairs(PairQuery, Evidence),
    /// In its own way; none where there is nothing to be explained.
    Own(fn(&Explained<'_>) -> Option<Answered>),
}

/// All questions, in the order in which they are answered.
const QUESTIONS: [&[Question]; 8] = [
    &[causes::QUESTION, copies::QUESTION],
    sockets::QUESTIONS,
    cache_levels::QUESTIONS,
    files::QUESTIONS,
    servers::QUESTIONS,
    &[unexpected::QUESTION],
    work::QUESTIONS,
    &[ceiling::QUESTION],
];

/// The questions that the run is about. What no run on this machine can answer comes last.
pub(crate) fn all(run: &Explained<'_>) -> Vec<Explanation> {
    let asked = QUESTIONS.into_iter().flatten().filter(|q| (q.asks)(run));
    let found = asked.filter_map(|question| {
        let found = match &question.answers {
            Answers::Pairs(query, evidence) => run.ask(query).by_verdicts(*evidence),
            Answers::Own(ask) => ask(run)?,
        };
        Some((found.is_never, question.with(found)))
    });
    let in_order = found.sorted_by_key(|(is_never, _)| *is_never);
    in_order.map(|(_, explanation)| explanation).collect()
}

impl Question {
    fn with(&self, found: Answered) -> Explanation {
        let (answer, missing) = match found.answer {
            Ok(answer) => (Some(phrases::capital(&answer)), None),
            Err(missing) => (None, Some(missing)),
        };
        Explanation {
            key: self.key.to_owned(),
            question: self.text.to_owned(),
            would_change: answer.is_some().then(|| self.would_change.to_owned()),
            answer,
            numbers: found.numbers,
            evidence: found.evidence,
            missing,
            findings: found.findings,
        }
    }
}
