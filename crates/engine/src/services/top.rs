//! `top`: which two processes have used the most CPU time, in user space and in the kernel.
//!
//! A line in, whatever it says, and a line out, so that `nc` can ask:
//!
//! ```text
//! make pid 812 user 12.34 s kernel 1.20 s<TAB>cc1 (x) pid 99 user 3.10 s kernel 0.08 s
//! ```
//!
//! A name may hold spaces and brackets; bytes that would break the line are replaced by `?`.

use std::cmp::Reverse;
use std::io::Write;
use std::time::{Duration, Instant};

use bytecost_host::ProcessTable;

use crate::services::{Framing, Requester, Responder, Service, ServiceFacts};

/// The row of the table.
pub const SERVICE: Service = Service {
    facts: ServiceFacts {
        name: "top",
        summary: "responds to every line with the two processes that have used the most CPU time",
        sizes: None,
    },
    request_framing: |_| Framing::Line,
    response_framing: |_| Framing::Line,
    responder: |setup| {
        Box::new(Top {
            table: ProcessTable::new(&setup.roots),
            ticks_per_s: rustix::param::clock_ticks_per_second().max(1),
            busiest: Default::default(),
            read: None,
            kept_for: setup.kept_for,
        })
    },
    requester: |_| Box::new(TopRequester),
};

const SHOWN: usize = 2;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Busy {
    pid: u32,
    name: Vec<u8>,
    user_ticks: u64,
    kernel_ticks: u64,
}

impl Busy {
    fn ticks(&self) -> u64 {
        self.user_ticks.saturating_add(self.kernel_ticks)
    }
}

struct Top {
    table: ProcessTable,
    ticks_per_s: u64,
    /// The busiest so far, the most busy first; nobody has pid 0.
    busiest: [Busy; SHOWN],
    /// When they were read.
    read: Option<Instant>,
    kept_for: Duration,
}

impl Top {
    fn read_table(&mut self) {
        for place in &mut self.busiest {
            place.pid = 0;
        }
        let busiest = &mut self.busiest;
        self.table.each(&mut |process| {
            let ticks = process.user_ticks.saturating_add(process.kernel_ticks);
            let key = (Reverse(ticks), process.pid);
            let above = busiest
                .iter()
                .position(|b| b.pid == 0 || key < (Reverse(b.ticks()), b.pid));
            if let Some(at) = above {
                busiest[at..].rotate_right(1);
                let place = &mut busiest[at];
                place.pid = process.pid;
                place.user_ticks = process.user_ticks;
                place.kernel_ticks = process.kernel_ticks;
                place.name.clear();
                place.name.extend_from_slice(process.name);
            }
        });
    }
}

impl Responder for Top {
    fn append_response(&mut self, _request: &[u8], out: &mut Vec<u8>) {
        let is_fresh = self.read.is_some_and(|at| at.elapsed() < self.kept_for);
        if !is_fresh {
            self.read_table();
            self.read = (!self.kept_for.is_zero()).then(Instant::now);
        }
        for (nth, busy) in self.busiest.iter().filter(|b| b.pid != 0).enumerate() {
            if nth > 0 {
                out.push(b'\t');
            }
            write(busy, self.ticks_per_s, out);
        }
        out.push(b'\n');
    }
}

fn write(busy: &Busy, per_s: u64, out: &mut Vec<u8>) {
    let harmless = |b: &u8| if b.is_ascii_control() { b'?' } else { *b };
    out.extend(busy.name.iter().map(harmless));
    let hundredths = |ticks: u64| (ticks / per_s, ticks % per_s * 100 / per_s);
    let ((user, u), (kernel, k)) = (hundredths(busy.user_ticks), hundredths(busy.kernel_ticks));
    let pid = busy.pid;
    // Writing to a vector cannot fail.
    let _ = write!(
        out,
        " pid {pid} user {user}.{u:02} s kernel {kernel}.{k:02} s"
    );
}

/// A process as a client reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its number.
    pub pid: u32,
    /// User CPU time, in hundredths of a second.
    pub user_hundredths: u64,
    /// Kernel CPU time, in hundredths of a second.
    pub kernel_hundredths: u64,
}

impl Entry<'_> {
    /// CPU time of both kinds, in hundredths of a second. The line is a stranger's: a sum that no
    /// number holds is the largest.
    pub fn ticks(&self) -> u64 {
        self.user_hundredths.saturating_add(self.kernel_hundredths)
    }
}

/// The processes of an answer, busiest first; `None` for one that is not understood.
pub fn entries(line: &[u8]) -> impl Iterator<Item = Option<Entry<'_>>> {
    let whole = line.strip_suffix(b"\n").unwrap_or(line);
    whole.split(|b| *b == b'\t').map(entry)
}

fn entry(text: &[u8]) -> Option<Entry<'_>> {
    // From the end, since the name in front may hold the very same words.
    let (text, kernel_hundredths) = last(text, b" kernel ")?;
    let (text, user_hundredths) = last(text, b" user ")?;
    let at = text.windows(5).rposition(|w| w == b" pid ")?;
    Some(Entry {
        name: &text[..at],
        pid: number(&text[at + 5..])?.try_into().ok()?,
        user_hundredths,
        kernel_hundredths,
    })
}

/// In hundredths of a second, and what stands before.
fn last<'a>(text: &'a [u8], word: &[u8]) -> Option<(&'a [u8], u64)> {
    let at = text.windows(word.len()).rposition(|w| w == word)?;
    let time = text[at + word.len()..].strip_suffix(b" s")?;
    let (seconds, rest) = time.split_at_checked(time.len().checked_sub(3)?)?;
    let hundredths = number(rest.strip_prefix(b".")?)?;
    let all = number(seconds)?.checked_mul(100)?.checked_add(hundredths)?;
    Some((&text[..at], all))
}

fn number(digits: &[u8]) -> Option<u64> {
    let plain = digits.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(digits).ok().filter(|_| plain)?;
    text.parse().ok()
}

struct TopRequester;

impl Requester for TopRequester {
    fn append_request(&self, _connection: u32, _number: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"top\n");
    }

    fn is_right(&self, _connection: u32, _number: u64, at: usize, piece: &[u8]) -> bool {
        let ends = piece.last() == Some(&b'\n');
        let mut busiest_first = u64::MAX;
        let mut count = 0;
        at == 0
            && ends
            && entries(piece).all(|entry| {
                let ticks = entry.map_or(u64::MAX, |e| e.ticks());
                // Rounding down each time may turn two near ones round by a hundredth.
                let in_order =
                    busiest_first == u64::MAX || ticks <= busiest_first.saturating_add(1);
                busiest_first = ticks;
                count += 1;
                entry.is_some() && in_order && count <= SHOWN
            })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Service, ServiceSetup};
    use super::*;
    use bytecost_host::Roots;

    struct Proc(tempfile::TempDir);

    impl Proc {
        fn new(processes: &[(u32, &str, u64, u64)]) -> Proc {
            let dir = tempfile::tempdir().unwrap();
            for (pid, name, user, kernel) in processes {
                let place = dir.path().join("proc").join(pid.to_string());
                std::fs::create_dir_all(&place).unwrap();
                let stat =
                    format!("{pid} ({name}) R 1 1 1 0 -1 4 0 0 0 0 {user} {kernel} 0 0 20 0 1\n");
                std::fs::write(place.join("stat"), stat).unwrap();
            }
            Proc(dir)
        }
    }

    fn setup(proc: &Proc, kept_for: Duration) -> ServiceSetup {
        ServiceSetup {
            size: 0,
            roots: Roots::under(proc.0.path()),
            kept_for,
        }
    }

    fn response(proc: &Proc) -> String {
        let setup = setup(proc, Duration::ZERO);
        let mut out = Vec::new();
        (Service::named("top").unwrap().responder)(&setup).append_response(b"top\n", &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_table_is_read_again_only_after_its_time() {
        let [few, many] = [Duration::ZERO, Duration::from_secs(3600)].map(|kept_for| {
            let proc = Proc::new(&[(1, "init", 5, 5)]);
            let mut top = (Service::named("top").unwrap().responder)(&setup(&proc, kept_for));
            let mut out = Vec::new();
            top.append_response(b"top\n", &mut out);
            std::fs::remove_dir_all(proc.0.path().join("proc/1")).unwrap();
            top.append_response(b"top\n", &mut out);
            String::from_utf8(out).unwrap()
        });
        assert_eq!(few, "init pid 1 user 0.05 s kernel 0.05 s\n\n");
        assert_eq!(many, "init pid 1 user 0.05 s kernel 0.05 s\n".repeat(2));
    }

    #[test]
    fn a_line_of_times_that_no_number_holds_is_no_panic() {
        let line = format!("a pid 1 user {0}.00 s kernel {0}.00 s\n", u64::MAX / 100);
        let entry = entries(line.as_bytes()).next().unwrap().unwrap();
        assert_eq!(entry.ticks(), u64::MAX);
        assert!(TopRequester.is_right(0, 0, 0, line.as_bytes()));
    }

    #[test]
    fn the_two_busiest_are_told_most_busy_first() {
        let proc = Proc::new(&[
            (1, "init", 5, 5),
            (20, "a (b) c", 1234, 120),
            (7, "idle", 0, 0),
            (9, "tmux: server", 10, 190),
            (8, "same", 190, 10),
        ]);
        let line =
            "a (b) c pid 20 user 12.34 s kernel 1.20 s\tsame pid 8 user 1.90 s kernel 0.10 s\n";
        assert_eq!(response(&proc), line);
    }

    #[test]
    fn fewer_processes_give_a_shorter_line() {
        let proc = Proc::new(&[(4, "ta\tb", 100, 7)]);
        assert_eq!(response(&proc), "ta?b pid 4 user 1.00 s kernel 0.07 s\n");
        assert_eq!(response(&Proc::new(&[])), "\n");
    }

    #[test]
    fn a_client_reads_what_the_server_writes() {
        let line = b"x pid 3 user 1 pid 20 user 12.34 s kernel 1.20 s\ty pid 8 user 0.00 s kernel 9.99 s\n";
        let read: Vec<_> = entries(line).collect();
        let first = Entry {
            name: b"x pid 3 user 1",
            pid: 20,
            user_hundredths: 1234,
            kernel_hundredths: 120,
        };
        assert_eq!(read[0], Some(first));
        assert_eq!(read[1].unwrap().kernel_hundredths, 999);
        assert_eq!(read.len(), 2);
    }

    #[test]
    fn what_is_no_answer_is_known() {
        for (line, right) in [
            ("a pid 1 user 0.10 s kernel 0.00 s\n", true),
            ("a pid 1 user 0.10 s kernel 0.00 s", false),
            ("a pid 1 user 0.1 s kernel 0.00 s\n", false),
            ("a pid 1 user .10 s kernel 0.00 s\n", false),
            ("a pid x user 0.10 s kernel 0.00 s\n", false),
            ("a pid 1 user 0.10 s kernel 0.00 s\tb\n", false),
            (
                "a pid 1 user 0.10 s kernel 0.00 s\tb pid 2 user 0.20 s kernel 0.00 s\n",
                false,
            ),
            ("error: no\n", false),
            ("\n", false),
        ] {
            let is_right = TopRequester.is_right(0, 0, 0, line.as_bytes());
            assert_eq!(is_right, right, "{line:?}");
        }
    }
}
