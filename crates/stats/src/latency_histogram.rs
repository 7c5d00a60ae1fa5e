//! Latency histograms: from the text of a sample back to counts, whatever the text holds.

use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use crate::tail::Distribution;

/// The longest text that is read: far beyond a full histogram of three digits.
const MOST_TEXT: usize = 1 << 20;
/// HdrHistogram V2, not compressed.
const COOKIE: u32 = 0x1c84_9313;
const HEADER: usize = 40;
/// Four significant digits take 8 MB of counts; a fifth would take 64.
const MOST_DIGITS: u32 = 4;
/// Messages beyond which a count is garbage: a thousand years at one each nanosecond.
const MOST_COUNT: u64 = 1 << 54;

/// Latencies in ns, as [HdrHistogram](https://hdrhistogram.org) counts them: at least one.
#[derive(Clone, Debug)]
pub struct LatencyHistogram(Histogram<u64>);

impl LatencyHistogram {
    /// Reads one from base64 of its V2 form. `None` for text that is too long or no such histogram.
    pub fn decode(text: &str) -> Option<LatencyHistogram> {
        if text.len() > MOST_TEXT {
            return None;
        }
        let bytes = STANDARD.decode(text).ok()?;
        let word = |at: usize| -> Option<u32> {
            Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
        };
        // Looked through first: the library does unchecked arithmetic on what the bytes claim.
        let fits = word(0)? == COOKIE
            && usize::try_from(word(4)?).ok()? == bytes.len().checked_sub(HEADER)?
            && word(12)? <= MOST_DIGITS
            && plausible(&bytes[HEADER..]);
        if !fits {
            return None;
        }
        let read = Deserializer::new().deserialize(&mut bytes.as_slice());
        let histogram: Histogram<u64> = read.ok()?;
        (!histogram.is_empty()).then_some(LatencyHistogram(histogram))
    }

    /// Adds the latencies of another one. `None` where they cannot be counted together.
    pub fn add(&mut self, other: &LatencyHistogram) -> Option<()> {
        self.0.auto(true);
        self.0.add(&other.0).ok()
    }

    /// The latency in µs that this share of all does not exceed, from 0 to 1.
    pub fn quantile_us(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64 / 1e3
    }

    /// The distribution of the latencies in µs; none without one.
    pub fn distribution_us(&self) -> Option<Distribution> {
        let steps = self.0.iter_recorded();
        Distribution::from_counts(
            steps.map(|s| (s.value_iterated_to() as f64 / 1e3, s.count_at_value())),
        )
    }

    /// The share of all latencies that lie in a range of ns, and the share of all time that went
    /// into these; the latter is none where no time went by.
    pub fn shares_within_ns(&self, range: RangeInclusive<u64>) -> (f64, Option<f64>) {
        let (mut within, mut all) = (0.0, 0.0);
        for step in self.0.iter_recorded() {
            let ns = step.value_iterated_to() as f64 * step.count_at_value() as f64;
            all += ns;
            if range.contains(&step.value_iterated_to()) {
                within += ns;
            }
        }
        let count = self.0.count_between(*range.start(), *range.end());
        let time = (all > 0.0).then(|| within / all);
        (count as f64 / self.0.len() as f64, time)
    }
}

/// Returns true if the counts are whole numbers whose sums fit, and the runs of zeros are short.
fn plausible(mut payload: &[u8]) -> bool {
    let (mut counted, mut skipped) = (0_u64, 0_u64);
    while !payload.is_empty() {
        let Some((zigzag, rest)) = varint(payload) else {
            return false;
        };
        payload = rest;
        let size = (zigzag >> 1) + (zigzag & 1);
        let sum = match zigzag & 1 {
            0 => &mut counted,
            _ => &mut skipped,
        };
        *sum = sum.saturating_add(size);
        if *sum > MOST_COUNT {
            return false;
        }
    }
    true
}

/// The first number in LEB128 of at most nine bytes, the last of which is taken as it is.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    for (i, &byte) in bytes.iter().enumerate().take(9) {
        let last = i == 8 || byte & 0x80 == 0;
        let bits = if i == 8 { byte } else { byte & 0x7f };
        value |= u64::from(bits) << (7 * i);
        if last {
            return Some((value, &bytes[i + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::{Serializer, V2Serializer};

    /// A histogram as it is written.
    fn written() -> Vec<u8> {
        let mut h: Histogram<u64> = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        for i in 1..=1000_u64 {
            h.record(i * 997).unwrap();
        }
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&h, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn garbage_is_no_histogram() {
        let bytes = written();
        let decode = LatencyHistogram::decode;
        let check = |garbage: &[u8]| assert!(decode(&STANDARD.encode(garbage)).is_none());
        assert!(decode(&STANDARD.encode(&bytes)).is_some());
        assert!(decode("").is_none());
        assert!(decode("%%%").is_none());
        assert!(decode(&"A".repeat(MOST_TEXT + 4)).is_none());
        check(&bytes[..bytes.len() - 1]);
        check(&bytes[..HEADER]);
        let with = |at: usize, new: &[u8]| {
            let mut changed = bytes.clone();
            changed[at..at + new.len()].copy_from_slice(new);
            changed
        };
        check(&with(0, &[0]));
        check(&with(12, &[0, 0, 0, 200]));
        check(&with(HEADER, &[0xff; 9]));
        check(&with(16, &[0xff; 8]));
    }

    #[test]
    fn any_single_changed_byte_is_survived() {
        let bytes = written();
        for at in 0..HEADER + 40 {
            for new in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = new;
                let read = LatencyHistogram::decode(&STANDARD.encode(&changed));
                assert!(read.is_none_or(|h| !h.0.is_empty()));
            }
        }
    }
}
