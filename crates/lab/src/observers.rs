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
    ObserverTask, Role, ToEndpoint,
};
use crate::settings::Settings;
use crate::trial_error::TrialError;
use crate::trial_output::ReadingsOfHosts;

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
        here.order(&ToEndpoint::Ask(question))?;
        loop {
            match answer(here, stop)? {
                FromEndpoint::Answer(answer) => return Ok(answer),
                // Of a trial that has failed.
                FromEndpoint::Observed { .. } => {}
                other => return Err(unexpected(Role::Observer.name(), &other)),
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
        reports_quotas: bool,
    ) -> Result<TrialObservers<'_>, TrialError> {
        if !settings.reads_machine {
            return Ok(TrialObservers::default());
        }
        self.trials += 1;
        let here = running(&mut self.here, host, || {
            Endpoint::start(&settings.program, Role::Observer, None)
        })?;
        let mut there = None;
        if let Some(start) = start_there {
            let observer = running(&mut self.there, host, start)?;
            // The agent fills in the trial when its side is ready, and the side waits for that.
            observer.order(&ToEndpoint::Trial(Box::new(ObservedTrial {
                number: self.trials,
                reports_quotas,
                ..ObservedTrial::default()
            })))?;
            there = Some(ObserverOfTrial::new(observer));
        }
        Ok(TrialObservers {
            trial: self.trials,
            here: Some(ObserverOfTrial::new(here)),
            there,
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

fn answer(observer: &mut Endpoint, stop: &AtomicBool) -> Result<FromEndpoint, TrialError> {
    let until_ns = clock::monotonic_ns() + GRACE_NS;
    let answer = wait(slice::from_mut(observer), until_ns, stop);
    Ok(answer.inspect_err(|_| observer.give_up())?.1)
}

/// The observers of one trial; none of a trial at which no machine is read.
#[derive(Default)]
pub(crate) struct TrialObservers<'o> {
    trial: u64,
    here: Option<ObserverOfTrial<'o>>,
    there: Option<ObserverOfTrial<'o>>,
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
    /// Has the one of this host prepare for a trial, and waits for it.
    pub(crate) fn prepare(
        &mut self,
        trial: ObservedTrial,
        stop: &AtomicBool,
    ) -> Result<(), TrialError> {
        let order = ToEndpoint::Trial(Box::new(ObservedTrial {
            number: self.trial,
            ..trial
        }));
        self.order_here(&order)?;
        while let Some(here) = self.here.as_mut().filter(|here| here.stage.is_none()) {
            let answer = answer(here.endpoint, stop)?;
            self.on_answer(0, answer)?;
        }
        Ok(())
    }

    /// Gives up those that have not reported. Returns the error of that.
    pub(crate) fn give_up(&mut self) -> TrialError {
        let all = self.here.iter_mut().chain(&mut self.there);
        let silent = all.filter(|observer| !observer.is_over());
        let silent: Vec<&Endpoint> = silent
            .map(|observer| {
                observer.endpoint.give_up();
                &*observer.endpoint
            })
            .collect();
        no_response(silent)
    }

    /// The endpoints, this host's first.
    pub(crate) fn endpoints(&mut self) -> impl Iterator<Item = &mut Endpoint> {
        let all = self.here.iter_mut().chain(&mut self.there);
        all.map(|observer| &mut *observer.endpoint)
    }

    /// Records an answer of the one at that index.
    pub(crate) fn on_answer(
        &mut self,
        index: usize,
        answer: FromEndpoint,
    ) -> Result<(), TrialError> {
        let mut all = self.here.iter_mut().chain(&mut self.there);
        match (answer, all.nth(index)) {
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

    /// Sends an order to the one of this host. The agent gives that of the other host the orders that follow
    /// from those of its side.
    pub(crate) fn order_here(&mut self, order: &ToEndpoint) -> Result<(), TrialError> {
        self.here
            .as_mut()
            .map_or(Ok(()), |here| here.endpoint.order(order))
    }

    /// Sends an order to all, the other host's first.
    pub(crate) fn order(&mut self, order: &ToEndpoint) -> Result<(), TrialError> {
        if let Some(there) = &mut self.there {
            there.endpoint.order(order)?;
        }
        self.order_here(order)
    }

    /// Returns true once the opening edge of passes was read on this host.
    pub(crate) fn is_open(&self) -> bool {
        self.has_passed(|stage| !matches!(stage, None | Some(ObserverStage::Ready)))
    }

    /// Returns true once the closing edge was read on this host.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_open() && self.has_passed(|stage| !matches!(stage, Some(ObserverStage::Open)))
    }

    /// Returns true if this holds for the stage of the observer of this host, or there is none.
    fn has_passed(&self, is_passed: impl Fn(&Option<ObserverStage>) -> bool) -> bool {
        (self.here.as_ref()).is_none_or(|here| is_passed(&here.stage))
    }

    /// Returns true once all have reported.
    pub(crate) fn is_over(&self) -> bool {
        let mut all = self.here.iter().chain(&self.there);
        all.all(ObserverOfTrial::is_over)
    }

    /// The readings of both hosts, once all have reported.
    pub(crate) fn readings(self) -> ReadingsOfHosts {
        let readings = |observer: Option<ObserverOfTrial<'_>>| {
            observer.map_or_else(HostReadings::default, ObserverOfTrial::readings)
        };
        ReadingsOfHosts {
            here: readings(self.here),
            there: readings(self.there),
        }
    }
}
