//! Repeats of blocks in which other processes used CPUs, or the run was stopped.

use std::time::Duration;

use bytecost_spec::sample::{Block, Repeat};

use crate::settings::Settings;

/// The blocks of a run that were measured again.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    /// Time that went into them.
    spent: Duration,
}

impl Repeats {
    /// Counts a block of an earlier process of the run.
    pub(crate) fn resume(&mut self, block: &Block) {
        if block.repeated_because.is_some() {
            self.spent += length(block);
        }
    }

    /// The reason to measure a block again; none if it counts, or if no more may be repeated.
    pub(crate) fn reason(&mut self, block: &Block, settings: &Settings) -> Option<Repeat> {
        let length = length(block);
        let may_repeat =
            block.attempt < settings.repeats_most && self.spent + length <= settings.repeats_for;
        let reason = disturbance(block, settings.foreign_cpus).filter(|_| may_repeat)?;
        self.spent += length;
        Some(reason)
    }
}

fn disturbance(block: &Block, foreign_cpus: f64) -> Option<Repeat> {
    if block.stopped_ns > 0 {
        let ms = block.stopped_ns.div_ceil(1_000_000);
        return Some(Repeat::Stopped { ms });
    }
    let cpus = block.other_cpus();
    (cpus > foreign_cpus).then_some(Repeat::OtherProcesses {
        cpus_thousandths: (cpus * 1e3) as u64,
    })
}

/// The length of a block without the time for which it was stopped.
fn length(block: &Block) -> Duration {
    Duration::from_nanos(block.elapsed_ns.saturating_sub(block.stopped_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;
    use crate::protocol::ContentCheck;

    const SECOND: u64 = 1_000_000_000;

    fn settings() -> Settings {
        Settings {
            foreign_cpus: 0.1,
            repeats_most: 2,
            repeats_for: Duration::from_secs(5),
            ..Settings::of_single_trials(Program::own().unwrap(), ContentCheck::Quick)
        }
    }

    /// A block of 2 s, in which others used so much CPU time.
    fn block(attempt: u32, others_ns: u64, stopped_ns: u64) -> Block {
        Block {
            attempt,
            elapsed_ns: 2 * SECOND + stopped_ns,
            others_ns,
            stopped_ns,
            ..Block::default()
        }
    }

    #[test]
    fn a_block_is_measured_again_that_others_or_a_stop_disturbed() {
        let check = |block: Block, expected: Option<Repeat>| {
            assert_eq!(Repeats::default().reason(&block, &settings()), expected);
        };
        check(block(0, SECOND / 10, 0), None);
        let cpus_thousandths = 500;
        let by_others = Repeat::OtherProcesses { cpus_thousandths };
        check(block(0, SECOND, 0), Some(by_others.clone()));
        check(block(1, SECOND, 0), Some(by_others));
        check(block(2, SECOND, 0), None);
        check(block(0, SECOND, 1), Some(Repeat::Stopped { ms: 1 }));
    }

    #[test]
    fn time_for_repeats_is_bounded_and_counts_no_stop() {
        let mut repeats = Repeats::default();
        let disturbed = block(0, SECOND, 100 * SECOND);
        repeats.resume(&block(0, SECOND, 0));
        assert!(
            repeats.reason(&disturbed, &settings()).is_some(),
            "2 of 5 s"
        );
    }
}
