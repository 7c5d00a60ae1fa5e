//! Copies by what the kernel's functions that copy returned.

use bytecost_spec::Reading;
use bytecost_spec::evidence::CopyPlace;

/// Words of `struct sums` in `functions.bpf.c`.
pub(super) const WORDS: usize = 11;

pub(super) fn copied(words: &[u64; WORDS], leg: CopyPlace) -> Reading {
    let [
        _,
        _,
        _,
        _,
        sent,
        pinned,
        spliced,
        delivered,
        read,
        from_file,
        to_file,
    ] = *words;
    Reading::Measured(match leg {
        // Bytes that were sent without pinning user pages and without splicing were copied.
        CopyPlace::IntoKernel => sent.saturating_sub(pinned).saturating_sub(spliced),
        CopyPlace::Delivery => delivered,
        CopyPlace::ToReader => read,
        CopyPlace::FromFile => from_file,
        CopyPlace::IntoFile => to_file,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pinned_or_spliced_is_not_copied() {
        let check = |sent, pinned, spliced, expected| {
            let words = [80, 1, 1, 1, sent, pinned, spliced, 0, 0, 0, 0];
            let found = copied(&words, CopyPlace::IntoKernel);
            assert_eq!(found, Reading::Measured(expected));
        };
        check(100, 0, 0, 100);
        check(100, 100, 0, 0);
        check(100, 0, 100, 0);
        check(100, 40, 50, 10);
        check(100, 120, 0, 0);
    }
}
