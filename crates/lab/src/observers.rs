//! The observers of this host and of the other one, as the coordinator sees them: kept from trial to
//! trial, and started anew where one is gone.

use std::io;
use std::slice;
use std::sync::atomic::AtomicBool;

use bytecost_spec::Host;
use bytecost_sys::clock;

use crate::endpoint_process::{Endpoint, GRACE_NS, no_response, unexpected, wait};
use crate::program::Program;
use crate::protocol::{
    FromEndpoint, HostAnswer, HostQuestion, HostReadings, ObservedTrial, ObserverStage,
    ObserverTask, Role, ToEndpoint, WantedEvidence,
};
use crate::settings::Settings;
use crate::trial_error::TrialError;
use crate::trial_output::ReadingsOfHosts;

/// The longest time in which the instruments of evidence open, in ns: the kernel verifies dozens of programs
/// and waits for all CPUs as it attaches each, for more than 10 s on a busy machine that is emulated.
const OPENING_NS: u64 = 60_000_000_000;

#[derive(Default)]
pub(crate) struct Observers {
    here: Option<Endpoint>,
    there: Option<Endpoint>,
    /// The number of trials so far.
    trials: u64,
}

impl Observers {
    /// Asks the one of this host, which is started if there is none.
    pub(crate) fn ask(
        &mut self,
        program: &Program,
        host: &Host,
        question: HostQuestion,
        stop: &AtomicBool,
    ) -> Result<HostAnswer, TrialError> {
        let here = running(&mut self.here, host, || {
            Endpoint::start(program, Role::Observer, None)
        })?;
        let longest_ns = longest_ns(&question);
        here.order(&ToEndpoint::Ask(question))?;
        loop {
            match answer(here, longest_ns, stop)? {
                FromEndpoint::Answer(answer) => return Ok(answer),
                // Of a trial that has failed.
                FromEndpoint::Observed { .. } => {}
                other => return Err(unexpected(Role::Observer.name(), &other)),
            }
        }
    }

    /// Has the one of this host open the instruments of this evidence, unless they are open. An error has
    /// the reason why they cannot be.
    pub(crate) fn open_instruments(
        &mut self,
        program: &Program,
        host: &Host,
        wanted: WantedEvidence,
        stop: &AtomicBool,
    ) -> Result<(), TrialError> {
        let question = HostQuestion::EvidenceRefusal(wanted);
        match self.ask(program, host, question, stop)? {
            HostAnswer::EvidenceRefusal(None) => Ok(()),
            HostAnswer::EvidenceRefusal(Some(why)) => Err(TrialError::failed(why)),
            other => {
                let other = FromEndpoint::Answer(other);
                Err(unexpected(Role::Observer.name(), &other))
            }
        }
    }

    /// The observers of the next trial; none where no machine is read. One with a side on the other host
    /// says how an observer is started there.
    pub(crate) fn for_trial(
        &mut self,
        settings: &Settings,
        host: &Host,
        start_there: Option<impl FnOnce() -> io::Result<Endpoint>>,
    ) -> Result<TrialObservers<'_>, TrialError> {
        if !settings.reads_machine {
            return Ok(TrialObservers::default());
        }
        self.trials += 1;
        let start_here = || Endpoint::start(&settings.program, Role::Observer, None);
        let mut observers = vec![running(&mut self.here, host, start_here)?];
        if let Some(start_there) = start_there {
            observers.push(running(&mut self.there, host, start_there)?);
        }
        Ok(TrialObservers {
            trial: self.trials,
            observers: observers.into_iter().map(ObserverOfTrial::new).collect(),
        })
    }
}

/// The observer that runs, else a new one. The other host's fills in its own CPUs.
fn running<'o>(
    observer: &'o mut Option<Endpoint>,
    host: &Host,
    start: impl FnOnce() -> io::Result<Endpoint>,
) -> Result<&'o mut Endpoint, TrialError> {
    if let Some(mut former) = observer.take()
        && former.is_alive()
    {
        return Ok(observer.insert(former));
    }
    let new = observer.insert(start()?);
    let cpus = host.cpus.iter().map(|c| c.cpu).collect();
    new.order(&ToEndpoint::Observe(ObserverTask { cpus }))?;
    Ok(new)
}

/// The longest time until a question is answered, in ns.
fn longest_ns(question: &HostQuestion) -> u64 {
    match question {
        HostQuestion::EvidenceRefusal(_) => OPENING_NS,
        HostQuestion::OthersUse | HostQuestion::UnitCosts(_) | HostQuestion::DoOthersRun => {
            GRACE_NS
        }
    }
}

/// Its next answer; an error if there is none after `longest_ns`, which ends it.
fn answer(
    observer: &mut Endpoint,
    longest_ns: u64,
    stop: &AtomicBool,
) -> Result<FromEndpoint, TrialError> {
    let until_ns = clock::monotonic_ns() + longest_ns;
    let answer = wait(slice::from_mut(observer), until_ns, stop);
    Ok(answer.inspect_err(|_| observer.give_up())?.1)
}

/// The observers of one trial, this host's first; none of a trial at which no machine is read.
#[derive(Default)]
pub(crate) struct TrialObservers<'o> {
    trial: u64,
    observers: Vec<ObserverOfTrial<'o>>,
}

struct ObserverOfTrial<'o> {
    endpoint: &'o mut Endpoint,
    stage: Option<ObserverStage>,
}

impl<'o> ObserverOfTrial<'o> {
    fn new(endpoint: &'o mut Endpoint) -> ObserverOfTrial<'o> {
        ObserverOfTrial {
            endpoint,
            stage: None,
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.stage, Some(ObserverStage::Over(_)))
    }

    fn readings(self) -> HostReadings {
        match self.stage {
            Some(ObserverStage::Over(readings)) => *readings,
            _ => HostReadings::default(),
        }
    }
}

impl TrialObservers<'_> {
    /// Has them prepare for a trial, and waits for that.
    pub(crate) fn prepare(
        &mut self,
        trial: ObservedTrial,
        stop: &AtomicBool,
    ) -> Result<(), TrialError> {
        self.order(&ToEndpoint::Trial(Box::new(ObservedTrial {
            number: self.trial,
            ..trial
        })))?;
        let is_preparing = |observer: &ObserverOfTrial<'_>| observer.stage.is_none();
        while let Some(index) = self.observers.iter().position(is_preparing) {
            let answer = answer(self.observers[index].endpoint, GRACE_NS, stop)?;
            self.on_answer(index, answer)?;
        }
        Ok(())
    }

    /// Gives up those that have not reported. Returns the error of that.
    pub(crate) fn give_up(&mut self) -> TrialError {
        let silent = self.observers.iter_mut().filter(|o| !o.is_over());
        no_response(silent.map(|observer| {
            observer.endpoint.give_up();
            &*observer.endpoint
        }))
    }

    /// The endpoints, in their order.
    pub(crate) fn endpoints(&mut self) -> impl Iterator<Item = &mut Endpoint> {
        let all = self.observers.iter_mut();
        all.map(|observer| &mut *observer.endpoint)
    }

    /// Records an answer of the one at that index.
    pub(crate) fn on_answer(
        &mut self,
        index: usize,
        answer: FromEndpoint,
    ) -> Result<(), TrialError> {
        match (answer, self.observers.get_mut(index)) {
            (FromEndpoint::Observed { trial, stage }, Some(observer)) => {
                // Answers of a trial that has failed may come late.
                if trial == self.trial {
                    observer.stage = Some(stage);
                }
                Ok(())
            }
            (other, _) => Err(unexpected(Role::Observer.name(), &other)),
        }
    }

    /// Sends an order to all, the other host's first.
    pub(crate) fn order(&mut self, order: &ToEndpoint) -> Result<(), TrialError> {
        let mut all = self.observers.iter_mut().rev();
        all.try_for_each(|observer| observer.endpoint.order(order))
    }

    /// Sends an order about the window to the one of this host. The agent has that of the other host open
    /// and close with its side.
    pub(crate) fn order_here(&mut self, order: &ToEndpoint) -> Result<(), TrialError> {
        let mut here = self.observers.first_mut().into_iter();
        here.try_for_each(|observer| observer.endpoint.order(order))
    }

    /// Returns true once all have read the opening edge of passes.
    pub(crate) fn are_open(&self) -> bool {
        let mut stages = self.observers.iter().map(|observer| &observer.stage);
        stages.all(|stage| !matches!(stage, None | Some(ObserverStage::Ready)))
    }

    /// Returns true once all have read the closing edge.
    pub(crate) fn are_closed(&self) -> bool {
        let mut stages = self.observers.iter().map(|observer| &observer.stage);
        stages.all(|s| matches!(s, Some(ObserverStage::Closed | ObserverStage::Over(_))))
    }

    /// Returns true once all have reported.
    pub(crate) fn are_over(&self) -> bool {
        self.observers.iter().all(ObserverOfTrial::is_over)
    }

    /// The readings of both hosts, once all have reported.
    pub(crate) fn readings(self) -> ReadingsOfHosts {
        let mut readings = self.observers.into_iter().map(ObserverOfTrial::readings);
        let mut next = || readings.next().unwrap_or_default();
        ReadingsOfHosts {
            here: next(),
            there: next(),
        }
    }
}
