//! Slices of time: what the maps have counted is read ten times a second; where counting all calls would cost
//! a program too much, slices with pauses between them stand for the whole time.

use std::io;

use aya::maps::{HashMap, PerCpuArray};
use bytecost_sys::clock;

use super::counts::{COUNTS, Key, TOTALS, Totals, sum};
use super::{COUNTING, Profiler, detached, error};
use crate::bpf;

/// The part of its time that a program may lose to counting. One that would lose more is counted in slices
/// of time, between which no call passes a tracepoint.
const MOST_COST: f64 = 0.04;
/// The length of such a slice, and the longest time from one to the next.
const SLICE_NS: u64 = 10_000_000;
/// A program is taken to be slowed down so many times at most within a slice.
const MOST_SLOWED: f64 = 5.0;
/// From one reading of the maps to the next where all calls are counted.
const READING_NS: u64 = 100_000_000;
/// The longest pause between slices.
const MOST_PAUSE_NS: f64 = 1e9;

/// The slice of time that is looked at, or the pause before the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slice {
    pub(super) began_ns: u64,
    /// The pause before it, for which its calls stand too.
    after_ns: u64,
    /// The part of that pause in which programs were attached.
    attaching_ns: u64,
    /// The pause that is to follow it, of which there is none where all calls are counted.
    pause_ns: u64,
}

impl Slice {
    /// A slice without a pause before or after it.
    pub(super) fn begun(began_ns: u64) -> Slice {
        Slice {
            began_ns,
            ..Slice::default()
        }
    }
}

/// Calls of the last reading of the maps, and the time that the program would have needed for them
/// uncounted.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastReading {
    calls: u64,
    own_ns: f64,
}

impl LastReading {
    pub(super) const NONE: LastReading = LastReading {
        calls: 0,
        own_ns: 1.0,
    };
}

/// Words of a map, as they were read last, what that reading brought, and the sum of what each brought,
/// scaled for the slices of time that were left out before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Summed<const N: usize> {
    last: [u64; N],
    brought: [u64; N],
    pub(super) sums: [f64; N],
}

impl<const N: usize> Summed<N> {
    pub(super) const NONE: Summed<N> = Summed {
        last: [0; N],
        brought: [0; N],
        sums: [0.0; N],
    };

    fn add(&mut self, words: [u64; N], scale: f64) {
        self.brought = std::array::from_fn(|at| words[at].saturating_sub(self.last[at]));
        self.last = words;
        self.repeat(scale);
    }

    /// Adds what the last reading brought, so many times.
    fn repeat(&mut self, times: f64) {
        for (sum, brought) in self.sums.iter_mut().zip(self.brought) {
            *sum += brought as f64 * times;
        }
    }
}

impl Profiler {
    pub(super) fn attach_counting(&mut self) -> io::Result<()> {
        for name in COUNTING {
            let link = bpf::tracepoint(&mut self.object, name)?.attach();
            self.counting.push((name, link.map_err(detached)?));
        }
        Ok(())
    }

    pub(super) fn detach_counting(&mut self) -> io::Result<()> {
        for (name, link) in self.counting.drain(..) {
            let program = bpf::tracepoint(&mut self.object, name)?;
            program.detach(link).map_err(detached)?;
        }
        Ok(())
    }

    /// To be called every 10 ms or so. Takes in what was counted, ten times a second. Where counting all
    /// calls would cost the processes too much, it counts in slices of time from then on, each of which
    /// stands for the pause before it too.
    pub fn advance(&mut self) -> io::Result<()> {
        let now = clock::monotonic_ns();
        let elapsed = now.saturating_sub(self.slice.began_ns);
        if self.counting.is_empty() {
            if elapsed >= self.slice.pause_ns {
                self.begin_slice()?;
            }
            return Ok(());
        }
        let is_after_pause = self.slice.after_ns > 0;
        let least = if is_after_pause { SLICE_NS } else { READING_NS };
        if elapsed < least {
            return Ok(());
        }
        let calls = self.read_totals()?.calls - self.totals.calls;
        let cost = calls as f64 * self.call_cost.added_ns / elapsed as f64;
        // While programs are attached, which is the end of the pause, calls are slower as well.
        let slice_ns = if is_after_pause {
            elapsed + self.slice.attaching_ns
        } else {
            SLICE_NS
        };
        let pause = slice_ns as f64 * (cost / MOST_COST - 1.0);
        let pause_ns = pause.clamp(0.0, MOST_PAUSE_NS) as u64;
        if is_after_pause || pause_ns > 0 {
            self.detach_counting()?;
        }
        let ended_ns = clock::monotonic_ns();
        self.take(ended_ns.saturating_sub(self.slice.began_ns))?;
        self.slice = Slice {
            began_ns: ended_ns,
            // No rhythm of the program's is kept in step with.
            pause_ns: pause_ns + self.totals.calls % (pause_ns / 2).max(1),
            ..Slice::default()
        };
        if is_after_pause && pause_ns == 0 {
            self.begin_slice()?;
        }
        Ok(())
    }

    /// Counts again after a pause, which lasts until the programs are attached: that takes the kernel
    /// some milliseconds.
    fn begin_slice(&mut self) -> io::Result<()> {
        let pause_began_ns = self.slice.began_ns;
        let attaching_began_ns = clock::monotonic_ns();
        self.set_since(attaching_began_ns)?;
        self.attach_counting()?;
        let began_ns = clock::monotonic_ns();
        self.slice = Slice {
            began_ns,
            after_ns: began_ns.saturating_sub(pause_began_ns),
            attaching_ns: began_ns.saturating_sub(attaching_began_ns),
            pause_ns: 0,
        };
        Ok(())
    }

    pub(super) fn read_totals(&self) -> io::Result<Totals> {
        let totals: PerCpuArray<_, [u64; TOTALS]> =
            PerCpuArray::try_from(self.map_ref("totals")?).map_err(error)?;
        Ok(Totals::from_words(sum(&totals
            .get(&0, 0)
            .map_err(error)?)))
    }

    /// Has the last slice stand for the pause after it as well, in which counting ends.
    pub(super) fn end_in_pause(&mut self) -> io::Result<()> {
        let pause_ns = clock::monotonic_ns().saturating_sub(self.slice.began_ns);
        let times = pause_ns as f64 / self.last_reading.own_ns;
        for (_, summed) in self.ways.values_mut() {
            summed.repeat(times);
        }
        for summed in self.pairs.values_mut() {
            summed.repeat(times);
        }
        self.calls += self.last_reading.calls as f64 * times;
        self.totals = self.read_totals()?;
        Ok(())
    }

    /// Takes in what was counted since the last time, in a slice that was so long.
    pub(super) fn take(&mut self, elapsed: u64) -> io::Result<()> {
        let totals = self.read_totals()?;
        let calls = totals.calls - self.totals.calls;
        // Counting itself slows a program down, which it does not in the pause.
        let slowed = calls as f64 * self.call_cost.added_ns;
        let counted_ns = elapsed.max(1) as f64;
        let own_ns = (counted_ns - slowed).max(counted_ns / MOST_SLOWED);
        let scale = 1.0 + self.slice.after_ns as f64 / own_ns;
        self.last_reading = LastReading { calls, own_ns };
        let ways: HashMap<_, Key, u32> = HashMap::try_from(self.map_ref("ways")?).map_err(error)?;
        let names: Vec<(Key, u32)> = ways.iter().filter_map(Result::ok).collect();
        for (key, number) in names {
            let counted: PerCpuArray<_, [u64; COUNTS]> =
                PerCpuArray::try_from(self.map_ref("counted")?).map_err(error)?;
            let words = sum(&counted.get(&number, 0).map_err(error)?);
            let (_, summed) = self.ways.entry(number).or_insert((key, Summed::NONE));
            summed.add(words, scale);
            if summed.sums[0] > 0.0 && !self.order.contains(&number) {
                self.order.push(number);
            }
        }
        let pairs: HashMap<_, u32, [u64; 2]> =
            HashMap::try_from(self.map_ref("pairs")?).map_err(error)?;
        let sums: Vec<(u32, [u64; 2])> = pairs.iter().filter_map(Result::ok).collect();
        for (both, words) in sums {
            let summed = self.pairs.entry(both).or_insert(Summed::NONE);
            summed.add(words, scale);
        }
        self.calls += calls as f64 * scale;
        self.totals = totals;
        if let Ok(work) = &mut self.work {
            work.take();
        }
        Ok(())
    }
}
