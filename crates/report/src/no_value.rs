//! The reasons for which values are absent, in words.

use bytecost_analysis::NoValue;

/// A reason as a clause within a sentence.
pub(crate) fn words(reason: &NoValue) -> String {
    let words = match reason {
        NoValue::Recorded(words) => words,
        NoValue::NotRead(counter) => return format!("{} was not read", counter.name()),
        NoValue::FewRounds { ended, needed } => {
            return format!("{ended} rounds of its set came to an end; an interval takes {needed}");
        }
        NoValue::NotCounted => "they were not counted",
        NoValue::NoNumber => "the readings give no number",
        NoValue::NoReceiver => "there is no receiver",
        NoValue::PacketsFreed => {
            "nobody receives over wire: packets are freed as they leave, so there is no receiving side to measure"
        }
        NoValue::NoServer => "there is no server",
        NoValue::NoConnection => "there are no connections",
        NoValue::NoMessage => "no message was sent within the window",
        NoValue::NothingMoved => "nothing was moved within the window",
        NoValue::NoResponse => "no request had a response",
        NoValue::HalfUnserved => "half of the connections got no answer within the window",
        NoValue::NoCpuTime => "no CPU time was counted within the window",
        NoValue::NoCompletion => "no buffer came back within the window",
        NoValue::NoLatency => "the trial recorded no latencies",
        NoValue::UnreadableHistogram => "the latency histogram cannot be read",
        NoValue::SharedCounters => "the counters shared the CPU's registers with others",
        NoValue::EmptyWindow => "the window had no length",
        NoValue::EmptyFlowWindow => "a flow's window had no length",
        NoValue::EmptyClientsWindow => "the clients' window had no length",
        NoValue::IndistinctMisses => "its hits and misses cannot be distinguished",
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phrases::without_stop;
    use bytecost_spec::Counter;

    #[test]
    fn a_reason_has_its_counter_its_numbers_or_the_words_of_the_run() {
        let rounds = NoValue::FewRounds {
            ended: 2,
            needed: 3,
        };
        for (reason, expected) in [
            (
                NoValue::NotRead(Counter::BranchMisses),
                "branch_misses was not read",
            ),
            (
                rounds,
                "2 rounds of its set came to an end; an interval takes 3",
            ),
            (NoValue::Recorded("gone.".to_owned()), "gone."),
        ] {
            assert_eq!(words(&reason), expected);
        }
        let gone = NoValue::Recorded("gone.".to_owned());
        assert_eq!(without_stop(&words(&gone)), "gone");
    }
}
