//! Questions about this host outside of a run, which an observer of its own answers.

use std::time::Duration;

use bytecost_spec::Host;
use bytecost_spec::evidence::Means;
use bytecost_spec::survey::{ClockVerdict, UnitCost};

use crate::observers::Observers;
use crate::protocol::{HostAnswer, HostQuestion};
use crate::short_trials::Surveyor;
use crate::watch::Watch;

/// Asks about this host. Its observer is started by the first question.
pub struct HostQuestions<'s> {
    surveyor: &'s Surveyor<'s>,
    host: &'s Host,
    observers: Observers,
}

impl<'s> HostQuestions<'s> {
    /// Questions about this host, whose CPUs are the given ones.
    pub fn new(surveyor: &'s Surveyor<'s>, host: &'s Host) -> HostQuestions<'s> {
        HostQuestions {
            surveyor,
            host,
            observers: Observers::default(),
        }
    }

    /// The reason why no evidence can be collected by these means; none if it can.
    pub fn evidence_refusal(&mut self, means: Means) -> Option<String> {
        let Surveyor { program, stop, .. } = self.surveyor;
        let wanted = Watch::by(&[means], Duration::ZERO).of_observer();
        let opened = (self.observers).open_instruments(program, self.host, wanted, stop);
        opened.err().map(|e| e.to_string())
    }

    /// The CPU time of one event of each kind, by clocks of this kind; takes half a second, or two where
    /// others run.
    ///
    /// # Errors
    /// The reason why no observer answers.
    pub fn unit_costs(&mut self, clock: ClockVerdict) -> Result<Vec<UnitCost>, String> {
        match self.ask(HostQuestion::UnitCosts(clock))? {
            HostAnswer::UnitCosts(costs) => Ok(costs),
            _ => Err(OTHER_ANSWER.to_owned()),
        }
    }

    /// Returns true if others run now, so that no cost of an event would be measured without them; also
    /// where no observer answers.
    pub fn do_others_run(&mut self) -> bool {
        let answer = self.ask(HostQuestion::DoOthersRun);
        answer != Ok(HostAnswer::DoOthersRun(false))
    }

    fn ask(&mut self, question: HostQuestion) -> Result<HostAnswer, String> {
        let Surveyor { program, stop, .. } = self.surveyor;
        let answer = self.observers.ask(program, self.host, question, stop);
        answer.map_err(|e| e.to_string())
    }
}

const OTHER_ANSWER: &str = "protocol error: the observer sent the reading of another question";
