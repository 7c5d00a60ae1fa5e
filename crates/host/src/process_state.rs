//! Obstacles in the state of this process: a tracer, a nice value, a scheduler class.

use bytecost_spec::CircumstanceKind;
use bytecost_spec::host::Obstacle;

use crate::roots::Roots;

/// Scheduler classes by the number of their policy, sched(7), except SCHED_OTHER (0).
const POLICIES: &[(u32, &str)] = &[
    (1, "SCHED_FIFO"),
    (2, "SCHED_RR"),
    (3, "SCHED_BATCH"),
    (5, "SCHED_IDLE"),
    (6, "SCHED_DEADLINE"),
    (7, "SCHED_EXT"),
];

/// The tracer of a process (`self`, or its id), proc_pid_status(5); none if there is none that is
/// visible in this PID namespace.
pub fn tracer(roots: &Roots, process: &str) -> Option<Obstacle> {
    let tracer = roots.proc_value(&format!("{process}/status"), "TracerPid")?;
    if tracer == "0" {
        return None;
    }
    let name =
        (roots.proc(&format!("{tracer}/comm"))).unwrap_or_else(|_| format!("process {tracer}"));
    Some(obstacle(
        CircumstanceKind::Tracer,
        format!("traced by {name}"),
    ))
}

/// The tracer, nice value and scheduler class of this process where they are not the default.
pub(crate) fn obstacles(roots: &Roots) -> Vec<Obstacle> {
    let mut found = Vec::from_iter(tracer(roots, "self"));
    let stat = roots.proc("self/stat").unwrap_or_default();
    // Fields are counted from the third one, behind the name in brackets, proc_pid_stat(5).
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map_or_else(Vec::new, |(_, fields)| fields.split_whitespace().collect());
    let nice = fields.get(19 - 3).and_then(|n| n.parse::<i32>().ok());
    let [priority, policy] = [40, 41].map(|field| {
        let text = fields.get(field - 3)?;
        text.parse::<u32>().ok()
    });
    if let Some(nice) = nice.filter(|nice| *nice != 0) {
        found.push(obstacle(CircumstanceKind::Nice, format!("nice {nice}")));
    }
    let class = POLICIES.iter().find(|(number, _)| Some(*number) == policy);
    if let Some((_, name)) = class {
        let in_words = match priority {
            Some(priority @ 1..) => format!("{name} {priority}"),
            _ => (*name).to_owned(),
        };
        found.push(obstacle(CircumstanceKind::SchedulerClass, in_words));
    }
    found
}

fn obstacle(kind: CircumstanceKind, found: String) -> Obstacle {
    Obstacle {
        kind,
        place: "this process".to_owned(),
        found,
        limits: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::machine;

    #[test]
    fn a_tracer_a_nice_value_and_a_class_are_found_and_the_defaults_are_not() {
        let check = |nice: i32, priority: u32, policy: u32, tracer: u32, expected: &[&str]| {
            let between = "0 ".repeat(40 - 20);
            let stat = format!(
                "9 (a) b) R {}{nice} {between}{priority} {policy} 0",
                "0 ".repeat(15)
            );
            let (_dir, roots) = machine(&[
                ("proc/self/stat", &stat),
                ("proc/self/status", &format!("TracerPid:\t{tracer}\n")),
                ("proc/77/comm", "strace\n"),
            ]);
            let found: Vec<String> = obstacles(&roots).into_iter().map(|o| o.found).collect();
            assert_eq!(found, expected);
        };
        check(0, 0, 0, 0, &[]);
        check(10, 0, 0, 0, &["nice 10"]);
        check(-5, 0, 3, 0, &["nice -5", "SCHED_BATCH"]);
        check(0, 50, 1, 77, &["traced by strace", "SCHED_FIFO 50"]);
        check(0, 0, 0, 78, &["traced by process 78"]);
        let (_dir, nothing) = machine(&[]);
        assert_eq!(obstacles(&nothing), []);
    }
}
