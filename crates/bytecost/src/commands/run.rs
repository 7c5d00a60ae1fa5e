//! `bytecost run`: a study from its name to its answer, or a run resumed.

mod evidence;
mod noise;
mod study;
mod survey;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::iter;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use bytecost_analysis::ceiling::STUDY as CEILING;
use bytecost_analysis::peer_again;
use bytecost_lab::host_questions::HostQuestions;
use bytecost_lab::leftovers::Leftover;
use bytecost_lab::peer::PeerLink;
use bytecost_lab::program::{Program, own_build};
use bytecost_lab::short_trials::Surveyor;
use bytecost_plan::SurveyedHost;
use bytecost_spec::manifest::RatioNoise;
use bytecost_spec::{Manifest, Plan, RoundConditions, Survey};
use bytecost_store::Root;

use self::survey::SurveyRequest;
use super::resume::{ReadyRun, check_only_limits, files_ready, resumed};
use super::{check_interrupted, note, peer, print_to_stderr};
use crate::args::{CeilingArgs, RunArgs};
use crate::campaign::{self, Campaign, Outcome};
use crate::failure::{Exit, bad_input};
use crate::history::EarlierRounds;
use crate::recorded_run::RecordedRun;
use crate::{machine, machine_cache, progress, signals};

/// Measures a study and shows its results; those of the study of the ceiling in a table of their own.
pub fn run(args: RunArgs) -> Result<Exit> {
    let is_ceiling = args.study.as_deref() == Some(CEILING) && args.axes.0.is_empty();
    check_port(&args)?;
    // Opened before anything takes long: a build that replaces the file meanwhile changes nothing.
    let program = Program::own()?;
    let stop = signals::stop_flag()?;
    let root = Root::at(&args.measuring.root.runs_dir);
    let leftovers = super::clean(&root);
    if let Some(name) = &args.measuring.resume {
        check_only_limits(&args)?;
        peer::check_same(root.open_to_change(name)?.manifest(), &args.peer)?;
    }
    let link = peer::opened(&args.peer, &stop)?;
    let earlier = if args.measuring.no_history {
        EarlierRounds::default()
    } else {
        EarlierRounds::read(notes_unless_quiet(&args))
    };
    let ready = match &args.measuring.resume {
        Some(name) => resumed(&root, name, &args, link.as_ref())?,
        None => NewRun {
            args: &args,
            program: &program,
            peer: link.as_ref(),
            earlier: &earlier,
            stop: &stop,
        }
        .create(&root)?,
    };
    if !args.measuring.quiet {
        announce(&args, &ready, &leftovers);
    }

    let ReadyRun {
        mut run,
        plan,
        study,
        files,
    } = ready;
    let campaign = Campaign {
        study: &study,
        plan,
        port: args.port,
        peer: link,
        quiet: args.measuring.quiet,
        stop: &stop,
    };
    let outcome = campaign.carry_out(&mut run, files, program)?;

    run.end(machine::now()?, outcome.reason_ended_early())?;
    if let Some(reason) = outcome.reason_ended_early() {
        print_to_stderr(format!(
            "{reason}: this is what was measured until then; `bytecost run --resume {}{}` continues",
            super::report::run_argument(&run),
            peer_again(run.manifest().peer.is_some())
        ));
    }
    let recorded = RecordedRun::read(&run)?;
    earlier.add(&recorded, notes_unless_quiet(&args));
    super::report::write_and_print(&recorded, is_ceiling)?;
    Ok(match outcome {
        Outcome::Interrupted => Exit::Interrupted,
        Outcome::PeerLost => Exit::SomeFailed,
        Outcome::Complete => Exit::from_success(recorded.is_whole()),
    })
}

/// `bytecost ceiling`: measures the study of that name.
pub fn ceiling(args: CeilingArgs) -> Result<Exit> {
    if let Some(name) = &args.measuring.resume {
        let run = Root::at(&args.measuring.root.runs_dir).open(name)?;
        let run_name = super::report::run_argument(&run);
        let study = &run.manifest().study.name;
        if study != CEILING {
            return Err(bad_input(format!(
                "run {run_name} is of study `{study}`: resume it with `bytecost run --resume {run_name}`"
            )));
        }
    }
    run(RunArgs {
        study: Some(CEILING.to_owned()),
        budget: args.budget,
        dir: args.dir,
        measuring: args.measuring,
        ..RunArgs::default()
    })
}

/// Refuses a `--port` that is in use on this host. With a peer the other host may be the one that listens.
fn check_port(args: &RunArgs) -> Result<()> {
    if let (Some(port), None) = (args.port, &args.peer.peer) {
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|e| {
            bad_input(format!(
                "port {port} is not available ({e}): choose another with --port, or leave it out to take a free one"
            ))
        })?;
    }
    Ok(())
}

/// Prints a note unless the command line has `--quiet`.
fn notes_unless_quiet(args: &RunArgs) -> impl FnOnce(String) {
    let quiet = args.measuring.quiet;
    move |text| {
        if !quiet {
            note(text);
        }
    }
}

/// Prints what is about to be measured, and notes about what was found on the machine.
fn announce(args: &RunArgs, ready: &ReadyRun, leftovers: &[Leftover]) {
    let ReadyRun {
        run, plan, study, ..
    } = ready;
    print_to_stderr(progress::announcement(study, plan));
    if args.quick {
        note(format!(
            "--quick decides large differences between few movers at few sizes over one path; it does not decide small ones, and measures no other movers, receivers, transports and patterns: the whole study, `bytecost run {}`, does in about a minute",
            study.name
        ));
    }
    for leftover in leftovers {
        note(format!("an earlier run was killed: {}", leftover.summary));
    }
    plan.notes.iter().for_each(note);
    for evidence in &run.manifest().evidence {
        if let (Some(why), false) = (&evidence.refused, evidence.unasked) {
            note(format!("no evidence of {}: {why}", evidence.means.name()));
        }
    }
    if let Some(files) = &run.manifest().survey.files {
        let test_files = || format!("test files in {}", files.dir);
        let subject = files.user_file.clone().unwrap_or_else(test_files);
        note(format!("{subject}, {}", files.file_system));
    }
}

/// All that a new run is made from.
struct NewRun<'a> {
    args: &'a RunArgs,
    program: &'a Program,
    peer: Option<&'a PeerLink>,
    earlier: &'a EarlierRounds,
    stop: &'a AtomicBool,
}

impl NewRun<'_> {
    /// Surveys this machine, plans the study by that, and creates the run with both in its manifest.
    fn create(&self, root: &Root) -> Result<ReadyRun> {
        let peer_host = self.peer.map(PeerLink::host);
        let chosen = study::chosen(self.args, peer_host.is_some())?;
        let (host, cpu_clock) = machine::host();
        check_interrupted(self.stop)?;
        let clock = cpu_clock.verdict();
        let study = study::fitted_to_host(chosen, self.args, &host)?;
        let request = SurveyRequest {
            study: &study,
            args: self.args,
            program: self.program,
            host: &host,
            stop: self.stop,
        };
        let found = Survey {
            cpu_clock: Some(cpu_clock),
            ..request.survey()?
        };

        let conditions = RoundConditions::new(&study, &host, peer_host);
        let rounds =
            (self.earlier).noise_of_new_run(conditions.as_ref(), notes_unless_quiet(self.args));
        let noise = RatioNoise {
            between: noise::between_rounds(&study, &rounds),
            ..noise::of_last_run(root, &study, &host, peer_host)
        };
        let seed = self.args.seed.unwrap_or_else(random_seed);
        let here = SurveyedHost {
            host: &host,
            survey: &found,
        };
        let plan =
            bytecost_plan::plan(&study, here, peer_host, seed, Some(&noise)).map_err(bad_input)?;
        check_not_empty(&plan)?;

        let surveyor = Surveyor::new(self.program, self.stop);
        let mut questions = HostQuestions::new(&surveyor, &host);
        let counters_cost = campaign::counters_cost(&study, &plan, &host, &found, self.stop)?;
        check_interrupted(self.stop)?;
        let survey = Survey {
            counters_cost,
            unit_costs: machine_cache::costs(&mut questions, &host, clock),
            ..found
        };
        let files = files_ready(&plan, survey.files.as_ref())?;
        check_interrupted(self.stop)?;
        let manifest = Manifest {
            bytecost_version: env!("CARGO_PKG_VERSION").to_owned(),
            build_id: Some(own_build()?),
            started: machine::now()?,
            seed,
            command: command_line(),
            evidence: evidence::requested(&self.args.evidence, &host, &study, &mut questions)?,
            host,
            survey,
            peer: peer_host.cloned().map(Box::new),
            own_cards: self.peer.map_or_else(Vec::new, |link| link.own_cards()),
            plan: plan.clone(),
            rounds,
            ..Manifest::new(study.clone())
        };
        Ok(ReadyRun {
            run: root.create_fresh(manifest)?,
            plan,
            study,
            files,
        })
    }
}

/// A seed of 48 bits, so that it fits a number of JSON.
fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish() >> 16
}

/// Refuses a plan that has no cell but that of the empty loop.
fn check_not_empty(plan: &Plan) -> Result<()> {
    if !plan.cells.iter().all(|c| c.mover == "null") {
        return Ok(());
    }
    let why = match (plan.refused.first(), plan.left_out.first()) {
        (Some(refusal), _) => format!("works on this machine: {}", refusal.why),
        (None, Some(left)) => format!("is left: {}: {}", left.what, left.why),
        (None, None) => return Ok(()),
    };
    Err(bad_input(format!("nothing of this study {why}")))
}

/// The command line as it was given, without the directory of the program, and without the words of
/// --peer, which may hold secrets.
fn command_line() -> Vec<String> {
    let words = std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned());
    peer::for_record(iter::once("bytecost".to_owned()).chain(words))
}
