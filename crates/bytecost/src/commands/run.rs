//! `bytecost run`: a study carried out, or a run gone on with.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::iter;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use bytecost_analysis::ceiling::{STUDY as CEILING, is_same_machine};
use bytecost_analysis::{Interim, peer_again};
use bytecost_engine::{Mover, Route};
use bytecost_host::Roots;
use bytecost_lab::files::Files;
use bytecost_lab::obstacles::is_loopback_down;
use bytecost_lab::peer::PeerLink;
use bytecost_lab::program::{Program, own_build};
use bytecost_lab::survey::{Helpers, survey};
use bytecost_lab::{file_survey, isolation_survey};
use bytecost_plan::{check_asked, named};
use bytecost_spec::cell::{MAX_RING_BYTES, MAX_SIZE_BYTES, Ring};
use bytecost_spec::evidence::{EvidenceAsked, Means};
use bytecost_spec::manifest::{RatioNoise, RoundNoise, RoundVariance};
use bytecost_spec::study::{MIN_ROUND_BLOCKS, PlannedRounds};
use bytecost_spec::survey::FileSurvey;
use bytecost_spec::{
    Axis, Cache, Cell, CircumstanceKind, Host, HugePages, Manifest, PeerHost, Plan,
    RoundConditions, Study, Survey, Transport, Value, units,
};
use bytecost_store::{Root, Run};
use itertools::Itertools as _;

use super::resume::{files_ready, only_limits, resumed, set_limits};
use super::{note, peer, print_to_stderr};
use crate::args::{self, CeilingArgs, MeasuringArgs, RunArgs, WantedEvidence};
use crate::campaign::{self, Campaign, How};
use crate::failure::{Exit, Interrupted, bad_input};
use crate::history::EarlierRounds;
use crate::recorded_run::RecordedRun;
use crate::studies::STUDIES;
use crate::{known, machine, progress, signals, tried};

/// Names the evidence where the option does not.
const EVIDENCE_VARIABLE: &str = "BYTECOST_EVIDENCE";

/// What `--quick` measures of the first study.
const QUICK: &[(Axis, &[&str])] = &[
    (
        Axis::Mover,
        &["send", "send-fields", "send-zerocopy", "sendfile"],
    ),
    (Axis::Size, &["256", "16KiB", "1MiB"]),
];
const QUICK_BUDGET: Duration = Duration::from_secs(15);

const MOST_STUDY_BYTES: usize = 1 << 20;

/// Measures, and shows the results: of the study of the ceiling by its own table.
pub fn run(args: RunArgs) -> Result<Exit> {
    let is_ceiling = args.study.as_deref() == Some(CEILING) && args.axes.0.is_empty();
    let MeasuringArgs {
        resume,
        quiet,
        root,
        ..
    } = &args.measuring;
    if let (Some(port), None) = (args.port, &args.peer.peer) {
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|e| {
            bad_input(format!(
                "port {port} is not available ({e}): choose another with --port, or leave it out to take a free one"
            ))
        })?;
    }
    // Before anything takes long: what is built meanwhile is not what measures.
    let program = Program::own()?;
    let stop = signals::stop_flag()?;
    let root = Root::at(&root.runs_dir);
    let left = super::clean(&root);
    if let Some(name) = resume {
        only_limits(&args)?;
        peer::check_same(root.open_to_change(name)?.manifest(), &args.peer)?;
    }
    let link = peer::opened(&args.peer, &stop)?;
    let peer = link.as_ref();
    let earlier = match args.measuring.no_history {
        true => EarlierRounds::default(),
        false => EarlierRounds::read(noting(&args)),
    };
    let (mut run, plan, study, files) = match resume {
        Some(name) => resumed(&root, name, &args, peer)?,
        None => begun(&root, &args, &program, peer, (&earlier, &stop))?,
    };
    if !quiet {
        print_to_stderr(progress::announced(&study, &plan));
        if args.quick {
            note(format!(
                "--quick decides large differences between few movers at few sizes over one path; it does not decide small ones, and measures no other movers, receivers, transports and patterns: the whole study, `bytecost run {}`, does in about a minute",
                study.name
            ));
        }
        for what in &left {
            note(format!("an earlier run was killed: {}", what.summary));
        }
        plan.notes.iter().for_each(note);
        for asked in &run.manifest().evidence {
            if let (Some(why), false) = (&asked.refused, asked.unasked) {
                note(format!("no evidence of {}: {why}", asked.means.name()));
            }
        }
        if let Some(found) = &run.manifest().survey.files {
            let own = || format!("test files in {}", found.dir);
            let what = found.user_file.clone().unwrap_or_else(own);
            note(format!("{what}, {}", found.file_system));
        }
    }
    let campaign = Campaign {
        study: &study,
        plan,
        port: args.port,
        peer: link,
        quiet: *quiet,
        stop: &stop,
    };
    let how = campaign.carry_out(&mut run, files, program)?;
    run.end(machine::now()?, how.early())?;
    if let Some(why) = how.early() {
        print_to_stderr(format!(
            "{why}: this is what was measured until then; `bytecost run --resume {}{}` continues",
            super::report::in_commands(&run),
            peer_again(run.manifest().peer.is_some())
        ));
    }
    let recorded = RecordedRun::of(&run)?;
    earlier.add(&recorded, noting(&args));
    let failed = super::report::tell(&recorded, is_ceiling)? || how == How::PeerLost;
    Ok(match how {
        How::Interrupted => Exit::Interrupted,
        _ => Exit::of(!failed),
    })
}

/// Prints a note unless the command line asks for quiet.
fn noting(args: &RunArgs) -> impl FnOnce(String) {
    let quiet = args.measuring.quiet;
    move |text| {
        if !quiet {
            note(text);
        }
    }
}

/// `bytecost ceiling`: measures the study of that name.
pub fn ceiling(args: CeilingArgs) -> Result<Exit> {
    if let Some(name) = &args.measuring.resume {
        let run = Root::at(&args.measuring.root.runs_dir).open(name)?;
        let name = super::report::in_commands(&run);
        let study = &run.manifest().study.name;
        if study != CEILING {
            return Err(bad_input(format!(
                "run {name} is of study `{study}`: resume it with `bytecost run --resume {name}`"
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

/// A new run: from the study by the survey of this machine to the plan, and with all of them its
/// manifest.
fn begun(
    root: &Root,
    args: &RunArgs,
    program: &Program,
    peer: Option<&PeerLink>,
    (earlier, stop): (&EarlierRounds, &AtomicBool),
) -> Result<(Run, Plan, Study, Files)> {
    let asked = chosen(args, peer.is_some())?;
    let (host, cpu_clock) = machine::host();
    go_on(stop)?;
    let clock = cpu_clock.verdict();
    let study = fitted(asked, args, &host)?;
    let found = Survey {
        cpu_clock: Some(cpu_clock),
        ..surveyed(&study, args, program, &host, stop)?
    };
    let there = peer.map(PeerLink::host);
    let conditions = RoundConditions::new(&study, &host, there);
    let rounds = earlier.noise_of_run(conditions.as_ref(), noting(args));
    let noise = RatioNoise {
        between: between_rounds(&study, &rounds),
        ..noise(root, &study, &host, there)
    };
    let random = || RandomState::new().build_hasher().finish() >> 16;
    let seed = args.seed.unwrap_or_else(random);
    let plan =
        bytecost_plan::plan(&study, &host, &found, there, seed, Some(&noise)).map_err(bad_input)?;
    nothing_left(&plan)?;
    let counters_cost = campaign::counters_cost(&study, &plan, &host, &found, stop)?;
    go_on(stop)?;
    let survey = Survey {
        counters_cost,
        unit_costs: tried::costs(&host, clock),
        ..found
    };
    let files = files_ready(&plan, survey.files.as_ref())?;
    go_on(stop)?;
    let manifest = Manifest {
        bytecost_version: env!("CARGO_PKG_VERSION").to_owned(),
        build_id: Some(own_build()?),
        started: machine::now()?,
        seed,
        command: command_line(),
        evidence: asked_evidence(&args.evidence, &host, &study)?,
        host,
        survey,
        peer: there.cloned().map(Box::new),
        own_cards: peer.map_or_else(Vec::new, |link| link.own_cards()),
        plan: plan.clone(),
        rounds,
        ..Manifest::new(study.clone())
    };
    Ok((root.create_fresh(manifest)?, plan, study, files))
}

/// The study with what it leaves to the host that it runs on.
fn fitted(mut study: Study, args: &RunArgs, host: &Host) -> Result<Study> {
    if study.asks_for_pairs() {
        let pairs = bytecost_host::pairs::choose(host).map_err(bad_input)?;
        study.take_pairs(&pairs.placements(), &pairs.nearest());
    }
    if let (Some(path), true) = (&args.file, asks_for_files(&study, args)?) {
        let bytes = file_survey::user_bytes(&std::path::absolute(path)?).map_err(bad_input)?;
        go_through_whole(&mut study, args, bytes);
    }
    Ok(study)
}

/// What works here of all that the study may need.
fn surveyed(
    study: &Study,
    args: &RunArgs,
    program: &Program,
    host: &Host,
    stop: &AtomicBool,
) -> Result<Survey> {
    let (cells, transports) = (cells(study), transports(study));
    let mut found = survey(host, &transports);
    go_on(stop)?;
    let asks_for_huge = cells.iter().any(|cell| cell.huge_pages == HugePages::On);
    let refused = asks_for_huge.then(bytecost_engine::work::huge_pages_refused);
    found.huge_pages_refused = refused.flatten();
    let helpers = super::look_at_helped(&mut found, &transports, &cells);
    go_on(stop)?;
    found.files = files_surveyed(study, args, helpers.as_ref())?;
    go_on(stop)?;
    let serves = cells.iter().any(Cell::is_served);
    found.serving = serves.then(bytecost_lab::server_survey::survey);
    go_on(stop)?;
    found.links = bytecost_lab::survey::links(&cells);
    found.isolation = isolation_survey::survey(program, &Roots::real(), host, &cells);
    go_on(stop)?;
    Ok(found)
}

/// Ends a run that is not begun yet where a signal asked for it.
fn go_on(stop: &AtomicBool) -> Result<(), Interrupted> {
    match stop.load(Ordering::Relaxed) {
        true => Err(Interrupted),
        false => Ok(()),
    }
}

fn cells(study: &Study) -> Vec<Cell> {
    study.cells().into_iter().map(|(_, cell)| cell).collect()
}

/// Where nothing of a study can be measured, the run ends before it begins.
fn nothing_left(plan: &Plan) -> Result<()> {
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

/// The variance between rounds that is typical of the study's main metric, of a mean of its rounds.
fn between_rounds(study: &Study, rounds: &RoundNoise) -> Option<RoundVariance> {
    let metric = study.compare.first()?.metrics.first()?;
    let typical = rounds.typical(*metric);
    Some(RoundVariance {
        variance: typical.variance / f64::from(study.round_count()),
        ..typical
    })
}

/// Runs of the same study that are looked through for its noise.
const MOST_EARLIER: usize = 20;

/// How noisy ratios are, as the newest run of the study on this machine has them; else an assumption.
fn noise(root: &Root, study: &Study, host: &Host, peer: Option<&PeerHost>) -> RatioNoise {
    // Manifests alone, newest first: the log is read of a run that fits.
    let runs = root.names().unwrap_or_default().into_iter().rev();
    let runs = runs.filter_map(|id| root.open(&id).ok());
    let of_study = runs.filter(|run| run.manifest().study.name == study.name);
    let measured = of_study.take(MOST_EARLIER).find_map(|run| {
        let manifest = run.manifest();
        let before = &manifest.study;
        let trial = |s: &Study| (s.warmup_ms, s.window_ms, s.design.clone());
        let same_peer = match (&manifest.peer, peer) {
            (Some(was), Some(is)) => was.side == is.side && is_same_machine(&was.host, &is.host),
            (None, None) => true,
            _ => false,
        };
        if trial(before) != trial(study) || !is_same_machine(&manifest.host, host) || !same_peer {
            return None;
        }
        let recorded = RecordedRun::of(&run).ok()?;
        Interim::new(recorded.input(None)).noise()
    });
    measured.unwrap_or(RatioNoise::ASSUMED)
}

/// The evidence to collect, each kind with the reason where it is not available: what was asked
/// for, or else what a run collects by default. Of servers alone there are not all kinds.
fn asked_evidence(
    wanted: &[WantedEvidence],
    host: &Host,
    study: &Study,
) -> Result<Vec<EvidenceAsked>> {
    let only_serves = cells(study).iter().all(Cell::is_served);
    let by_variable = match std::env::var(EVIDENCE_VARIABLE) {
        Ok(text) if wanted.is_empty() => {
            let named = text.split(',').map(args::evidence);
            let named: Result<Vec<_>, String> = named.collect();
            named.map_err(|e| bad_input(format!("{EVIDENCE_VARIABLE} is `{text}`: {e}")))?
        }
        _ => Vec::new(),
    };
    let wanted: Vec<WantedEvidence> = [wanted, &by_variable].concat();
    if wanted.len() > 1 && wanted.contains(&WantedEvidence(None)) {
        return Err(bad_input(
            "`none` is evidence of no kind: leave it out, or leave the other kinds out",
        ));
    }
    let unasked = wanted.is_empty();
    let asked = wanted.iter().filter_map(|w| w.0);
    let by_default = Means::BY_DEFAULT.iter().copied().filter(|_| unasked);
    let of_servers = |means| not_of_servers(means).filter(|_| only_serves);
    // Nobody misses what nobody asked for.
    let is_missed = |means: &Means| !(unasked && of_servers(*means).is_some());
    let all = asked.chain(by_default).unique().filter(is_missed);
    let told = all.map(|means| EvidenceAsked {
        means,
        refused: match of_servers(means) {
            Some(why) => Some(why.to_owned()),
            None => campaign::refused(means, host),
        },
        unasked,
    });
    Ok(told.collect())
}

fn not_of_servers(means: Means) -> Option<&'static str> {
    match means {
        Means::Time | Means::Counts => None,
        Means::Copies => Some(
            "the kernel copies requests and responses equally often for every model, so copies of servers are not counted: choose --evidence counts,time, which show where they differ",
        ),
        Means::Footprint => Some(
            "what is displaced is found around one sending flow, which a server's clients are not: choose --evidence counts,time",
        ),
    }
}

/// Returns true if the study has files on a disk of this host; an error where options name some and
/// it has none.
fn asks_for_files(study: &Study, args: &RunArgs) -> Result<bool> {
    // Where the other host sends, the files are there.
    let cells = cells(study);
    if !args.peer.reverse && cells.iter().any(is_on_disk) {
        return Ok(true);
    }
    let dir = args.dir.as_ref().map(|_| "--dir");
    let Some(option) = dir.or(args.file.as_ref().map(|_| "--file")) else {
        return Ok(false);
    };
    let what = match cells.iter().any(sends_a_file) {
        true => "sends memory files alone: choose --cache warm or cold, leave it out",
        false => "reads and writes none: leave it out",
    };
    Err(bad_input(format!(
        "{option} chooses where files are, and study `{}` {what}, or run file-read or file-to-socket",
        study.name
    )))
}

/// What works on files, where the study asks for any: none of that is tried where it does not.
fn files_surveyed(
    study: &Study,
    args: &RunArgs,
    helpers: Option<&Helpers>,
) -> Result<Option<FileSurvey>> {
    if !asks_for_files(study, args)? {
        return Ok(None);
    }
    let dir = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let user = match &args.file {
        None => None,
        Some(path) => Some(std::path::absolute(path)?),
    };
    let mut files = Files::new(dir, user);
    let mut found = file_survey::survey(&mut files).map_err(bad_input)?;
    let helped = helpers.map(|helpers| file_survey::helped(&mut files, helpers));
    found.movers.extend(helped.into_iter().flatten());
    Ok(Some(found))
}

/// Whether a cell works on a file that lies somewhere.
fn is_on_disk(cell: &Cell) -> bool {
    let of_files = Mover::named(&cell.mover).is_some_and(|m| m.route.is_of_files());
    of_files || sends_a_file(cell) && cell.cache != Cache::Memory
}

fn sends_a_file(cell: &Cell) -> bool {
    Mover::named(&cell.mover).is_some_and(|m| m.route == Route::FileToSocket)
}

/// A file of the user's is gone through whole, unless the command line says otherwise: read or
/// sent piece by piece, and in one message where a study's files are each a message.
fn go_through_whole(study: &mut Study, args: &RunArgs, bytes: u64) {
    let is_asked = |axis| args.axes.0.iter().any(|(a, _)| *a == axis);
    if is_asked(Axis::Ring) {
        return;
    }
    let of_messages = cells(study).iter().all(|cell| cell.ring == Ring::Message);
    let (axis, most) = if of_messages && !is_asked(Axis::Size) {
        (Axis::Size, MAX_SIZE_BYTES)
    } else {
        (Axis::Ring, MAX_RING_BYTES)
    };
    let value = Value::Bytes(bytes.min(most));
    for tier in &mut study.tiers {
        tier.axes.retain(|(a, _)| *a != axis);
        tier.axes.push((axis, vec![value.clone()]));
    }
}

/// Refuses a study whose cells need a loopback device that is down.
fn check_loopback(study: &Study) -> Result<()> {
    let has_two_ends = |cell: &Cell| {
        cell.is_served() || Mover::named(&cell.mover).is_some_and(|mover| mover.has_peer())
    };
    let asked = cells(study);
    let mut asked = asked.iter().filter(|c| c.transport == Transport::Loopback);
    if asked.any(has_two_ends) && is_loopback_down() {
        let row = CircumstanceKind::LoopbackDown.row();
        let (means, remedy) = (row.means, row.remedy);
        return Err(bad_input(format!(
            "the loopback device `lo` is down: {means}: {remedy}"
        )));
    }
    Ok(())
}

/// What is tried out for a study: all that costs nothing, and what it asks for itself.
fn transports(study: &Study) -> Vec<Transport> {
    let asked = cells(study);
    let is_asked = |t: Transport| asked.iter().any(|cell| cell.transport == t);
    let all = Transport::WITHIN.iter().copied();
    all.filter(|t| !t.is_made() || is_asked(*t)).collect()
}

fn chosen(args: &RunArgs, has_peer: bool) -> Result<Study> {
    let mut study = match &args.study {
        None => Study::parse(STUDIES[0].1).with_context(|| STUDIES[0].0)?,
        Some(name) => match STUDIES.iter().find(|(n, _)| n == name) {
            Some((name, text)) => Study::parse(text).with_context(|| *name)?,
            None => from_file(name)?,
        },
    };
    if args.as_published {
        study.choose_as_published().map_err(bad_input)?;
    }
    study.ask(&axes(args, &study)?).map_err(bad_input)?;
    study.fit(&known::tables());
    if args.quick {
        study.title = format!("{} (quick: few movers and sizes)", study.title);
        study.budget_ms = QUICK_BUDGET.as_millis() as u64;
    }
    set_limits(&mut study, args);
    set_rounds(&mut study, args)?;
    study.check(&known::tables()).map_err(bad_input)?;
    check_asked(&study, &study.asked, &known::tables())
        .map_err(|why| bad_input(format!("--{}", why.0)))?;
    if has_peer {
        study.go_to_peer();
    }
    study.twins = true;
    check_loopback(&study)?;
    Ok(study)
}

/// Time between two rounds where the command line names none.
const USUAL_PAUSE: Duration = Duration::from_secs(120);

/// Gives the study the rounds of the command line, and as many blocks as these need.
fn set_rounds(study: &mut Study, args: &RunArgs) -> Result<()> {
    let Some(count) = args.rounds.filter(|count| *count > 1) else {
        return Ok(());
    };
    let least = count * MIN_ROUND_BLOCKS;
    let is_bounded = args.blocks.is_some() || args.as_published;
    if is_bounded && study.blocks_most < least {
        return Err(bad_input(format!(
            "--rounds {count} needs {least} blocks, {MIN_ROUND_BLOCKS} a round, and there are {} at most: choose fewer rounds",
            study.blocks_most
        )));
    }
    study.blocks_least = study.blocks_least.max(least);
    study.blocks_most = study.blocks_most.max(study.blocks_least);
    let pause = args.pause.unwrap_or(USUAL_PAUSE);
    study.rounds = Some(PlannedRounds {
        count,
        pause_ms: pause.as_millis() as u64,
    });
    Ok(())
}

/// The values of the command line, behind those of `--quick` that it does not choose itself.
fn axes(args: &RunArgs, study: &Study) -> Result<Vec<(Axis, Vec<String>)>> {
    if !args.quick {
        return Ok(args.axes.0.clone());
    }
    let quick = STUDIES[0].0;
    if study.name != quick {
        return Err(bad_input(format!(
            "--quick is for study `{quick}` alone: choose fewer values of the axes of `{}`, or a shorter --budget",
            study.name
        )));
    }
    let is_free = |axis: Axis| !args.axes.0.iter().any(|(asked, _)| *asked == axis);
    let own = QUICK.iter().filter(|(axis, _)| is_free(*axis));
    let own = own.map(|(axis, values)| (*axis, values.iter().map(|v| (*v).to_owned()).collect()));
    Ok(own.chain(args.axes.0.iter().cloned()).collect())
}

fn from_file(name: &str) -> Result<Study> {
    let path = Path::new(name);
    let is_file = path.extension().is_some_and(|e| e == "toml") || name.contains('/');
    if !is_file {
        return Err(unknown(name));
    }
    let text = crate::published::read(path, MOST_STUDY_BYTES)?;
    let study = Study::parse(&text).map_err(|e| bad_input(format!("{name}: {e}")))?;
    check_asked(&study, &named(&study), &known::tables())
        .map_err(|why| bad_input(format!("{name}: {}", why.0)))?;
    Ok(study)
}

/// There is no study of that name: a command or a study that it may have been meant for.
fn unknown(name: &str) -> anyhow::Error {
    let is_near = |word: &&str| units::is_near(word, name);
    let cli = args::Cli::described();
    let mut commands = cli.get_subcommands().map(clap::Command::get_name);
    let mut names = STUDIES.iter().map(|(n, _)| *n);
    let remedy = match (commands.find(is_near), names.clone().find(is_near)) {
        (Some(command), _) => format!("did you mean `bytecost {command}`?"),
        (None, Some(study)) => format!("did you mean `{study}`?"),
        (None, None) => format!(
            "choose from {}, or give the path of a study file that ends in .toml",
            names.join(", ")
        ),
    };
    bad_input(format!("study `{name}` is not known: {remedy}"))
}

/// The command line as it was given, without the directory of the program, and without the words of
/// --peer, which may hold secrets.
pub fn command_line() -> Vec<String> {
    let words = std::env::args_os().skip(1);
    let words = words.map(|w| w.to_string_lossy().into_owned());
    peer::for_record(iter::once("bytecost".to_owned()).chain(words))
}
