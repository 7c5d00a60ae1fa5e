//! Questions about why in words: each with its answer or what is missing for one, what is behind it,
//! and what would change it.

use bytecost_analysis::{Analysis, CacheLevel, Explanation, Missing, NoValue, NotTimed, Question};
use bytecost_spec::Axis;
use serde::Serialize;

mod caches;
mod causes;
mod ceiling;
mod copies;
mod sockets;
mod unexpected;
mod why;
mod work;

use why::{MOST_ROWS, Why, Words};

use crate::caveats::withholding_reason;
use crate::{no_value, phrases};

/// A question with the run's answer, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplanationText {
    /// The question.
    pub key: Question,
    /// The question in words.
    pub question: &'static str,
    /// The answer; none where the data do not support one.
    pub answer: Option<String>,
    /// The numbers behind it, a row each.
    pub numbers: Vec<String>,
    /// Further facts that support the answer, a line each.
    pub evidence: Vec<String>,
    /// A change of conditions that would change the answer.
    pub would_change: Option<&'static str>,
    /// The data that an answer would need, where there is none.
    pub missing: Option<String>,
    /// [`Finding::number`](bytecost_analysis::Finding::number)s of those behind it.
    pub findings: Vec<usize>,
}

/// The words of a question that comparisons along sizes answer, one place after the other.
const fn words(
    key: Question,
    question: &'static str,
    needs: &'static str,
    would_change: &'static str,
) -> Words {
    Words {
        key,
        question,
        needs,
        would_change,
        along: &[Axis::Size],
        is_together: false,
        answer: |why| why.by_pairs(Vec::new()),
    }
}

/// Every question, in the order of its enum.
#[rustfmt::skip] // a phrase book
const QUESTIONS: &[Words] = &[
    words(Question::WhyOneWayWins, "Why is one way better than another?",
        "",
        "another size or transport; a path on which the kernel copies less, or more (--transport wire)")
        .answered(causes::answer),
    words(Question::CopiesPerByte, "How often is each byte copied, and where?",
        "",
        "another transport: over loopback and veth the kernel copies on delivery what a sender did not, over wire nobody receives; a packet socket, which has the kernel copy for it")
        .answered(copies::answer),
    words(Question::ZeroCopyNotFastest, "Why is zero-copy not always fastest?",
        "no way without a copy was measured next to one that copies by as many calls",
        "a path on which the kernel does not copy after all (one that leaves this machine, or --transport wire), larger messages, or several buffers in flight for each completion")
        .answered(sockets::not_fastest),
    words(Question::ZeroCopyAgainstCopying, "From what message size does zero-copy beat copying?",
        "no way without a copy was measured next to one that copies by as many calls",
        "a path on which the kernel does not copy after all (one that leaves this machine, or --transport wire), sizes beyond the range, or payload from memory that is in no cache (--ring)")
        .answered(|why| why.by_pairs(why.copied())),
    words(Question::OneCallAgainstSeveral, "From what message size does one call beat one call for each field, and up to which?",
        "no way with one call per message was measured next to one with a call for each field",
        "other --fields, sizes beyond the range, or the other --pattern (streaming, or waiting for answers)"),
    words(Question::ThreadsAndCaches, "How do threads interact with the caches, apart from there being more threads than CPUs?",
        "needs cells with several numbers of flows (--threads 1,2,4)",
        "a machine with more CPUs, threads that are kept on CPUs of their own (--placement), or payload that does not fit into the caches (--ring)")
        .answered(caches::with_threads),
    words(Question::CacheLevel, "Which cache level gains most from sending without a copy?",
        "no way without a copy was measured next to one that copies",
        "payload from memory that is in no cache (--ring), other sizes, or a path on which the kernel does not copy after all")
        .answered(caches::gains_most),
    words(Question::AsynchronousSlower, "When is asynchronous slower than synchronous?",
        "no asynchronous read was measured next to a synchronous one (--mover pread,posix-aio,uring-read)",
        "more requests in flight (--depth), a file that is not in the page cache (--cache), other request sizes (--size), or a disk with more parallelism")
        .along(&[Axis::Cache, Axis::Depth, Axis::Size]).together(),
    words(Question::SendfileSaves, "What does sendfile save, and when does it not?",
        "no way that leaves the bytes in the kernel was measured next to one that reads them into memory",
        "a larger block for the way that reads and writes (--block), larger files (--size), a path on which the receiver is not what both wait for, or the other state of the page cache (--cache warm,cold)")
        .along(&[Axis::Cache, Axis::Size]).together().answered(|why| why.by_pairs(work::no_cold_cache(why))),
    words(Question::WhichServer, "Which model for how many connections?",
        "needs several servers at the same number of kept connections",
        "more CPUs for the server (--placement 0,2:1), larger or slower responses (--service, --size), or new connections (--connect new)")
        .along(&[Axis::Server]),
    words(Question::IdleConnections, "Where do servers fall off with connections that are only there?",
        "needs cells with and without idle connections (--idle 0,900)",
        "more connections that are busy at the same time, so that a wait brings several of them; select and poll hand all descriptors to the kernel at each wait, epoll and io_uring keep them there")
        .along(&[Axis::Idle]),
    words(Question::ClientsShare, "How much of a request was the clients' own work?",
        "needs a server in a closed loop, whose clients report their work",
        "more threads for the clients (--threads), or a rate that they keep to (--rate)")
        .answered(work::clients_share),
    words(Question::MemoryPerConnection, "What does a thread or process for each connection cost in memory?",
        "needs a server with a thread or process for each connection, at two numbers of connections that lie 100 apart",
        "services that touch more of a stack, or another size of kernel stacks")
        .answered(work::memory),
    words(Question::SingleSoonest, "Does single-threaded really have the least latency?",
        "needs a server of one connection after the other and another at the same load",
        "several connections that are kept, which it cannot serve, or responses that take long")
        .along(&[]),
    words(Question::Unexpected, "What was unexpected?",
        "no finding that the prediction speaks of: its cells were not measured",
        "another machine, a path that leaves it, or conditions that the prediction did not speak of")
        .answered(unexpected::answer),
    words(Question::SharedCore, "Do the two CPUs seem to share a core, whatever the kernel reports?",
        "needs work in registers with one and with two threads, on two CPUs",
        "a quiet machine, where the CPU time of a step is not raised by what others do on the host's cores")
        .answered(work::shared_core),
    words(Question::Pinning, "What does it change to hold threads on CPUs, alone and beside background load?",
        "no pinned work was measured next to free work",
        "load that comes and ceases on some CPUs and not on others (--background spin@0), more threads than CPUs, or CPUs that share no cache")
        .along(&[Axis::Background]).together().answered(|why| why.by_pairs(work::moves(why))),
    words(Question::TakingTurns, "Do two threads that slow each other share a core, or take turns on one CPU?",
        "needs work in registers of two threads on one logical CPU and on two",
        "a machine whose hardware threads are visible (placement smt-sibling), or other work: what waits for memory leaves a core to its sibling")
        .answered(work::turns),
    words(Question::CacheSteps, "Where does an access become more expensive, and is that where the kernel reports the caches?",
        "needs such work at three sizes or more",
        "huge pages (--huge-pages on), which take most misses of the translation buffers away, other sizes between those that were measured, and a quiet machine")
        .answered(caches::steps),
    words(Question::HugePages, "From which working set on do huge pages make an access cheaper, and why?",
        "needs the same work with --huge-pages off and on",
        "another order of access: in order the next page is known before it is needed, so that its translation is too; and under a hypervisor, whether the host backs the guest's memory with huge pages")
        .together().answered(|why| why.by_pairs(work::huge_pages())),
    words(Question::IsolationProtects, "Which scheduler class or control group keeps work from background load?",
        "needs work of one class or group with background load and without it",
        "background load of another class or in a group of its own, more threads than CPUs, and caches and memory, which no class or group divides")
        .along(&[Axis::Class, Axis::Cgroup]).together().answered(|why| why.by_pairs(work::limits(why))),
    words(Question::IsolationWakes, "What do a class, a weight and a quota do to wake-ups?",
        "needs wake-ups with and without a class or group",
        "other intervals between beats, other amounts of work at each, and other periods of the quota: a thread that has used it up waits for the end of its period")
        .along(&[Axis::Background]).together().answered(|why| why.by_pairs(work::throttled(why))),
    words(Question::CeilingShare, "What share of what this machine can copy, and of what its disk gives, is reached?",
        "",
        "fewer copies and fewer calls bring it up; `bytecost ceiling` measures the ceiling anew")
        .answered(ceiling::answer),
];

/// Every question that a run is about, in its words.
pub fn explanations(a: &Analysis) -> Vec<ExplanationText> {
    a.explanations.iter().map(|e| text(a, e)).collect()
}

/// The words of a question and of its answer.
pub(crate) fn text(a: &Analysis, explanation: &Explanation) -> ExplanationText {
    let words = &QUESTIONS[explanation.question as usize];
    let why = Why {
        pairs: why::seen(a, &explanation.pairs),
        a,
        explanation,
        words,
    };
    let parts = (words.answer)(&why);
    let missing = explanation
        .missing
        .as_ref()
        .map(|missing| why.missing(missing));
    let shown = match explanation.question {
        Question::WhyOneWayWins => 1 + MOST_ROWS,
        _ => usize::MAX,
    };
    let of_pairs = explanation.pairs.iter().take(shown).map(|p| p.finding);
    ExplanationText {
        key: words.key,
        question: words.question,
        answer: missing.is_none().then(|| phrases::capital(&parts.answer)),
        numbers: parts.numbers,
        evidence: parts.evidence,
        would_change: missing.is_none().then_some(words.would_change),
        missing,
        findings: of_pairs.chain(unexpected::findings(explanation)).collect(),
    }
}

impl Why<'_> {
    /// Reason for a missing answer, in a short clause.
    fn missing(&self, missing: &Missing) -> String {
        match missing {
            Missing::Cells => self.words.needs.to_owned(),
            Missing::Comparison => "the study does not compare them".to_owned(),
            Missing::Judgement => "the study does not judge them".to_owned(),
            Missing::Decision(n) if self.words.key == Question::Unexpected => {
                let open = phrases::count(*n, "finding");
                format!("not decided in {open} that the prediction speaks of")
            }
            Missing::Decision(n) => {
                format!("not decided in {}", phrases::count(*n, "comparison"))
            }
            Missing::Verdicts(kind) => format!("withheld: {}", withholding_reason(*kind)),
            Missing::Amounts => "amounts are withheld, and levels differ in these alone".to_owned(),
            Missing::Refused(why) => why.clone(),
            Missing::Evidence => {
                "no cell was looked at to the end: continue with --resume".to_owned()
            }
            Missing::Difference => "no two counted cells are decided to differ".to_owned(),
            Missing::SavedCopy => {
                let copied = self.copied().into_iter().next().unwrap_or_default();
                let reason = phrases::without_stop(&copied);
                format!("withheld: {reason} (on another path: `bytecost run send-wire`, as root)")
            }
            Missing::Completions => "no completion was flagged or counted, so that nobody knows whether the kernel copied".to_owned(),
            Missing::Misses { level, why } => not_counted(*level, why),
            Missing::MissesAndTiming { level, why, timing } => {
                let timing = match timing {
                    NotTimed::Unasked => "--evidence footprint finds it by timing".to_owned(),
                    NotTimed::NoPair => {
                        "and no pair of zero-copy and copying was timed".to_owned()
                    }
                    NotTimed::Refused(refusal) => format!("nor timed: {refusal}"),
                };
                format!("{}; {timing}", not_counted(*level, why))
            }
            Missing::Level => {
                "hits cannot be told from misses here, or others use the cache as much".to_owned()
            }
            Missing::LevelsApart => "the intervals of the levels overlap".to_owned(),
        }
    }
}

fn not_counted(level: CacheLevel, reason: &NoValue) -> String {
    let (cache, reason) = (caches::name(level), no_value::words(reason));
    let why = phrases::without_stop(&reason);
    format!("misses of the {cache} are not counted: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_question_stand_at_its_place() {
        for (place, words) in QUESTIONS.iter().enumerate() {
            assert_eq!(words.key as usize, place);
        }
        assert_eq!(QUESTIONS.len(), Question::CeilingShare as usize + 1);
    }
}
