//! The counters of a flow at the edges of the eighths of its window.

use bytecost_engine::Tally;
use bytecost_spec::sample::SubWindows;
use bytecost_sys::clock;

use crate::phase::{EIGHTHS, Phase};

const EDGES: usize = EIGHTHS.len() + 1;

#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    bytes: u64,
    messages: u64,
    at_ns: u64,
    cpu_ns: u64,
}

impl Mark {
    fn now(tally: &Tally) -> Mark {
        Mark {
            bytes: tally.bytes,
            messages: tally.messages,
            at_ns: clock::monotonic_ns(),
            cpu_ns: clock::thread_cpu_ns(),
        }
    }
}

/// Edges of a window and its eighths. A flow notes two clocks at each: less than a µs, within it.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    at: [Mark; EDGES],
    /// The edge that is noted next.
    next: usize,
    /// True if it noted an edge within the window.
    stepped: bool,
}

impl Marks {
    /// The window opens.
    pub fn open(tally: &Tally) -> Marks {
        Marks {
            at: [Mark::now(tally); EDGES],
            next: 1,
            stepped: false,
        }
    }

    /// The phase in which the next edge is to be noted; past the last one the window closes.
    pub fn until(&self) -> Phase {
        EIGHTHS.get(self.next).copied().unwrap_or(Phase::Cooldown)
    }

    /// Notes the edge before that eighth, and those that were missed, as far as there are any left.
    #[cold]
    pub fn note(&mut self, eighth: usize, tally: &Tally) {
        let mark = Mark::now(tally);
        while self.next <= eighth.min(EIGHTHS.len() - 1) {
            self.at[self.next] = mark;
            self.next += 1;
            self.stepped = true;
        }
    }

    /// Notes the edge at which a phase of the window has begun. Returns the phase of the next edge.
    #[cold]
    pub fn step(&mut self, phase: Phase, tally: &Tally) -> Phase {
        let eighth = (phase as usize).saturating_sub(Phase::Window as usize);
        self.note(eighth, tally);
        self.until()
    }

    /// The window closes.
    pub fn close(&mut self, tally: &Tally) {
        let last = Mark::now(tally);
        self.at[self.next..].fill(last);
        self.next = EDGES;
    }

    /// The amount, time and CPU time of each eighth; none where the flow noted no edge within its window.
    pub fn sub_windows(&self) -> Option<SubWindows> {
        let increase = |of: fn(&Mark) -> u64| {
            let pairs = self.at.windows(2);
            pairs.map(|m| of(&m[1]).saturating_sub(of(&m[0]))).collect()
        };
        let moves = self.at[EDGES - 1].bytes > self.at[0].bytes;
        self.stepped.then(|| SubWindows {
            amount: if moves {
                increase(|m| m.bytes)
            } else {
                increase(|m| m.messages)
            },
            elapsed_ns: increase(|m| m.at_ns),
            cpu_ns: increase(|m| m.cpu_ns),
        })
    }
}

/// Edges by the clock, for a loop that reads it for each message.
#[derive(Clone, Copy, Debug)]
pub struct Clocked {
    /// The noted edges.
    pub marks: Marks,
    eighth_ns: u64,
    due_ns: u64,
    passed: usize,
}

impl Clocked {
    /// The window opens at `now_ns`, with eighths of that length; of length 0 nothing is noted.
    pub fn open(now_ns: u64, eighth_ns: u64, tally: &Tally) -> Clocked {
        Clocked {
            marks: Marks::open(tally),
            eighth_ns,
            due_ns: match eighth_ns {
                0 => u64::MAX,
                _ => now_ns + eighth_ns,
            },
            passed: 0,
        }
    }

    /// Notes the edges that are over at `now_ns`.
    #[inline]
    pub fn pass(&mut self, now_ns: u64, tally: impl FnOnce() -> Tally) {
        if now_ns >= self.due_ns {
            self.over(now_ns, &tally());
        }
    }

    #[cold]
    fn over(&mut self, now_ns: u64, tally: &Tally) {
        while now_ns >= self.due_ns {
            self.due_ns += self.eighth_ns;
            self.passed += 1;
        }
        self.marks.note(self.passed, tally);
    }
}

/// The eighths of all flows of a side together, as far as they have any.
pub fn together(flows: &[SubWindows]) -> Option<SubWindows> {
    let sums = |part: fn(&SubWindows) -> &Vec<u64>| -> Vec<u64> {
        let sum = |i| flows.iter().filter_map(|f| part(f).get(i)).sum();
        (0..EIGHTHS.len()).map(sum).collect()
    };
    let count = flows.len() as u64;
    let elapsed_ns = sums(|f| &f.elapsed_ns).into_iter();
    (count > 0).then(|| SubWindows {
        amount: sums(|f| &f.amount),
        elapsed_ns: elapsed_ns.map(|n| n / count).collect(),
        cpu_ns: sums(|f| &f.cpu_ns),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(messages: u64, bytes: u64) -> Tally {
        Tally {
            messages,
            bytes,
            ..Tally::default()
        }
    }

    #[test]
    fn an_edge_that_was_missed_is_noted_with_the_next_one() {
        let mut marks = Marks::open(&tally(3, 30));
        assert_eq!(marks.until(), Phase::Eighth2);
        assert_eq!(marks.step(Phase::Eighth2, &tally(4, 40)), Phase::Eighth3);
        // The thread was away for an eighth.
        assert_eq!(marks.step(Phase::Eighth4, &tally(9, 90)), Phase::Eighth5);
        assert_eq!(marks.step(Phase::Eighth8, &tally(10, 100)), Phase::Cooldown);
        marks.close(&tally(12, 120));
        let windows = marks.sub_windows().unwrap();
        assert_eq!(windows.amount, [10, 50, 0, 10, 0, 0, 0, 20]);
        assert_eq!(windows.elapsed_ns[2], 0, "one stretch with the one before");
    }

    #[test]
    fn without_a_step_there_are_no_sub_windows_and_without_bytes_messages_count() {
        let mut without_steps = Marks::open(&tally(0, 0));
        without_steps.close(&tally(8, 80));
        assert_eq!(without_steps.sub_windows(), None);
        let mut without_bytes = Marks::open(&tally(0, 0));
        without_bytes.step(Phase::Eighth5, &tally(5, 0));
        without_bytes.close(&tally(8, 0));
        let windows = without_bytes.sub_windows().unwrap();
        assert_eq!(windows.amount, [5, 0, 0, 0, 3, 0, 0, 0]);
    }

    #[test]
    fn a_loop_with_a_clock_of_its_own_notes_what_is_over() {
        let mut clocked = Clocked::open(1000, 10, &tally(0, 0));
        for (now_ns, messages) in [(1009, 1), (1010, 2), (1035, 3), (1099, 4)] {
            clocked.pass(now_ns, || tally(messages, 0));
        }
        clocked.marks.close(&tally(5, 0));
        let windows = clocked.marks.sub_windows().unwrap();
        assert_eq!(windows.amount, [2, 1, 0, 1, 0, 0, 0, 1]);
        let mut none = Clocked::open(1000, 0, &tally(0, 0));
        none.pass(u64::MAX - 1, || tally(1, 0));
        assert_eq!(none.marks.sub_windows(), None);
    }

    #[test]
    fn flows_add_up_over_their_mean_length() {
        let flow = |amount, elapsed_ns| SubWindows {
            amount: vec![amount; 8],
            elapsed_ns: vec![elapsed_ns; 8],
            cpu_ns: vec![1; 8],
        };
        let both = together(&[flow(10, 20), flow(30, 40)]).unwrap();
        let [amount, elapsed_ns, cpu_ns] = [both.amount, both.elapsed_ns, both.cpu_ns];
        assert_eq!((amount[7], elapsed_ns[0], cpu_ns[3]), (40, 30, 2));
        assert_eq!(together(&[]), None);
    }
}
