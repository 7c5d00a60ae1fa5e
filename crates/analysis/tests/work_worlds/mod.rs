//! Runs of work with known truths: threads of work free and held, alone and with others.

use bytecost_spec::survey::Route;
use bytecost_spec::{Cell, Counter, Nearness, Placement, RefusedCell};

use crate::world::{self, True, World, put};

pub const STUDY: &str = world::study!(
    "os-features",
    r#"
[[tier]]
title = "one thread"
[tier.axes]
mover = ["work-integer", "work-float"]
threads = [1]
placement = ["free", "same-cpu"]
background = ["idle", "spin@all"]

[[tier]]
title = "two"
[tier.axes]
mover = ["work-integer", "work-float"]
threads = [2]
placement = ["smt-sibling", "same-cache", "same-cpu"]

[[compare]]
axis = "placement"
baseline = "free"
metrics = ["messages_per_s"]

[[compare]]
axis = "placement"
baseline = "smt-sibling"
metrics = ["messages_per_s"]

[[compare]]
axis = "placement"
baseline = "same-cpu"
values = ["same-cache", "cross-cache"]
metrics = ["messages_per_s"]

[[pair]]
title = "Pinned"
metric = "messages_per_s"
axis = "placement"
values = ["same-cpu"]
against = "free"
where = { threads = [1], background = ["idle"] }
published = 1.005

[[pair]]
title = "Two cores"
metric = "messages_per_s"
axis = "placement"
values = ["same-cache", "cross-cache"]
against = "smt-sibling"
where = { threads = [2] }
published = 1.961
note = "Near 2 is time-slicing."

[[pair]]
title = "Two CPUs"
metric = "cpu_ns_per_message"
axis = "placement"
values = ["same-cache"]
against = "same-cpu"
where = { threads = [2] }

[[pair]]
title = "Not asked for"
metric = "messages_per_s"
axis = "mover"
values = ["posix-aio"]
against = "pread"
"#
);

pub fn is_at(cell: &Cell, nearness: Nearness) -> bool {
    cell.placement == Placement::Near(nearness)
}

/// So much done in the same time, at so much CPU time each.
pub fn done(done: f64, cost: f64) -> True {
    True::costs(cost).at_rate(6.0 * done)
}

/// The work of two threads on the siblings, and on two cores, over that of one; by turns they
/// do as one. Pinned threads get so much done of what free ones do.
pub fn truth(siblings: f64, cores: f64, pinned: f64) -> impl Fn(&Cell) -> True {
    move |cell| match &cell.placement {
        Placement::Near(Nearness::SmtSibling) => done(siblings, 2.0 / siblings),
        Placement::Near(Nearness::SameCache) => done(cores, 1.0),
        Placement::Near(_) if cell.threads == 1 => done(pinned, 1.0),
        _ => done(1.0, 1.0),
    }
}

/// A world of work; free threads are moved so often in a window of 100 ms.
pub fn work(study: &str, moves: u64, truth: impl Fn(&Cell) -> True) -> World {
    let rows = ["work-integer", "work-float"].map(|name| (name, Route::Work));
    let mut world = World::of_rows(study, &rows).run(7, 12, 0.01, truth);
    world.each(|sample| {
        sample.receiver = None;
        let moves = if sample.cell.contains("/free") {
            moves
        } else {
            0
        };
        put(&mut sample.sender.readings, Counter::Migrations, moves);
    });
    world
}

/// The same where the kernel shows no siblings.
pub fn without_siblings(mut world: World) -> World {
    let is_kept = |c: &Cell| !is_at(c, Nearness::SmtSibling);
    let refused = world.cells.iter().filter(|c| !is_kept(c));
    world.refused = refused
        .map(|c| RefusedCell {
            cell: c.clone(),
            why: "no two CPUs are threads of one core".to_owned(),
        })
        .collect();
    world.keep(is_kept);
    world
}
