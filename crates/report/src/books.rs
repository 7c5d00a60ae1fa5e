//! The books of each cell as a table: where the time of all CPUs went in its windows.

use bytecost_analysis::{Analysis, CellBooks, Closed};
use bytecost_spec::evidence::{CPU_USERS, CpuAccounts, CpuUser, CpuUserRow};

use crate::counted::{CountTable, MOST_ROWS, NOTHING, label};

/// The table with a column for each user of the CPUs; none of runs without books.
pub(crate) fn books(a: &Analysis) -> Option<CountTable> {
    let is_used = |row: &&CpuUserRow| {
        let mut lines = a.books.iter().flat_map(|b| &b.lines);
        lines.any(|l| l.user == row.user)
    };
    let users: Vec<&CpuUserRow> = CPU_USERS.iter().filter(is_used).collect();
    let mut columns = vec!["cell".to_owned()];
    columns.extend(users.iter().map(|row| row.title.to_owned()));
    columns.push("left over, % of own CPU time".to_owned());
    let rows = a.books.iter().take(MOST_ROWS).filter_map(|books| {
        let cell = a.cells.iter().find(|c| c.id == books.cell)?;
        let share = |row: &&CpuUserRow| {
            let lines = books.lines.iter().filter(|l| l.user == row.user);
            let sum = lines.map(|l| l.share).reduce(|a, b| a + b);
            sum.map_or_else(|| NOTHING.to_owned(), percent)
        };
        let mut texts: Vec<String> = users.iter().map(share).collect();
        texts.push(left_over(books));
        Some((label(a, &cell.cell), texts))
    });
    let rows: Vec<(String, Vec<String>)> = rows.collect();
    let first = a.books.first()?;
    let mut notes = Vec::new();
    if !first.lines.iter().any(|l| l.user == CpuUser::Interrupts) {
        notes.push("Interrupts on idle CPUs cannot be distinguished from what is left over: the scheduler's own account of all tasks cannot be read here.".to_owned());
    }
    let closed = a.books.iter().filter(|b| b.closed == Closed::Yes).count();
    notes.push(format!(
        "The books of {closed} of {} cells are closed to 3 % of the cell's own CPU time.",
        a.books.len()
    ));
    if a.books.len() > rows.len() {
        let more = a.books.len() - rows.len();
        notes.push(format!("{more} further cells are in findings.json."));
    }
    Some(CountTable {
        section: "books",
        short: "Books",
        title: "Where the CPU time of each cell went",
        lead: "Shares of the time of all CPUs in the windows, means over trials; they add up to 100 %. A cost is that of a side with its workers. The last column is what is left over as a share of the cell's own CPU time, with its 95 % interval; ! withholds the verdicts of CPU time, ~ says that the error is above 3 %.",
        columns,
        rows,
        notes,
    })
}

/// The same of one trial for evidence, by the kernel's tracepoints; none where nobody counted.
pub(crate) fn counted(a: &Analysis) -> Option<CountTable> {
    let all = a
        .books
        .iter()
        .filter_map(|b| Some((b, b.counted.as_ref()?)));
    let known: Vec<(&CellBooks, &CpuAccounts)> =
        all.clone().filter(|(_, c)| c.refused.is_none()).collect();
    let used = |row: &&CpuUserRow| {
        let mut lines = known.iter().flat_map(|(_, c)| &c.lines);
        lines.any(|l| l.user == row.user)
    };
    let users: Vec<&CpuUserRow> = CPU_USERS.iter().filter(used).collect();
    let mut columns = vec!["cell".to_owned()];
    columns.extend(users.iter().map(|row| row.title.to_owned()));
    columns.push("left over".to_owned());
    let rows = known.iter().take(MOST_ROWS).filter_map(|(books, of)| {
        let cell = a.cells.iter().find(|c| c.id == books.cell)?;
        let capacity = of.elapsed_ns as f64 * f64::from(of.cpus);
        let share = |row: &&CpuUserRow| {
            let ns = of.ns_of(|l| l.user == row.user).unwrap_or(0);
            percent(ns as f64 / capacity)
        };
        let mut texts: Vec<String> = users.iter().map(share).collect();
        texts.push(percent(of.left_over_ns as f64 / capacity));
        Some((label(a, &cell.cell), texts))
    });
    let rows: Vec<(String, Vec<String>)> = rows.collect();
    let why = all.filter_map(|(_, c)| c.refused.clone()).next();
    let notes = why.map(|why| format!("Not counted in some cells: {why}."));
    (!rows.is_empty()).then_some(CountTable {
        section: "accounts",
        short: "CPU accounts",
        title: "Who used the CPUs, counted",
        lead: "Shares of the time of all CPUs in one trial of each cell that is not timed, by the kernel's tracepoints of the scheduler and of interrupts: the check on the books.",
        columns,
        rows,
        notes: notes.into_iter().collect(),
    })
}

fn left_over(books: &CellBooks) -> String {
    let [at, within] = [books.left_over, (books.high - books.low) / 2.0].map(|share| {
        let shown = share.clamp(-9.99, 9.99);
        100.0 * shown
    });
    let mark = match books.closed {
        Closed::Yes => "",
        Closed::NotToThreePercent => " ~",
        Closed::No => " !",
    };
    format!("{at:+.1} ± {within:.1}{mark}")
}

fn percent(share: f64) -> String {
    match share.abs() < 0.0005 {
        true => "0 %".to_owned(),
        false => format!("{:.1} %", 100.0 * share),
    }
}
