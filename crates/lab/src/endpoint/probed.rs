//! A mover whose footprint in the caches is measured while it sends, in a trial for evidence alone.
//!
//! A round primes a working set, sends some messages, and probes the set. Then it does so once more,
//! with as much time in which nothing is sent.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use bytecost_engine::{Helper, Move, MoveFile, Offer, Tally};
use bytecost_evidence::WorkingSet;
use bytecost_spec::evidence::{Footprint, LevelProbe, ProbeRound};
use bytecost_spec::host::CpuCache;
use bytecost_sys::clock;

const MOST_ROUNDS: usize = 200;
/// The longest time that messages are moved in one round.
const MOST_MOVING_NS: u64 = 30_000_000;
/// The rounds of a cache level for each round of the next larger one, which takes longer.
const ROUNDS_FOR_NEXT: u64 = 4;

pub(super) type SharedFootprint = Rc<RefCell<Footprint>>;

/// The mover, with the working sets by which its footprint is measured.
pub(super) struct Probed<M: ?Sized> {
    mover: Box<M>,
    sets: Vec<(usize, WorkingSet)>,
    size_bytes: u64,
    turn: u64,
    round: Option<Round>,
    seen: SharedFootprint,
}

struct Round {
    set: usize,
    from: Tally,
    began_ns: u64,
    messages: u64,
}

impl<M: Move + ?Sized> Probed<M> {
    pub(super) fn around(
        mover: Box<M>,
        size_bytes: u64,
        caches: &[CpuCache],
    ) -> (Box<Probed<M>>, SharedFootprint) {
        let (mut levels, mut sets) = (Vec::new(), Vec::new());
        for cache in caches {
            let set = WorkingSet::new(cache.size_bytes);
            levels.push(LevelProbe {
                level: cache.level,
                size_bytes: cache.size_bytes,
                primed_bytes: set.bytes(),
                lines: set.lines(),
                calibration: set.calibration().clone(),
                rounds: Vec::with_capacity(MOST_ROUNDS),
            });
            if set.calibration().refused.is_none() {
                sets.push((levels.len() - 1, set));
            }
        }
        let seen = Rc::new(RefCell::new(Footprint { levels }));
        let probed = Probed {
            mover,
            sets,
            size_bytes: size_bytes.max(1),
            turn: 0,
            round: None,
            seen: Rc::clone(&seen),
        };
        (Box::new(probed), seen)
    }

    /// Primes the next set, in whose round as many bytes are moved as it has, or one message.
    fn begin(&mut self) {
        let turn = self.turn;
        self.turn += 1;
        let set = set_of_turn(turn, self.sets.len());
        let Some((_, lines)) = self.sets.get(set) else {
            return;
        };
        lines.prime();
        self.round = Some(Round {
            set,
            messages: lines.bytes().div_ceil(self.size_bytes),
            from: self.mover.tally(),
            began_ns: clock::monotonic_ns(),
        });
    }

    fn is_over(&self, round: &Round) -> bool {
        let moved = self.mover.tally().messages - round.from.messages;
        moved >= round.messages
            || moved > 0 && clock::monotonic_ns() - round.began_ns > MOST_MOVING_NS
    }

    fn end(&mut self, round: &Round) {
        let Some((level, set)) = self.sets.get(round.set) else {
            return;
        };
        let ticks = set.probe();
        let moved = self.mover.tally().since(&round.from);
        let took_ns = clock::monotonic_ns() - round.began_ns;
        set.prime();
        let until_ns = clock::monotonic_ns() + took_ns.min(MOST_MOVING_NS);
        while clock::monotonic_ns() < until_ns {
            std::hint::spin_loop();
        }
        let idle_ticks = set.probe();
        let rounds = &mut self.seen.borrow_mut().levels[*level].rounds;
        if rounds.len() < MOST_ROUNDS {
            rounds.push(ProbeRound {
                messages: moved.messages,
                bytes: moved.bytes,
                ticks,
                idle_ticks,
            });
        }
    }
}

/// The number of the set that has a turn, of so many: the larger a cache, the more seldom.
fn set_of_turn(turn: u64, sets: usize) -> usize {
    let (mut set, mut turn) = (0, turn);
    while set + 1 < sets && turn % ROUNDS_FOR_NEXT == ROUNDS_FOR_NEXT - 1 {
        turn /= ROUNDS_FOR_NEXT;
        set += 1;
    }
    set
}

impl<M: Move + ?Sized> Move for Probed<M> {
    fn offer(&mut self) -> io::Result<Offer> {
        if self.round.as_ref().is_none_or(|round| self.is_over(round)) {
            if let Some(round) = self.round.take() {
                self.end(&round);
            }
            self.begin();
        }
        self.mover.offer()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.mover.flush()
    }

    fn reap(&mut self, min: u32) -> io::Result<()> {
        self.mover.reap(min)
    }

    fn tally(&self) -> Tally {
        self.mover.tally()
    }

    fn helper(&self) -> Option<Helper> {
        self.mover.helper()
    }

    fn let_go(&mut self) -> io::Result<()> {
        self.mover.let_go()
    }
}

impl<M: MoveFile + ?Sized> MoveFile for Probed<M> {
    fn index(&self) -> usize {
        self.mover.index()
    }

    fn finished(&mut self) -> io::Result<Option<usize>> {
        self.mover.finished()
    }

    fn inspect(&self, index: usize, most: usize, see: &mut dyn FnMut(u64, &[u8])) {
        self.mover.inspect(index, most, see);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lack::{Lack, skipped};
    use std::hint::black_box;

    struct Copying {
        from: Vec<u8>,
        to: Vec<u8>,
        tally: Tally,
    }

    impl Move for Copying {
        fn offer(&mut self) -> io::Result<Offer> {
            self.to.copy_from_slice(black_box(&self.from));
            black_box(&self.to);
            self.tally.messages += 1;
            self.tally.bytes += self.from.len() as u64;
            Ok(Offer::Moved)
        }

        fn tally(&self) -> Tally {
            self.tally
        }
    }

    const L1_BYTES: u64 = 32 << 10;
    const L2_BYTES: u64 = 256 << 10;

    fn caches() -> [CpuCache; 2] {
        [(1, L1_BYTES), (2, L2_BYTES)].map(|(level, size_bytes)| CpuCache {
            level,
            kind: "Unified".to_owned(),
            size_bytes,
            shared_by: vec![0],
        })
    }

    fn rounds_of(bytes: usize, offers: usize) -> Footprint {
        let copying = Copying {
            from: vec![1; bytes],
            to: vec![0; bytes],
            tally: Tally::default(),
        };
        let (mut mover, seen) = Probed::around(Box::new(copying), bytes as u64, &caches());
        for _ in 0..offers {
            mover.offer().unwrap();
        }
        drop(mover);
        seen.take()
    }

    #[test]
    fn the_larger_a_cache_the_more_seldom_is_its_turn() {
        let turns = |sets| (0..64).map(|t| set_of_turn(t, sets)).collect::<Vec<_>>();
        let count = |sets, set| turns(sets).iter().filter(|s| **s == set).count();
        assert_eq!([0, 1, 2].map(|set| count(3, set)), [48, 12, 4]);
        assert_eq!([0, 1].map(|set| count(2, set)), [48, 16]);
        assert_eq!(count(1, 0), 64);
        assert_eq!(set_of_turn(63, 0), 0);
    }

    #[test]
    fn a_round_moves_as_much_as_its_set_has() {
        let seen = rounds_of(4096, 1000);
        for level in &seen.levels {
            let usable = level.calibration.refused.is_none();
            assert_eq!(usable, !level.rounds.is_empty(), "{level:?}");
            // A thread that was off its CPU for long may end a round early.
            let whole = |r: &&ProbeRound| r.bytes == level.primed_bytes;
            let all = level.rounds.len();
            assert!(2 * level.rounds.iter().filter(whole).count() >= all);
            for round in &level.rounds {
                assert_eq!(round.bytes, 4096 * round.messages);
                // Of a near cache several lines are timed together.
                let most = u64::from(level.lines * level.calibration.most_ticks);
                assert!((1..=most).contains(&round.ticks) && round.idle_ticks <= most);
            }
        }
    }

    /// The number that so many tenths of these are below.
    fn quantile(mut all: Vec<u64>, tenths: usize) -> f64 {
        all.sort_unstable();
        all[(all.len() - 1) * tenths / 10] as f64
    }

    /// The share of the lines that were displaced, in one of the quietest rounds.
    fn displaced(level: &LevelProbe, of: fn(&ProbeRound) -> u64) -> f64 {
        let calibration = &level.calibration;
        let [hit, miss] =
            [&calibration.hit_ticks, &calibration.miss_ticks].map(|t| quantile(t.clone(), 5));
        (quantile(level.rounds.iter().map(of).collect(), 1) - hit) / (miss - hit)
    }

    #[test]
    fn a_copy_of_twice_a_cache_displaces_what_is_in_it_and_nothing_displaces_nothing() {
        let bytes = 2 * L2_BYTES as usize;
        // Another guest may take the cache meanwhile, but hardly in all rounds of all attempts.
        let mut last = String::new();
        let until_ns = clock::monotonic_ns() + 30_000_000_000;
        while last.is_empty() || clock::monotonic_ns() < until_ns {
            let seen = rounds_of(bytes, 60);
            let usable = seen.levels.iter().filter(|l| !l.rounds.is_empty());
            let displaced = |l| (displaced(l, |r| r.ticks), displaced(l, |r| r.idle_ticks));
            let shares: Vec<(f64, f64)> = usable.map(displaced).collect();
            if shares.is_empty() {
                return skipped(Lack::Machine, format_args!("{:?}", seen.levels));
            }
            if shares.iter().all(|(moved, idle)| moved - idle > 0.2) {
                return;
            }
            last = format!("{shares:?}");
        }
        panic!("displaced by moving, and by nothing: {last}");
    }
}
