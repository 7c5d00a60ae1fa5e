//! The study of a new run: chosen by the command line, changed by its options, fitted to the host.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use bytecost_engine::{Mover, Route};
use bytecost_lab::file_survey;
use bytecost_lab::obstacles::is_loopback_down;
use bytecost_plan::{check_asked, named};
use bytecost_spec::cell::{MAX_RING_BYTES, MAX_SIZE_BYTES, Ring};
use bytecost_spec::study::{MIN_ROUND_BLOCKS, PlannedRounds};
use bytecost_spec::{Axis, Cache, Cell, CircumstanceKind, Host, Study, Transport, Value, units};
use itertools::Itertools as _;

use crate::args::{self, RunArgs};
use crate::commands::resume::set_limits;
use crate::failure::bad_input;
use crate::known;
use crate::studies::STUDIES;

/// The axes of the first study that `--quick` narrows, with their values.
const QUICK: &[(Axis, &[&str])] = &[
    (
        Axis::Mover,
        &["send", "send-fields", "send-zerocopy", "sendfile"],
    ),
    (Axis::Size, &["256", "16KiB", "1MiB"]),
];
const QUICK_BUDGET: Duration = Duration::from_secs(15);

/// Time between two rounds where the command line names none.
const DEFAULT_PAUSE: Duration = Duration::from_secs(120);

const MAX_STUDY_BYTES: usize = 1 << 20;

/// The cells of all tiers of a study.
pub fn cells(study: &Study) -> Vec<Cell> {
    study.cells().into_iter().map(|(_, cell)| cell).collect()
}

/// The study that the command line names, with its options applied and checked.
pub fn chosen(args: &RunArgs, has_peer: bool) -> Result<Study> {
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
    study.ask(&axis_values(args, &study)?).map_err(bad_input)?;
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

fn from_file(name: &str) -> Result<Study> {
    let path = Path::new(name);
    let is_file = path.extension().is_some_and(|e| e == "toml") || name.contains('/');
    if !is_file {
        return Err(unknown_study(name));
    }
    let text = crate::published::read(path, MAX_STUDY_BYTES)?;
    let study = Study::parse(&text).map_err(|e| bad_input(format!("{name}: {e}")))?;
    check_asked(&study, &named(&study), &known::tables())
        .map_err(|why| bad_input(format!("{name}: {}", why.0)))?;
    Ok(study)
}

/// The error for a name that no study has; it suggests a command or a study with a similar name.
fn unknown_study(name: &str) -> anyhow::Error {
    let is_similar = |word: &&str| units::is_near(word, name);
    let cli = args::Cli::described();
    let mut commands = cli.get_subcommands().map(clap::Command::get_name);
    let mut studies = STUDIES.iter().map(|(n, _)| *n);
    let remedy = if let Some(command) = commands.find(is_similar) {
        format!("did you mean `bytecost {command}`?")
    } else if let Some(study) = studies.clone().find(is_similar) {
        format!("did you mean `{study}`?")
    } else {
        format!(
            "choose from {}, or give the path of a study file that ends in .toml",
            studies.join(", ")
        )
    };
    bad_input(format!("study `{name}` is not known: {remedy}"))
}

/// The axis values of the command line, and those of `--quick` for axes that it leaves out.
fn axis_values(args: &RunArgs, study: &Study) -> Result<Vec<(Axis, Vec<String>)>> {
    let given = &args.axes.0;
    if !args.quick {
        return Ok(given.clone());
    }
    let quick_study = STUDIES[0].0;
    if study.name != quick_study {
        return Err(bad_input(format!(
            "--quick is for study `{quick_study}` alone: choose fewer values of the axes of `{}`, or a shorter --budget",
            study.name
        )));
    }
    Ok(QUICK
        .iter()
        .filter(|(axis, _)| !given.iter().any(|(a, _)| a == axis))
        .map(|(axis, values)| (*axis, values.iter().map(|v| (*v).to_owned()).collect()))
        .chain(given.iter().cloned())
        .collect())
}

/// Gives the study the rounds of the command line, and as many blocks as these need.
fn set_rounds(study: &mut Study, args: &RunArgs) -> Result<()> {
    let Some(count) = args.rounds.filter(|count| *count > 1) else {
        return Ok(());
    };
    let min_blocks = count * MIN_ROUND_BLOCKS;
    let is_bounded = args.blocks.is_some() || args.as_published;
    if is_bounded && study.blocks_most < min_blocks {
        return Err(bad_input(format!(
            "--rounds {count} needs {min_blocks} blocks, {MIN_ROUND_BLOCKS} a round, and there are {} at most: choose fewer rounds",
            study.blocks_most
        )));
    }
    study.blocks_least = study.blocks_least.max(min_blocks);
    study.blocks_most = study.blocks_most.max(study.blocks_least);
    let pause = args.pause.unwrap_or(DEFAULT_PAUSE);
    study.rounds = Some(PlannedRounds {
        count,
        pause_ms: pause.as_millis() as u64,
    });
    Ok(())
}

/// Refuses a study whose cells need a loopback device that is down.
fn check_loopback(study: &Study) -> Result<()> {
    let needs_loopback = |cell: &Cell| {
        let has_peer = || Mover::named(&cell.mover).is_some_and(|mover| mover.has_peer());
        cell.transport == Transport::Loopback && (cell.is_served() || has_peer())
    };
    if cells(study).iter().any(needs_loopback) && is_loopback_down() {
        let row = CircumstanceKind::LoopbackDown.row();
        let (means, remedy) = (row.means, row.remedy);
        return Err(bad_input(format!(
            "the loopback device `lo` is down: {means}: {remedy}"
        )));
    }
    Ok(())
}

/// Fills in what a study leaves to its host: pairs of CPUs, and the length of a file of the user.
pub fn fitted_to_host(mut study: Study, args: &RunArgs, host: &Host) -> Result<Study> {
    if study.asks_for_pairs() {
        let pairs = bytecost_host::pairs::choose(host).map_err(bad_input)?;
        study.take_pairs(&pairs.placements(), &pairs.nearest());
    }
    if let (Some(path), true) = (&args.file, needs_disk(&study, args)?) {
        let bytes = file_survey::user_bytes(&std::path::absolute(path)?).map_err(bad_input)?;
        use_whole_file(&mut study, args, bytes);
    }
    Ok(study)
}

/// Has cells go through all bytes of a user's file, unless the command line chooses another length:
/// piece by piece, or in one message where each file of the study is a message.
fn use_whole_file(study: &mut Study, args: &RunArgs, bytes: u64) {
    let is_given = |axis| args.axes.0.iter().any(|(a, _)| *a == axis);
    if is_given(Axis::Ring) {
        return;
    }
    let files_are_messages = cells(study).iter().all(|cell| cell.ring == Ring::Message);
    let (axis, max_bytes) = if files_are_messages && !is_given(Axis::Size) {
        (Axis::Size, MAX_SIZE_BYTES)
    } else {
        (Axis::Ring, MAX_RING_BYTES)
    };
    let value = Value::Bytes(bytes.min(max_bytes));
    for tier in &mut study.tiers {
        tier.axes.retain(|(a, _)| *a != axis);
        tier.axes.push((axis, vec![value.clone()]));
    }
}

/// Returns true if the study has files on a disk of this host.
///
/// # Errors
/// `--dir` or `--file` for a study that has none.
pub fn needs_disk(study: &Study, args: &RunArgs) -> Result<bool> {
    let cells = cells(study);
    // With --reverse the other host sends, and has the files.
    if !args.peer.reverse && cells.iter().any(is_on_disk) {
        return Ok(true);
    }
    let option = if args.dir.is_some() {
        "--dir"
    } else if args.file.is_some() {
        "--file"
    } else {
        return Ok(false);
    };
    let why = if cells.iter().any(sends_file) {
        "sends memory files alone: choose --cache warm or cold, leave it out"
    } else {
        "reads and writes none: leave it out"
    };
    Err(bad_input(format!(
        "{option} chooses where files are, and study `{}` {why}, or run file-read or file-to-socket",
        study.name
    )))
}

/// Returns true if a cell reads, writes or sends a file that is not in memory alone.
fn is_on_disk(cell: &Cell) -> bool {
    let is_of_files = Mover::named(&cell.mover).is_some_and(|m| m.route.is_of_files());
    is_of_files || sends_file(cell) && cell.cache != Cache::Memory
}

fn sends_file(cell: &Cell) -> bool {
    Mover::named(&cell.mover).is_some_and(|m| m.route == Route::FileToSocket)
}
