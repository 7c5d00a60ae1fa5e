//! What the run does not decide, and what would.

use std::time::Duration;

use bytecost_spec::study::Family;
use bytecost_spec::units;
use bytecost_stats::median;
use itertools::Itertools as _;

use crate::confidence::FEWEST;
use crate::phrases;
use crate::result::{Finding, Undecided, UndecidedOf, Verdict};
use crate::stages::Explained;
use crate::trials::CellTrials;

/// The rounds that are proposed where ratios differ from round to round.
const ROUNDS: [&str; 4] = ["--rounds", "5", "--pause", "2min"];
/// Times as long as this run that a longer one may be asked for.
const LONGER: usize = 20;

/// What is undecided, and the fresh run that would decide most of it at the corrected level: of the
/// primary comparisons, or of the secondary ones where no primary one is open.
pub(super) fn undecided(run: &Explained<'_>) -> Option<Undecided> {
    let judged = || (run.findings.iter()).filter(|f| f.verdict != Verdict::NotJudged);
    let is_open = |f: &&Finding| f.verdict == Verdict::NotDecided && f.withheld.is_none();
    let withheld = judged().filter(|f| f.withheld.is_some()).count();
    let asks = judged().filter(is_open).map(|f| f.family).min();
    if asks.is_none() && withheld == 0 {
        return None;
    }
    let of = |family: Family| judged().filter(move |f| f.family == family);
    let by_family = [Family::Primary, Family::Secondary].map(|family| UndecidedOf {
        family,
        undecided: of(family).filter(is_open).count(),
        comparisons: of(family).count(),
    });
    let asks = asks.unwrap_or_default();
    let open: Vec<&Finding> = of(asks).filter(is_open).collect();
    let blocks = open.iter().map(|f| f.blocks).max().unwrap_or(0);
    let needed = open.iter().filter_map(|f| Some(f.blocks_needed? as usize));
    let needed = needed.filter(|n| *n <= LONGER * blocks).collect_vec();
    let most = needed.iter().copied().max();
    // What is before the first trial and after the last takes its time too.
    let spent = run.input.manifest.study.budget_ms as f64 / 1e3;
    let in_tens =
        |most: usize| (spent * most as f64 / blocks.max(1) as f64 / 10.0).ceil() as u64 * 10;
    let prevented = open.iter().filter(|f| f.rounds_prevent).collect_vec();
    let between = prevented.iter().map(|f| f.between_deviation).collect_vec();
    let most = most.filter(|_| needed.len() >= prevented.len());
    let seconds = most.map(in_tens);
    // A publication's own way of measuring has no rounds.
    let is_helped_by_rounds = !prevented.is_empty() && run.input.manifest.study.design.is_none();
    let command = match most {
        Some(most) => Some(longer(run, in_tens(most), most)),
        None => is_helped_by_rounds.then(|| in_rounds(run)),
    };
    let by_family = by_family.into_iter().filter(|own| own.comparisons > 0);
    Some(Undecided {
        by_family: by_family.collect(),
        withheld,
        asks,
        would_decide: needed.len(),
        rounds_prevent: prevented.len(),
        between_deviation: median(&between),
        seconds,
        command,
    })
}

/// The run's own command with a larger budget; a resumed run would look twice at the same.
fn longer(run: &Explained<'_>, seconds: u64, blocks: usize) -> String {
    let budget = units::duration(Duration::from_secs(seconds));
    let mut options = vec!["--budget".to_owned(), budget];
    if blocks > run.input.manifest.study.blocks_most as usize {
        options.extend(["--blocks".to_owned(), blocks.to_string()]);
    }
    command(run, &["--budget", "--blocks"], options)
}

/// The run's own command in rounds, each of which has a least number of blocks.
fn in_rounds(run: &Explained<'_>) -> String {
    let rounds = ROUNDS.map(str::to_owned).to_vec();
    command(run, &["--rounds", "--pause", "--blocks"], rounds)
}

/// Options whose values a record has not, or that start a program: no command takes them from a run.
const GIVEN_AGAIN: [(&str, &str); 2] = [("--peer", "COMMAND"), ("--peer-program", "PROGRAM")];

/// The run's own command with other values of some options.
fn command(run: &Explained<'_>, replaced: &[&str], options: Vec<String>) -> String {
    let mut words = vec!["bytecost".to_owned(), "run".to_owned()];
    let mut asked = run.input.manifest.command.iter().skip(1).peekable();
    asked.next_if(|word| *word == "run");
    while let Some(word) = asked.next() {
        let name = word.split('=').next().unwrap_or_default();
        if ["--resume", "--seed", "--runs-dir"].contains(&name) || replaced.contains(&name) {
            asked.next_if(|_| !word.contains('='));
        } else if let Some((_, value)) = GIVEN_AGAIN.iter().find(|(option, _)| *option == name) {
            asked.next_if(|_| !word.contains('='));
            words.extend([name.to_owned(), (*value).to_owned()]);
        } else if !["--quiet", "-q"].contains(&name) {
            words.push(word.clone());
        }
    }
    if words.len() == 2 {
        words.push(run.input.manifest.study.name.clone());
    }
    words.extend(options);
    words.extend(
        phrases::runs_dir_option(&run.input.manifest.command)
            .into_iter()
            .flatten(),
    );
    phrases::command_line(&words)
}

pub(super) fn why_nothing(run: &Explained<'_>) -> String {
    if run.input.samples.is_empty() {
        let failed = run.input.failures.first();
        let failed = failed.map(|f| format!("every trial failed, the first with: {}", f.reason));
        let not_run = match run.trials.cells.is_empty() {
            true => "no cell of the study is available on this machine; the refusals say why",
            false => "no trial was run",
        };
        let why = failed.as_deref().or(run.input.ended_early);
        let why = why.unwrap_or(not_run);
        return format!("Nothing was measured: {}.", why.trim_end_matches('.'));
    }
    let compares = &run.input.manifest.study.compare;
    let Some(compare) = compares.first() else {
        return "The study compares nothing; the numbers of its cells stand by themselves."
            .to_owned();
    };
    let base = compare.axis.subject(&compare.baseline);
    let of_base = |c: &&CellTrials<'_>| c.cell.value(compare.axis) == compare.baseline;
    if !run.measured().any(|c| of_base(&c)) {
        return format!("Nothing can be compared: the baseline {base} has no trial.");
    }
    if run.measured().all(|c| of_base(&c)) {
        let why = match run.input.left_out.is_empty() {
            true => "",
            false => "; the budget did not reach the others (--budget)",
        };
        return format!("Nothing was compared: {base} alone was measured{why}.");
    }
    let blocks = run.measured().map(|c| c.by_block.len()).min().unwrap_or(0);
    if blocks < FEWEST {
        let had = phrases::count(blocks, "block");
        return format!(
            "Nothing can be compared yet: the run has {had}, a comparison takes {FEWEST}."
        );
    }
    "Nothing could be compared: no metric of the study was measured on both sides of a comparison."
        .to_owned()
}
