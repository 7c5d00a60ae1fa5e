//! Recorded runs of every built-in study, and what bytecost makes of them, byte for byte.
//!
//! `make goldens` records the runs anew. `BYTECOST_GOLDENS=accept` writes what comes out today in
//! the place of what is expected: read the difference before you commit it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::thread;

use crate::common::{Place, RECORDED, goldens};
use bytecost_analysis::{
    Analysis, Caveat, CaveatFact, CaveatKind, Crossing, DecidedRange, Disturbance, PairSeen,
    Situation, StoodStill, Verdict,
};
use bytecost_report::Findings;
use bytecost_spec::host::Obstacle;
use bytecost_spec::{CircumstanceKind, Failure, Measure, Metric, TrialKey};
use itertools::Itertools as _;

/// Files that a report writes next to them.
const WRITTEN: &[&str] = &["findings.json", "report.md", "samples.csv"];
/// The study of which every byte of that is expected; of the others the words and numbers of a terminal.
const WHOLE: &str = "pa02-b";
const LAYOUTS: &[&str] = &["pa02-a", "pa02-b", "os-features"];
const MOST_BYTES: u64 = 3 << 20;

/// All that bytecost says of each recorded run, by the name of its study and of a file.
static SAID: LazyLock<BTreeMap<String, BTreeMap<String, String>>> = LazyLock::new(|| {
    let recorded = recorded();
    let studies: Vec<&str> = recorded.iter().map(|(study, _)| study.as_str()).collect();
    let place = Place::recorded(&studies);
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let of_some = |some: &[&str]| {
        some.iter()
            .map(|study| ((*study).to_owned(), said(&place, study)))
            .collect_vec()
    };
    // Nearly all tests here wait for this.
    thread::scope(|scope| {
        studies
            .chunks(studies.len().div_ceil(cpus))
            .map(|some| scope.spawn(move || of_some(some)))
            .collect_vec()
            .into_iter()
            .flat_map(|part| part.join().unwrap())
            .collect()
    })
});

fn recorded() -> Vec<(String, PathBuf)> {
    let folders = fs::read_dir(goldens()).unwrap().map(|e| e.unwrap().path());
    let runs = folders.filter(|path| path.join("manifest.json").is_file());
    runs.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), path))
        .sorted()
        .collect()
}

/// All that bytecost says of a recorded run, by the name of a file.
fn said(place: &Place, study: &str) -> BTreeMap<String, String> {
    let mut said = BTreeMap::new();
    let screen = place.call(format!("report {study}")).stdout;
    said.insert("screen.txt".to_owned(), screen);
    let report = place.call(format!("report {study} --all")).measured();
    said.insert("terminal.txt".to_owned(), report.stdout);
    for file in WRITTEN {
        let path = place.runs().join(study).join(file);
        said.insert((*file).to_owned(), fs::read_to_string(path).unwrap());
    }
    for layout in LAYOUTS {
        let export = place.call(format!("export {study} --layout {layout}"));
        // A table without rows says nothing of the run.
        if export.status == Some(0) && export.stdout.lines().count() > 1 {
            said.insert(format!("{layout}.csv"), export.stdout);
        }
    }
    said
}

/// Holds texts against the files of a folder; with `BYTECOST_GOLDENS=accept` it writes them.
fn expect(folder: &Path, said: &BTreeMap<String, String>) -> Vec<String> {
    if std::env::var("BYTECOST_GOLDENS").is_ok_and(|word| word == "accept") {
        for (file, text) in said {
            fs::write(folder.join(file), text).unwrap();
        }
        return Vec::new();
    }
    let differences = said.iter().filter_map(|(file, text)| {
        let path = folder.join(file);
        let expected = fs::read_to_string(&path).unwrap_or_default();
        let at = (1..).zip(expected.lines().zip(text.lines()));
        let line = at.into_iter().find(|(_, (was, is))| was != is);
        match line {
            _ if expected == *text => None,
            Some((number, (was, is))) => Some(format!(
                "{}:{number}\n  expected: {was}\n  came out: {is}",
                path.display()
            )),
            None => Some(format!("{}: one is longer", path.display())),
        }
    });
    differences.collect()
}

#[test]
fn recorded_runs_give_the_same_reports_byte_for_byte() {
    let mut differences = Vec::new();
    for (study, folder) in recorded() {
        let mut said = SAID[&study].clone();
        said.retain(|file, _| study == WHOLE || !WRITTEN.contains(&file.as_str()));
        differences.extend(expect(&folder, &said));
    }
    let studies: Vec<&str> = SAID.keys().map(String::as_str).collect();
    let place = Place::recorded(&studies);
    let audit = place.call(format!("audit {}", studies.join(" "))).stdout;
    let audit = BTreeMap::from([("audit.txt".to_owned(), audit)]);
    differences.extend(expect(&goldens(), &audit));
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// The first screen of a recorded run, and all of its results.
fn analysed(study: &str) -> (String, Findings<'static>) {
    let said = &SAID[study];
    let findings = serde_json::from_str(&said["findings.json"]);
    (said["screen.txt"].clone(), findings.unwrap())
}

/// Ranges that the advice of a situation rests on, in the order of the screen.
fn ranges(s: &Situation) -> impl Iterator<Item = &DecidedRange> {
    let gains = s.uses.iter().filter_map(|u| u.gain.as_ref());
    let conditional = s.conditional.iter().map(|c| &c.gain);
    let worse = s.avoid.iter().map(|avoid| &avoid.cost);
    gains.chain(conditional).chain(worse).chain(&s.gains)
}

#[test]
fn every_first_screen_fits_and_advises_no_way_with_a_condition() {
    for study in SAID.keys() {
        let (screen, a) = analysed(study);
        let longest = screen.lines().map(|line| line.chars().count()).max();
        assert!(
            screen.lines().count() <= 30 && longest <= Some(100),
            "{screen}"
        );
        let below_header = screen.lines().skip_while(|line| !line.is_empty()).skip(1);
        let mut is_of_stalls = false;
        let advice: Vec<&str> = below_header
            .take_while(|line| !line.is_empty())
            .filter(|line| {
                is_of_stalls = line.starts_with("Stalls") || is_of_stalls && line.starts_with(' ');
                !is_of_stalls
            })
            .collect();
        assert!((1..=3).contains(&advice.len()), "{screen}");
        let text = screen.split_whitespace().collect::<Vec<_>>().join(" ");
        for conditional in a.advice.situations.iter().flat_map(|s| &s.conditional) {
            let way = format!("use `{}`", conditional.gain.value);
            assert!(!text.contains(&way), "{study}: {way}: {screen}");
        }
    }
}

#[test]
fn the_table_of_a_first_screen_has_what_was_decided_first() {
    let mut decided = 0;
    for study in SAID.keys() {
        let (screen, a) = analysed(study);
        let mut ranges = a.advice.situations.iter().flat_map(ranges);
        let Some(range) = ranges.next() else {
            continue;
        };
        let first = &a.findings[range.points[0].finding];
        assert!(first.is_apart() && first.withheld.is_none(), "{first:?}");
        let mark = if first.verdict == Verdict::Better {
            '▲'
        } else {
            '▼'
        };
        let names = [first.value.to_string(), first.axis.subject(&first.value)];
        let mut rows = screen.lines().filter(|line| line.starts_with("  "));
        let is_there = rows.any(|line| {
            let row = line.trim_start();
            let has_name = names
                .iter()
                .any(|name| row.starts_with(&format!("{name} ")));
            has_name && row.contains(mark)
        });
        assert!(is_there, "{study}: no {mark} of {}: {screen}", first.value);
        decided += 1;
    }
    assert!(decided > 5, "{decided}");
}

#[test]
fn a_wait_for_a_timer_stands_before_the_table_with_what_removes_it() {
    let style = bytecost_report::Style {
        color: false,
        width: 100,
    };
    let (_, found) = analysed("pa02-a");
    let stalls = found
        .caveats
        .iter()
        .filter(|c| c.kind == "nagle-stall")
        .map(|c| Caveat {
            kind: CaveatKind("nagle-stall"),
            cells: c.cells.clone(),
            ..Caveat::default()
        })
        .collect();
    let mut a = found.analysis.into_owned();
    a.caveats = stalls;
    let mut cells = a.cells.iter_mut();
    let sendmsg = cells.find(|c| c.cell.mover == "sendmsg").unwrap();
    let throughput = Metric::both(Measure::ThroughputGbitPerS);
    sendmsg.estimates.get_mut(&throughput).unwrap().value = 8.0;
    sendmsg.stood_still = Some(StoodStill {
        windows: 1,
        ms: 200.0,
        share: 0.25,
    });
    a.failures.push(Failure {
        trial: TrialKey::first(0, 0),
        cell: sendmsg.id.clone(),
        started_ms: 0,
        reason: format!("{} within 200 ms", Failure::STOOD_STILL),
        stood_still_ns: Some(200_000_000),
        wrong_bytes: false,
        for_evidence: false,
    });
    let screen = bytecost_report::screen(&a, style, "report.html", "run");
    let (start, _) = screen.split_once("▲ better").unwrap();
    let before = start.split_whitespace().join(" ");
    for part in [
        "Stalls `send-fields`",
        "Nagle's algorithm",
        "with TCP_NODELAY on: 0.1",
    ] {
        assert!(before.contains(part), "{screen}");
    }
    let text = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    let rates = "these windows are 200 ms: 6.00 Gbit/s with them, 8.00 Gbit/s without";
    assert!(text.contains(rates), "{screen}");
}

#[test]
fn what_disturbed_a_run_has_two_lines_of_its_first_screen() {
    let mut a = analysed("send-copies").1.analysis.into_owned();
    let caveat = |place: usize| Caveat {
        kind: CaveatKind("path-cost"),
        disturbs: true,
        facts: vec![CaveatFact::Obstacle(Obstacle {
            kind: CircumstanceKind::Filter,
            place: "lo".to_owned(),
            found: format!("something in the way of packets, of kind {place}"),
            limits: false,
        })],
        ..Caveat::default()
    };
    let disturbance = |place: usize| Disturbance {
        caveat: place,
        verdicts_withheld: 3 * usize::from(place == 0),
        amounts_withheld: usize::from(place == 0),
    };
    a.caveats = (0..5).map(caveat).collect();
    a.disturbances = (0..5).map(disturbance).collect();
    a.host.cpus_allowed = vec![0];
    let style = bytecost_report::Style {
        color: false,
        width: 100,
    };
    let print = |shown: &Analysis| bytecost_report::screen(shown, style, "report.html", "run");
    let undisturbed = Analysis {
        disturbances: Vec::new(),
        ..a.clone()
    };
    assert!(!print(&undisturbed).contains("Disturbed"));
    let screen = print(&a);
    assert!(screen.lines().count() <= 30, "{screen}");
    let header = screen.lines().next().unwrap();
    assert!(header.contains(" 1 of 2 CPUs, Linux"), "{header}");
    let is_of_it = |line: &&str| line.starts_with("Disturbed") || line.starts_with("   ");
    let lines: Vec<&str> = screen
        .lines()
        .skip_while(|line| !line.starts_with("Disturbed"))
        .take_while(is_of_it)
        .collect();
    assert_eq!(lines.len(), 2, "{screen}");
    let words = lines
        .iter()
        .flat_map(|line| line.split_whitespace())
        .join(" ");
    let first =
        "Disturbed something in the way of packets, of kind 0: 3 verdicts and 1 amount withheld; ";
    assert!(words.starts_with(first), "{words}");
    assert!(words.ends_with("more: see the full report"), "{words}");
    // A report has all of them.
    let report = bytecost_report::terminal(&a, style);
    let text = report.split_whitespace().join(" ");
    assert!(text.contains("of packets, of kind 4"));
}

/// Which of two ways a report holds for the better one at a finding, and where it says so.
fn claims(a: &Analysis) -> Vec<(usize, &'static str, Verdict)> {
    let mut claims = Vec::new();
    for s in &a.advice.situations {
        let gains = s.uses.iter().flat_map(|u| u.gain.iter().chain(&u.but));
        let conditional = s.conditional.iter().map(|c| &c.gain);
        let costs = s.avoid.iter().map(|avoid| &avoid.cost);
        for range in gains.chain(conditional).chain(costs).chain(&s.gains) {
            let points = range.points.iter();
            claims.extend(points.map(|p| (p.finding, "advice", range.verdict)));
        }
    }
    for c in &a.crossovers {
        let verdict = match c.outcome {
            Crossing::AlwaysBetter => Verdict::Better,
            Crossing::NeverBetter => Verdict::Worse,
            _ => continue,
        };
        let found = c.findings.iter();
        claims.extend(found.map(|number| (*number, "crossover", verdict)));
    }
    claims
}

#[test]
fn no_report_contradicts_itself() {
    for study in SAID.keys() {
        let (_, a) = analysed(study);
        for (number, by, verdict) in claims(&a) {
            let finding = &a.findings[number];
            let id = finding.key();
            let against = match verdict {
                Verdict::Better => Verdict::Worse,
                _ => Verdict::Better,
            };
            assert_ne!(finding.verdict, against, "{study}: {by} against {id:?}");
            assert!(
                by != "advice" || finding.verdict == verdict,
                "{study}: {by} beyond {id:?}"
            );
        }
        // Where the baseline is advised, no way without a condition is shown to be better.
        for s in &a.advice.situations {
            for baseline in s.uses.iter().filter(|u| u.gain.is_none()) {
                let better = (s.uses.iter().filter_map(|u| u.gain.as_ref()))
                    .flat_map(|gain| &gain.points)
                    .find(|p| p.at.as_ref().is_some_and(|at| baseline.at.contains(at)));
                assert_eq!(better, None, "{study}");
            }
        }
        let explained = a.explanations.iter().flat_map(|e| &e.pairs);
        for PairSeen { finding, .. } in explained {
            assert!(*finding < a.findings.len(), "{study}: no finding {finding}");
        }
    }
}

#[test]
fn every_built_in_study_has_a_small_recorded_run() {
    let studies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
    let files = fs::read_dir(studies).unwrap().map(|e| e.unwrap().path());
    let name = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let names: Vec<String> = recorded().into_iter().map(|(study, _)| study).collect();
    assert_eq!(names, files.map(name).sorted().collect_vec());
    let bytes = |path: &Path| -> u64 {
        let size = |file| fs::metadata(path.join(file)).unwrap().len();
        RECORDED.iter().map(size).sum()
    };
    let all: u64 = recorded().iter().map(|(_, path)| bytes(path)).sum();
    assert!(all < MOST_BYTES, "{all} bytes of recorded runs");
}
