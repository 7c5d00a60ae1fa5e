//! The duration of very short work, in ticks of the time-stamp counter.

use std::hint::black_box;

/// The result of `work` and its duration in ticks, including the cost of reading the counter. On x86-64
/// these are ticks of the time-stamp counter, and no load before or after overlaps (Intel SDM volume 2,
/// RDTSC and LFENCE; Linux makes LFENCE serializing on AMD as well). Elsewhere they are ns of
/// CLOCK_MONOTONIC, too coarse for near caches.
#[inline]
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let from = ticks();
    let result = black_box(work());
    (result, ticks().wrapping_sub(from))
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn ticks() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: both instructions are in every processor of this architecture and touch no memory.
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn ticks() -> u64 {
    crate::clock::monotonic_ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_gives_its_result_and_takes_time() {
        let mut total = 0;
        for n in 0..1000_u64 {
            let (result, ticks) = timed(|| black_box(n) + 1);
            assert_eq!(result, n + 1);
            total += ticks;
        }
        assert!(total > 0);
    }
}
