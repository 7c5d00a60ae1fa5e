//! The books of each cell as a table: where the time of all CPUs went in its windows.

use bytecost_analysis::{Analysis, CellBooks, Closed};
use bytecost_spec::evidence::{CPU_USERS, CpuAccounts, CpuUser, CpuUserRow};
use itertools::Itertools as _;

use crate::counted::{CountTable, further, rows};
use crate::document::DocEntry;

const LAST_COLUMNS: [&str; 2] = [
    "interrupts, % of own CPU time",
    "left over, % of own CPU time",
];

/// The table with a column for each user of the CPUs; none of runs without books.
pub(crate) fn books(a: &Analysis) -> Option<CountTable> {
    a.books.first()?;
    let users = used(a.books.iter().flat_map(|b| &b.lines).map(|l| l.user));
    let of_cells = a.books.iter().map(|books| {
        let share = |row: &&CpuUserRow| {
            let lines = books.lines.iter().filter(|l| l.user == row.user);
            let sum = lines.map(|l| l.share).reduce(|total, part| total + part);
            DocEntry::or_gap(sum.map(percent))
        };
        let last = [interrupts(books), left_over(books).into()];
        let texts = users.iter().map(share).chain(last);
        (books.cell.as_str(), texts.collect())
    });
    let rows = rows(a, of_cells);
    let mut notes = Vec::new();
    if a.books.iter().all(|b| b.interrupts.is_none()) {
        notes.push("Interrupts on idle CPUs cannot be distinguished from what is left over: the scheduler's own account of all tasks cannot be read here.".to_owned());
    } else if a.books.iter().any(|b| b.interrupts_charged) {
        notes.push("Interrupts on idle CPUs are a part of the cost of both sides together. The cost of the sender or of the receiver alone does not include them.".to_owned());
    } else {
        notes.push("Interrupts on idle CPUs are a part of no cost: in no cell are they shown to be more than half of the smallest effect.".to_owned());
    }
    let closed = a.books.iter().filter(|b| b.closed == Closed::Yes).count();
    notes.push(format!(
        "The books of {closed} of {} cells are closed to 3 % of the cell's own CPU time.",
        a.books.len()
    ));
    notes.extend(further(a.books.len(), rows.len(), "further cells"));
    Some(CountTable {
        section: "books",
        short: "Books",
        title: "Where the CPU time of each cell went",
        lead: "Shares of the time of all CPUs in the windows, means over trials; they add up to 100 %. A cost is that of a side with its workers. The last two columns are shares of the cell's own CPU time with their 95 % intervals: interrupts on idle CPUs above the idle rate of the run, with + where they are added to the cost; and what is left over, with ! where the interval is outside of 3 % and ~ where it is partly outside. A verdict on CPU time stands where what is left over is within half the distance of the ratio to 1.",
        columns: columns(&users, &LAST_COLUMNS),
        rows,
        notes,
    })
}

/// The table of CPU accounts of one evidence trial a cell, from the kernel's tracepoints; none
/// where no trial has them.
pub(crate) fn counted(a: &Analysis) -> Option<CountTable> {
    let all_accounts = || a.books.iter().filter_map(|b| b.counted.as_ref());
    let known: Vec<(&str, &CpuAccounts)> = (a.books.iter())
        .filter_map(|b| Some((b.cell.as_str(), b.counted.as_ref()?)))
        .filter(|(_, accounts)| accounts.refused.is_none())
        .collect();
    let users = used(known.iter().flat_map(|(_, c)| &c.lines).map(|l| l.user));
    let of_cells = known.iter().map(|(cell, accounts)| {
        let capacity = accounts.elapsed_ns as f64 * f64::from(accounts.cpus);
        let ns_of = |row: &&CpuUserRow| accounts.ns_of(|l| l.user == row.user).unwrap_or(0) as f64;
        let ns = users
            .iter()
            .map(ns_of)
            .chain([accounts.left_over_ns as f64]);
        (*cell, ns.map(|ns| percent(ns / capacity).into()).collect())
    });
    let rows = rows(a, of_cells);
    let refused = all_accounts().find_map(|accounts| accounts.refused.as_ref());
    let notes = refused.map(|why| format!("Not counted in some cells: {why}."));
    (!rows.is_empty()).then_some(CountTable {
        section: "accounts",
        short: "CPU accounts",
        title: "Who used the CPUs, counted",
        lead: "Shares of the time of all CPUs in one trial of each cell that is not timed, by the kernel's tracepoints of the scheduler and of interrupts: the check on the books.",
        columns: columns(&users, &["left over"]),
        rows,
        notes: notes.into_iter().collect(),
    })
}

fn used(users: impl Iterator<Item = CpuUser> + Clone) -> Vec<&'static CpuUserRow> {
    let appears = |row: &&CpuUserRow| users.clone().contains(&row.user);
    CPU_USERS.iter().filter(appears).collect()
}

fn columns(users: &[&CpuUserRow], last: &[&'static str]) -> Vec<String> {
    let titles = users
        .iter()
        .map(|row| row.title)
        .chain(last.iter().copied());
    titles.map(str::to_owned).collect()
}

/// The interrupts on idle CPUs of a cell, with a mark where they are added to its cost.
fn interrupts(books: &CellBooks) -> DocEntry {
    let mark = if books.interrupts_charged { " +" } else { "" };
    let found = books.interrupts.as_ref();
    DocEntry::or_gap(found.map(|found| {
        let share = share(found.value, (found.low, found.high));
        format!("{share}{mark}")
    }))
}

/// A share with half its interval, in percent.
fn share(value: f64, (low, high): (f64, f64)) -> String {
    let shares = [value, (high - low) / 2.0];
    let [at, within] = shares.map(|share| 100.0 * share.clamp(-9.99, 9.99));
    format!("{at:+.1} ± {within:.1}")
}

fn left_over(books: &CellBooks) -> String {
    let share = share(books.left_over, (books.low, books.high));
    let mark = match books.closed {
        Closed::Yes => "",
        Closed::NotToThreePercent => " ~",
        Closed::No => " !",
    };
    format!("{share}{mark}")
}

fn percent(share: f64) -> String {
    if share.abs() < 0.0005 {
        "0 %".to_owned()
    } else {
        format!("{:.1} %", 100.0 * share)
    }
}
