//! Prime and probe: finds by timing alone the lines of a cache that other work displaces.
//!
//! A working set of half a cache's size is read until it lies there. Then what is looked at
//! happens, and each line is timed: those that were displaced take longer. Hits and misses are
//! timed in the same run, so that the sum gives their number. Of a near cache several lines are timed
//! together: the tick counter may step by more than lies between two caches (25 ticks on an AMD
//! EPYC VM of 2026).
//!
//! Lines are 128 bytes apart (processors fetch pairs) and in random order: none is fetched ahead.
//!
//! Source of the method: D. A. Osvik, A. Shamir, E. Tromer, Cache Attacks and Countermeasures,
//! CT-RSA 2006, section 3.4; here a program looks at its own cache only.

use std::hint::black_box;

use bytecost_spec::evidence::Calibration;
use bytecost_sys::region::advise_huge_pages;
use bytecost_sys::time_stamp::timed;

/// From one line that is timed to the next, in bytes.
const APART_BYTES: usize = 128;
/// Up to this size a cache is so near that what is displaced from it is hardly later.
const NEAR_BYTES: u64 = 128 << 10;
/// Lines of such a cache that are timed together.
const TOGETHER: usize = 8;
const MOST_TICKS: usize = 1024;
/// The largest cache that is looked at, in bytes: twice its size must be read in a short time.
const MOST_BYTES: u64 = 128 << 20;
const ROUNDS: usize = 7;

#[derive(Clone, Copy, Debug)]
#[repr(align(128))]
struct Line {
    next: u64,
}

/// A working set in a cache.
#[derive(Debug)]
pub struct WorkingSet {
    memory: Vec<Line>,
    first: usize,
    lines: usize,
    together: usize,
    calibration: Calibration,
}

impl WorkingSet {
    /// One for a cache of so many bytes. It takes as long as reading some dozen times that size.
    pub fn new(cache_bytes: u64) -> WorkingSet {
        let bytes = usize::try_from(cache_bytes.min(MOST_BYTES)).unwrap_or(0) / 2;
        let near = cache_bytes <= NEAR_BYTES;
        let lines = (bytes / APART_BYTES).max(TOGETHER);
        let (mut memory, places) = laid_out(lines, near);
        cycle(&mut memory, &places);
        let mut set = WorkingSet {
            memory,
            first: places[0],
            lines,
            together: if near { TOGETHER } else { 1 },
            calibration: Calibration::default(),
        };
        if cache_bytes > MOST_BYTES {
            let most = MOST_BYTES >> 20;
            let why = format!("a cache of more than {most} MiB is not primed");
            set.calibration.refused = Some(why);
            return set;
        }
        let other = vec![1_u8; 4 * bytes];
        let (mut hits, mut misses) = (Vec::new(), Vec::new());
        let look = |primed: &WorkingSet, before: &dyn Fn()| {
            let mut ticks = Ticks::none();
            primed.prime();
            before();
            primed.time(|took| ticks.add(took));
            ticks
        };
        for _ in 0..ROUNDS {
            hits.push(look(&set, &|| ()));
            misses.push(look(&set, &|| displace(&other)));
        }
        set.calibration = calibrated(&hits, &misses);
        set
    }

    /// Lines that are timed.
    pub fn lines(&self) -> u32 {
        self.lines as u32
    }

    /// Bytes of the set.
    pub fn bytes(&self) -> u64 {
        (self.lines * APART_BYTES) as u64
    }

    /// The bound in time between hits and misses.
    pub fn calibration(&self) -> &Calibration {
        &self.calibration
    }

    /// Brings the set into the cache.
    pub fn prime(&self) {
        let mut at = self.first;
        // Once brings it in, once more makes all of it lately used.
        for _ in 0..2 * self.lines {
            at = black_box(self.memory[at].next) as usize;
        }
        black_box(at);
    }

    /// Ticks of all lines together now. They are all in the cache afterwards.
    pub fn probe(&self) -> u64 {
        let most = u64::from(self.calibration.most_ticks);
        let mut ticks = 0;
        self.time(|took| ticks += took.min(most));
        ticks
    }

    fn time(&self, mut see: impl FnMut(u64)) {
        let mut at = self.first;
        for _ in 0..self.lines / self.together {
            let (next, ticks) = match self.together {
                TOGETHER => timed(|| self.after_eight(at)),
                _ => timed(|| self.after(at)),
            };
            see(ticks);
            at = next;
        }
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        self.memory[at].next as usize
    }

    /// The one eight lines on. Written out, since a loop's own work could hide how long loads take.
    #[inline]
    fn after_eight(&self, at: usize) -> usize {
        let four = |from| self.after(self.after(self.after(self.after(from))));
        four(four(at))
    }
}

/// Reads all of a memory that is larger than a cache, twice.
pub fn displace(memory: &[u8]) {
    for _ in 0..2 {
        let mut sum = 0_u8;
        for byte in memory.iter().step_by(64) {
            sum = sum.wrapping_add(*byte);
        }
        black_box(sum);
    }
}

/// Lines that name each other in one round, in an order that looks random (Sattolo, 1986).
fn cycle(memory: &mut [Line], places: &[usize]) {
    let mut order: Vec<usize> = places.to_vec();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for i in (1..order.len()).rev() {
        // Marsaglia's xorshift; a fixed seed, so that each trial walks the same way.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(i, (state % i as u64) as usize);
    }
    for (place, next) in places.iter().zip(order) {
        memory[*place].next = next as u64;
    }
}

/// Memory for so many lines, and their places in it. Those of a near cache lie each in a page of its
/// own, as far apart as to leave no two of them to one set of the cache: a processor that fetches
/// what was used of a page before would hide that they were displaced.
fn laid_out(lines: usize, near: bool) -> (Vec<Line>, Vec<usize>) {
    const OF_PAGE: usize = 4096 / APART_BYTES;
    const OF_HUGE: usize = (2 << 20) / APART_BYTES;
    let (span, room) = if near {
        (lines * OF_PAGE, OF_HUGE.max(lines * OF_PAGE) + OF_HUGE)
    } else {
        (lines, lines)
    };
    let mut memory: Vec<Line> = Vec::with_capacity(room);
    // Else far memory would be slow for its translations as well.
    advise_huge_pages(memory.spare_capacity_mut());
    memory.resize(room, Line { next: 0 });
    let places = if near {
        let first = memory.as_ptr().align_offset(2 << 20).min(room - span);
        (0..lines)
            .map(|i| first + i * OF_PAGE + i % OF_PAGE)
            .collect()
    } else {
        (0..lines).collect()
    };
    (memory, places)
}

/// A histogram of loads by their time in ticks, a place each.
#[derive(Clone, Debug)]
struct Ticks(Vec<u64>);

impl Ticks {
    fn none() -> Ticks {
        Ticks(vec![0; MOST_TICKS])
    }

    fn add(&mut self, ticks: u64) {
        let most = MOST_TICKS as u64 - 1;
        self.0[ticks.min(most) as usize] += 1;
    }

    fn sum(&self, most: usize) -> u64 {
        let ticks = self.0.iter().enumerate();
        ticks.map(|(t, n)| t.min(most) as u64 * n).sum()
    }

    /// Mean and variance of the loads, of which none counts as more than `most`.
    fn spread(&self, most: usize) -> (f64, f64) {
        let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for (ticks, count) in self.0.iter().enumerate() {
            let (ticks, count) = (ticks.min(most) as f64, *count as f64);
            n += count;
            sum += count * ticks;
            squares += count * ticks * ticks;
        }
        let mean = sum / f64::max(n, 1.0);
        (mean, (squares / f64::max(n, 1.0) - mean * mean).max(0.0))
    }
}

/// The bound at which the means of hits and misses are furthest apart in units of their
/// spread. Lower takes misses for hits, higher lets a few loads decide. Refused where most rounds
/// of the one are not below most of the other.
fn calibrated(hits: &[Ticks], misses: &[Ticks]) -> Calibration {
    let (all_hits, all_misses) = (together(hits), together(misses));
    let mut best = (0.0, MOST_TICKS - 1);
    for most in 1..MOST_TICKS {
        let (hit, miss) = (all_hits.spread(most), all_misses.spread(most));
        let apart = (miss.0 - hit.0) / (hit.1 + miss.1 + 1.0).sqrt();
        if apart > best.0 {
            best = (apart, most);
        }
    }
    let sums = |rounds: &[Ticks]| rounds.iter().map(|r| r.sum(best.1)).collect::<Vec<u64>>();
    let (hit_ticks, miss_ticks) = (sums(hits), sums(misses));
    let quarter = |ticks: &[u64], quarters: usize| {
        let mut sorted = ticks.to_vec();
        sorted.sort_unstable();
        let index = sorted.len().saturating_sub(1) * quarters / 4;
        sorted.get(index).copied().unwrap_or(0)
    };
    let apart = quarter(&hit_ticks, 3) < quarter(&miss_ticks, 1);
    let refused = (!apart).then(|| {
        format!(
            "timing cannot separate its hits from its misses: in the middle of {} rounds all lines took {} ticks where they were there and {} where they were not, and the rounds overlap",
            hits.len(),
            quarter(&hit_ticks, 2),
            quarter(&miss_ticks, 2)
        )
    });
    Calibration {
        most_ticks: best.1 as u32,
        hit_ticks,
        miss_ticks,
        refused,
    }
}

fn together(rounds: &[Ticks]) -> Ticks {
    let mut all = Ticks::none();
    for round in rounds {
        for (sum, n) in all.0.iter_mut().zip(&round.0) {
            *sum += n;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(of: &[(u64, u64)]) -> Ticks {
        let mut ticks = Ticks::none();
        for (took, times) in of {
            (0..*times).for_each(|_| ticks.add(*took));
        }
        ticks
    }

    fn rounds(of: &[(u64, u64)]) -> Vec<Ticks> {
        vec![ticks(of); ROUNDS]
    }

    fn displaced(c: &Calibration, round: &Ticks) -> f64 {
        let [hit, miss] = [&c.hit_ticks, &c.miss_ticks].map(|ticks| ticks[ROUNDS / 2] as f64);
        (round.sum(c.most_ticks as usize) as f64 - hit) / (miss - hit)
    }

    #[test]
    fn a_mixture_of_hits_and_misses_gives_its_share() {
        let check =
            |hits: &[(u64, u64)], misses: &[(u64, u64)], seen: &[(u64, u64)], share: f64| {
                let found = calibrated(&rounds(hits), &rounds(misses));
                assert_eq!(found.refused, None);
                let found_share = displaced(&found, &ticks(seen));
                assert!(
                    (found_share - share).abs() < 0.05,
                    "{found_share} for {share}: {found:?}"
                );
            };
        let (hits, misses) = (&[(30, 100)], &[(44, 100)]);
        check(hits, misses, &[(30, 100)], 0.0);
        check(hits, misses, &[(30, 75), (44, 25)], 0.25);
        check(hits, misses, &[(44, 100)], 1.0);
        // A few loads that an interrupt held up do not count for more than displaced.
        check(hits, misses, &[(30, 98), (1000, 2)], 0.02);
        // A counter that goes in steps longer than the caches are apart.
        let (coarse_hits, coarse_misses) = (&[(50, 80), (75, 20)], &[(50, 40), (75, 60)]);
        check(coarse_hits, coarse_misses, &[(50, 60), (75, 40)], 0.5);
        // Lines that are further away than the next cache count as displaced, once.
        let (far_hits, far_misses) = (&[(30, 99), (900, 1)], &[(44, 97), (900, 3)]);
        check(far_hits, far_misses, &[(30, 50), (300, 50)], 0.5);
    }

    #[test]
    fn what_is_alike_is_refused_with_what_was_seen() {
        let same = rounds(&[(30, 60), (40, 40)]);
        let alike = calibrated(&same, &same).refused.unwrap();
        let reason = "timing cannot separate its hits from its misses: in the middle of 7 rounds";
        assert!(alike.starts_with(reason), "{alike}");
        // Two noisy rounds of seven do not make it so.
        let mut hits = rounds(&[(30, 100)]);
        hits[0] = ticks(&[(300, 100)]);
        hits[6] = ticks(&[(80, 100)]);
        assert_eq!(calibrated(&hits, &rounds(&[(60, 100)])).refused, None);
        let huge = WorkingSet::new(MOST_BYTES + 1);
        let why = huge.calibration().refused.as_deref();
        assert_eq!(why, Some("a cache of more than 128 MiB is not primed"));
    }

    #[test]
    fn the_walk_visits_every_line_once() {
        for (lines, near) in [(2, true), (3, false), (128, true), (4096, false)] {
            let (mut memory, places) = laid_out(lines, near);
            cycle(&mut memory, &places);
            let (mut at, mut seen) = (places[0], Vec::new());
            for _ in 0..lines {
                seen.push(at);
                at = memory[at].next as usize;
            }
            assert_eq!(at, places[0]);
            seen.sort_unstable();
            assert_eq!(seen, places);
        }
    }

    #[test]
    fn lines_of_a_near_cache_share_neither_page_nor_set() {
        let (memory, places) = laid_out(128, true);
        let address = |place: &usize| std::ptr::from_ref(&memory[*place]).addr();
        let mut pages: Vec<usize> = places.iter().map(|p| address(p) / 4096).collect();
        pages.dedup();
        assert_eq!(pages.len(), 128);
        // 64 sets of 8 lines: lines 128 bytes apart leave 32 of them.
        for set in 0..64 {
            let own = places.iter().filter(|p| address(p) / 64 % 64 == set);
            assert!([0, 4].contains(&own.count()), "set {set}");
        }
    }

    #[test]
    fn sets_are_half_of_the_cache_in_pairs_of_lines() {
        let set = WorkingSet::new(32 << 10);
        assert_eq!((set.bytes(), set.lines()), (16 << 10, 128));
        let loads = set.calibration();
        let rounds = [&loads.hit_ticks, &loads.miss_ticks].map(Vec::len);
        assert_eq!(rounds, [ROUNDS; 2]);
    }
}
