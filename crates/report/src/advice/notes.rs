//! Notes on single ways: use, condition, or the reason for a cost.

use bytecost_analysis::{Analysis, AvoidWith, Conditional, Situation, Use, Verdict, grouped};
use bytecost_spec::survey::Condition;
use bytecost_spec::{Axis, Transport, Unit, Value, units};
use itertools::Itertools as _;

use super::range::{amount, places, span};
use crate::phrases;

/// The end of a note on a way where another one is better and has a condition.
const UNCONDITIONED: &str = " without a condition";

/// Notes on one way in some situations: its use, its condition, or the reason for its cost. Empty
/// where the numbers need no note.
pub(crate) fn note(a: &Analysis, situations: &[&Situation], way: &Value) -> String {
    let all_notes = situations.iter().flat_map(|s| notes(a, s, way));
    // One note with all of its places.
    let by_text = grouped(all_notes.map(|note| ((note.text.clone(), note.is_condition), note)));
    let texts = by_text.into_iter().map(|((text, is_condition), notes)| {
        let is_everywhere =
            notes.len() == situations.len() && notes.iter().all(|n| n.is_everywhere);
        let places = notes
            .into_iter()
            .map(|note| note.at)
            .filter(|at| !at.is_empty());
        match places.unique().exactly_one() {
            Ok(place) if !is_everywhere && is_condition => format!("{text}, {place}"),
            Ok(place) if !is_everywhere => format!("{text} {place}"),
            _ => text,
        }
    });
    let texts: Vec<String> = texts.unique().collect();
    // A note with the addition stands for the same one without it.
    let is_said = |text: &&String| !texts.contains(&format!("{text}{UNCONDITIONED}"));
    texts.iter().filter(is_said).join("; ")
}

struct Note {
    text: String,
    /// Values along the range at which the note applies.
    at: String,
    is_everywhere: bool,
    /// True if the note is a condition for using the way at all.
    is_condition: bool,
}

impl Note {
    /// A note that applies at these values along the range.
    fn new(s: &Situation, text: String, at: &[Value]) -> Note {
        Note {
            text,
            at: span(s, at),
            is_everywhere: at.len() == s.measured.len(),
            is_condition: false,
        }
    }

    /// A note with the conditions for using the way there.
    fn condition(s: &Situation, conditions: &[Condition], at: &[Value]) -> Note {
        Note {
            is_condition: true,
            ..Note::new(s, only(conditions), at)
        }
    }

    /// A note on uses of a way without a condition.
    fn uses(a: &Analysis, s: &Situation, way: &Value, uses: &[&Use]) -> Note {
        let at: Vec<Value> = uses.iter().flat_map(|u| u.at.clone()).collect();
        let is_better = uses[0].gain.is_some();
        let is_best = if is_better {
            rivals(a, s, way, &at).is_empty()
        } else {
            is_alone_the_best(a, s, way)
        };
        let mut text = match (is_best, is_better) {
            (true, _) => "best".to_owned(),
            (false, true) => "among the best".to_owned(),
            (false, false) => "none shown better".to_owned(),
        };
        let is_beaten = |c: &Conditional| {
            let better = places(&c.gain);
            at.is_empty() || at.iter().any(|place| better.contains(place))
        };
        if s.conditional.iter().any(is_beaten) {
            text.push_str(UNCONDITIONED);
        }
        let worse = uses.iter().flat_map(|u| &u.but);
        for but in worse.filter(|but| but.verdict == Verdict::Worse) {
            let amount = amount(&but.points);
            let the = if amount.contains('×') { "the " } else { "" };
            text += &format!(
                ", but {amount} {the}{}",
                phrases::metric(but.metric, s.unit)
            );
        }
        let is_open = |place: &&Value| s.undecided.contains(place) || s.withheld.contains(place);
        let mut others = s.measured.iter().filter(|value| !at.contains(value));
        Note {
            is_everywhere: others.all(|other| !is_better && is_open(&other)),
            ..Note::new(s, text, &at)
        }
    }
}

fn notes(a: &Analysis, s: &Situation, way: &Value) -> Vec<Note> {
    let uses = || s.uses.iter().filter(|u| u.value == *way);
    let conditioned = uses().filter(|u| !u.conditions.is_empty());
    let mut notes = conditioned
        .map(|used| Note::condition(s, &used.conditions, &used.at))
        .collect_vec();
    // A baseline that is used at several places has one note.
    let (gains, plain): (Vec<&Use>, Vec<&Use>) = uses()
        .filter(|u| u.conditions.is_empty())
        .partition(|u| u.gain.is_some());
    notes.extend(gains.iter().map(|used| Note::uses(a, s, way, &[used])));
    if !plain.is_empty() {
        notes.push(Note::uses(a, s, way, &plain));
    }
    for used in s.uses.iter().filter(|u| u.gain.is_some()) {
        let mut rivals = rivals(a, s, &used.value, &used.at);
        rivals.retain(|(rival, _)| rival == way);
        let at: Vec<Value> = rivals.into_iter().map(|(_, at)| at).collect();
        if !at.is_empty() {
            let at = if used.at.is_empty() { &used.at } else { &at };
            notes.push(Note::new(s, format!("tied with `{}`", used.value), at));
        }
    }
    let conditional = s.conditional.iter().filter(|c| c.gain.value == *way);
    notes.extend(conditional.map(|c| Note::condition(s, &c.conditions, &places(&c.gain))));
    let worse = s.avoid.iter().filter(|avoid| avoid.cost.value == *way);
    notes.extend(worse.filter_map(|avoid| {
        let (text, at) = reason(s.unit, avoid.with.as_ref()?);
        let at = if at.is_empty() { &s.measured } else { at };
        Some(Note::new(s, text, at))
    }));
    notes
}

/// Returns true if every other way without a condition is shown to be worse wherever one is measured.
pub(super) fn is_alone_the_best(a: &Analysis, s: &Situation, way: &Value) -> bool {
    let mut best = s.may_be_best.iter().filter_map(|id| a.result(id));
    !s.may_be_best.is_empty() && best.all(|cell| cell.cell.value(s.axis) == *way)
}

/// Other ways that may be the best at some of these places, each with its place.
pub(crate) fn rivals(
    a: &Analysis,
    s: &Situation,
    way: &Value,
    at: &[Value],
) -> Vec<(Value, Value)> {
    let values = s.may_be_best.iter().filter_map(|id| {
        let cell = &a.result(id)?.cell;
        let place = s.along.map(|along| cell.value(along));
        Some((cell.value(s.axis), place.unwrap_or_default()))
    });
    values
        .filter(|(rival, place)| rival != way && (at.is_empty() || at.contains(place)))
        .collect()
}

/// The reason for a higher cost, with the places where it is one; none where that is everywhere.
fn reason(unit: Unit, with: &AvoidWith) -> (String, &[Value]) {
    match with {
        AvoidWith::Copied(share) => {
            let share = units::percent(*share);
            (format!("the kernel copied {share}"), &[])
        }
        AvoidWith::Cause { of, from, to, at } => {
            let cause = phrases::cause(*of, [*from, *to], &unit.in_words("a message"));
            (cause, at)
        }
    }
}

/// Note that zero-copy over a network card was not measured, where that would change a reason.
pub(crate) fn network_card(a: &Analysis) -> Option<String> {
    let is_copied = |s: &&Situation| {
        let path = s.place.iter().find(|(axis, _)| *axis == Axis::Transport);
        let is_network = path.is_some_and(|(_, value)| value == Transport::Peer.name());
        let copied = |with: &AvoidWith| matches!(with, AvoidWith::Copied(_));
        !is_network && s.avoid.iter().filter_map(|v| v.with.as_ref()).any(copied)
    };
    let mut copied = a.advice.situations.iter().filter(is_copied);
    copied.next().map(|_| {
        let study = &a.study.name;
        format!("a network card, where zero-copy may save: `bytecost run {study} --peer COMMAND`")
    })
}

/// `only with Linux 6.0 or newer`.
pub(super) fn only(conditions: &[Condition]) -> String {
    let words = conditions.iter().map(|c| condition(*c));
    format!("only {}", phrases::list(words))
}

fn condition(condition: Condition) -> String {
    let words = match condition {
        Condition::NeverWrittenAgain => "if never written again",
        Condition::NotWrittenUntilCompletion => "if not written until completion",
        Condition::OneByteOfEachPage => {
            "where one byte of each page is enough: it delivers no data"
        }
        Condition::NoDataNeeded => "where nobody needs the data: it delivers none",
        Condition::Linux(major, minor) => {
            return format!("with Linux {major}.{minor} or newer");
        }
        Condition::Java => "in a Java program",
        Condition::Privilege => "with root or CAP_SYS_NICE",
        Condition::Uring => "where io_uring is permitted",
        Condition::PollingCpu => "with a CPU for its poller",
        Condition::SpinningCpus => "with a CPU for each side, which spins on it",
        Condition::OneFileSystem => "within one file system",
        Condition::CpusAlone => "where nothing else needs these CPUs",
        Condition::ReceiverAsksAgain => "if the receiver sets it again before each read",
        Condition::DescriptorsBelow(most) => {
            let most = units::number(f64::from(most));
            return format!("with fewer than {most} descriptors");
        }
        Condition::NoneIdle => "with no idle connections",
        Condition::IdleNotMeasured => {
            "while no connection is idle (`--idle 0,900` measures idle ones)"
        }
        Condition::ThreadEach => "with a thread for each connection",
        Condition::ProcessEach => "with a process for each connection",
        Condition::OneClientAtATime => "with one client at a time",
    };
    words.to_owned()
}
