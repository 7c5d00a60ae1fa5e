//! The study of servers, and what a served trial leaves when it is killed or another run cleans up.

use crate::common::{PATIENCE, Place, endpoints_of, says, until};
use bytecost_analysis::RunNote;
use rustix::process::Signal;

/// A run of which each trial has the coordinator's two processes, the server, and its children.
const SERVED: &str = "run server-models --placement free --blocks 6 --warmup 100ms --budget 60s";

/// Clients that think for longer than a window lasts: it is made longer until something comes, and
/// no trial fails. The longest is over six seconds, so that a busy machine leaves time for it.
#[test]
fn a_window_in_which_nothing_came_is_made_longer() {
    let place = Place::new();
    let words = format!(
        "{SERVED} --window 100ms --server epoll --service echo --size 64 --connections 1 --connect kept --idle 0 --think 300ms"
    );
    let ended = place.call(words).measured();
    says(
        &ended.stderr,
        &["from now on its windows are 4 times as long"],
    );
    let found = place.findings();
    assert_eq!(found.cells.len(), 1, "no loop's cost next to it");
    let is_longer = |note: &RunNote| matches!(note, RunNote::LongerWindows { times: 4.., .. });
    assert!(found.run.notes.iter().any(is_longer));
    let note = ["moved nothing in its window", "not count"];
    says(&place.read("report.md"), &note);
    says(&place.read("report.md"), &["windows are 4 times as long"]);
    let blocks = place.samples().len() as u32;
    assert!(
        found.run.blocks < blocks,
        "{} of {blocks}",
        found.run.blocks
    );
    assert_eq!(found.failures, []);
    assert!(found.roles[0].window_ms > 150.0);
}

#[test]
fn a_server_in_use_is_no_leftover_and_a_killed_run_leaves_none() {
    let place = Place::new();
    let words = format!("{SERVED} --window 3s --server fork --connections 2");
    let mut run = place.start(&mut place.bytecost(words));
    // Both endpoints, the server, and a child for each connection.
    let pid = run.pid();
    run.until("a whole trial", || {
        place.has_run() && endpoints_of(pid).len() >= 5
    });
    let other = Place::new();
    let said = other.call("doctor --clean").stdout;
    for endpoint in endpoints_of(pid) {
        assert!(!said.contains(&format!("process {endpoint},")), "{said}");
    }
    run.send(Signal::KILL);
    until("the end of all of them", PATIENCE, || {
        endpoints_of(pid).is_empty()
    });
    drop(run);
    assert!(place.records().len() < 20);
}
