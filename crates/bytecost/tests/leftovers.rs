//! Leftovers of a killed run are removed by `doctor --clean` and the next run; a living one's stay.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use crate::common::{PATIENCE, Place, among_no_others, says, until};

/// A process that runs until it is ended: `yes` under that name, which soon waits for somebody to
/// read what it writes.
fn named(place: &Place, name: &str, words: &[&str]) -> Child {
    let program = place.path().join(name);
    if !program.exists() {
        // By a process of its own: what this one has open for writing is not executed.
        let mut copy = Command::new("cp");
        let copied = copy.arg("/usr/bin/yes").arg(&program).status();
        assert!(copied.unwrap().success());
    }
    let mut command = Command::new(program);
    command.args(words).stdout(Stdio::piped()).spawn().unwrap()
}

/// A process that looks like an endpoint of `coordinator`.
fn endpoint(place: &Place, coordinator: u32) -> Child {
    named(place, "bytecost", &["endpoint", &coordinator.to_string()])
}

/// The number of a process that is no more.
fn gone() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

fn is_ended(child: &mut Child) {
    until("the end of the orphan", PATIENCE, || {
        child.try_wait().unwrap().is_some()
    });
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}

// Invariant 9.
#[test]
fn what_a_killed_run_left_is_removed_and_what_is_in_use_stays() {
    if !among_no_others("leftovers::what_a_killed_run_left_is_removed_and_what_is_in_use_stays") {
        return;
    }
    let place = Place::recorded(&["smt"]);
    let mut in_use = endpoint(&place, std::process::id());
    let mut orphan = endpoint(&place, gone());
    let mark = format!("-Dbytecost.endpoint={}", gone());
    let mut machine = named(&place, "java", &["--", &mark]);
    let half = place.run().join(".report.md.1.0.tmp");
    fs::write(&half, "half").unwrap();

    let said = place.call("doctor --clean").stdout;
    is_ended(&mut orphan);
    says(&said, &[&format!("process {}", orphan.id())]);
    is_ended(&mut machine);
    let note = format!("process {}, a Java machine", machine.id());
    let shown = half.strip_prefix(place.path()).unwrap();
    says(&said, &[&note, shown.to_str().unwrap()]);
    assert!(!half.exists());
    assert!(
        !said.contains(&format!("process {},", in_use.id())),
        "{said}"
    );

    let mut later_orphan = endpoint(&place, gone());
    fs::write(&half, "half").unwrap();
    let words = "run --mover send --size 4KiB --blocks 6 --window 20ms --warmup 2ms --budget 60s";
    let end = place.call(words).measured();
    is_ended(&mut later_orphan);
    says(&end.stderr, &[&format!("process {}", later_orphan.id())]);
    assert!(!half.exists());

    let last = place.call("doctor --clean").stdout;
    assert_eq!(last, "nothing was left behind\n");
    assert!(in_use.try_wait().unwrap().is_none(), "it was not an orphan");
    in_use.kill().unwrap();
    in_use.wait().unwrap();
}
