//! Memory of 64-byte cache lines on pages of a chosen size.
//!
//! Transparent huge pages are advice (madvise(2)): a kernel that has none gives small pages without an
//! error. So the pages are verified in `/proc/self/smaps` (proc_pid_smaps(5), `AnonHugePages`). Guard
//! pages on both sides keep the kernel from merging the mapping with others.

use std::io;
use std::ops::{Deref, DerefMut};

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

use crate::mapping::Mapping;

/// 64 bytes, the unit of caches on x86-64 and most Arm processors.
pub type CacheLine = [u64; 8];

/// Bytes of the smallest page of any machine; larger pages are touched more often than needed.
const PAGE_BYTES: usize = 4096;
/// Bytes of a huge page where the kernel does not report them: x86-64, and Arm with pages of 4 KiB.
const USUAL_HUGE_BYTES: usize = 2 << 20;
/// Bytes of the largest huge page of any machine: Arm with pages of 64 KiB.
const MOST_HUGE_BYTES: usize = 512 << 20;
const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const HUGE_SIZE: &str = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
const MAPS: &str = "/proc/self/smaps";

/// The size of the pages that hold the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// The system's choice.
    #[default]
    Any,
    /// Huge pages alone.
    Huge,
    /// Small pages alone.
    Small,
}

/// Zeroed cache lines, all present in memory. A forked child does not have them (MADV_DONTFORK).
#[derive(Debug)]
pub struct CacheLines {
    map: Mapping,
    /// Bytes of the mapping before the first line.
    skipped: usize,
    count: usize,
}

impl CacheLines {
    /// Allocates `count` lines.
    ///
    /// # Errors
    /// `InvalidInput` for none or too many; those of mmap(2). For huge or small pages, that the kernel
    /// has none or gave others, with the bytes that it gave.
    pub fn new(count: usize, pages: Pages) -> io::Result<CacheLines> {
        if pages == Pages::Huge {
            check_switch(&std::fs::read_to_string(ENABLED).unwrap_or_default())?;
        }
        let huge = huge_bytes();
        let bytes = count
            .checked_mul(size_of::<CacheLine>())
            .filter(|bytes| (1..=isize::MAX as usize / 4).contains(bytes))
            .ok_or(io::ErrorKind::InvalidInput)?;
        // The same for all page sizes, so that nothing else differs.
        let span = bytes.next_multiple_of(huge);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let map = Mapping::anonymous(span + 2 * huge, ProtFlags::empty(), flags)?;
        // The first huge page behind a guard page; the mapping has room for two more than the span.
        let skipped = (map.start().addr() + PAGE_BYTES).next_multiple_of(huge) - map.start().addr();
        let lines = CacheLines {
            map,
            skipped,
            count,
        };
        lines.allow(span, pages)?;
        lines.touch(bytes);
        lines.check(bytes, span, pages)?;
        Ok(lines)
    }

    #[inline]
    fn start(&self) -> *mut CacheLine {
        self.map.start().wrapping_add(self.skipped).cast()
    }

    /// Makes the span accessible, and advises the kernel of its pages.
    fn allow(&self, span: usize, pages: Pages) -> io::Result<()> {
        let start = self.start().cast();
        let rights = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: the span lies within this mapping, which is not in use yet.
        unsafe { rustix::mm::mprotect(start, span, rights)? };
        // After a fork, the next write would split a huge page: so a child does not get them.
        // SAFETY: as above.
        unsafe { rustix::mm::madvise(start, span, Advice::LinuxDontFork)? };
        let advice = match pages {
            Pages::Any => return Ok(()),
            Pages::Huge => Advice::LinuxHugepage,
            Pages::Small => Advice::LinuxNoHugepage,
        };
        // SAFETY: as above; neither advice changes what is in memory.
        match unsafe { rustix::mm::madvise(start, span, advice) } {
            // A kernel without huge pages gives small ones.
            Err(rustix::io::Errno::INVAL) if pages == Pages::Small => Ok(()),
            done => Ok(done?),
        }
    }

    /// Brings every page in.
    fn touch(&self, bytes: usize) {
        for offset in (0..bytes).step_by(PAGE_BYTES) {
            // SAFETY: the byte lies within the span, which is writable and has no other user.
            unsafe { self.start().cast::<u8>().add(offset).write_volatile(0) };
        }
    }

    /// Verifies the pages by smaps.
    fn check(&self, bytes: usize, span: usize, pages: Pages) -> io::Result<()> {
        let huge_bytes_given = || {
            let start = self.start().addr();
            let maps = std::fs::read_to_string(MAPS)?;
            huge_within(&maps, start, start + span).ok_or_else(|| {
                io::Error::other(format!("{MAPS} does not list the memory to work on"))
            })
        };
        let wanted = bytes.next_multiple_of(huge_bytes());
        match pages {
            Pages::Any => Ok(()),
            Pages::Huge if huge_bytes_given()? >= wanted => Ok(()),
            Pages::Huge => {
                // Since Linux 6.1 small pages can be collapsed into huge ones; an older kernel
                // leaves them as they are.
                // SAFETY: the span is this value's own, and its content stays as it is.
                unsafe {
                    libc::madvise(self.start().cast(), wanted, libc::MADV_COLLAPSE);
                }
                match huge_bytes_given()? {
                    given if given >= wanted => Ok(()),
                    given => Err(io::Error::new(
                        io::ErrorKind::OutOfMemory,
                        format!(
                            "the kernel gave huge pages for {} of {} KiB: free memory in large pieces is short; as root, `echo 1 > /proc/sys/vm/compact_memory`",
                            given >> 10,
                            wanted >> 10
                        ),
                    )),
                }
            }
            Pages::Small => match huge_bytes_given()? {
                0 => Ok(()),
                given => Err(io::Error::other(format!(
                    "the kernel gave huge pages for {} KiB that were to lie in small ones",
                    given >> 10
                ))),
            },
        }
    }
}

impl Deref for CacheLines {
    type Target = [CacheLine];

    #[inline]
    fn deref(&self) -> &[CacheLine] {
        // SAFETY: so many lines are mapped, aligned and initialised (to zero by the kernel), and
        // written through `&mut self` only.
        unsafe { std::slice::from_raw_parts(self.start(), self.count) }
    }
}

impl DerefMut for CacheLines {
    #[inline]
    fn deref_mut(&mut self) -> &mut [CacheLine] {
        // SAFETY: as above, and `&mut self` makes this the only slice.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.count) }
    }
}

fn huge_bytes() -> usize {
    (std::fs::read_to_string(HUGE_SIZE).ok())
        .and_then(|text| text.trim().parse().ok())
        .filter(|bytes: &usize| {
            bytes.is_power_of_two() && (PAGE_BYTES..=MOST_HUGE_BYTES).contains(bytes)
        })
        .unwrap_or(USUAL_HUGE_BYTES)
}

/// Returns an error unless the switch, a text such as `always [madvise] never`, permits huge pages.
fn check_switch(switch: &str) -> io::Result<()> {
    let unsupported = |why: &str| Err(io::Error::new(io::ErrorKind::Unsupported, why.to_owned()));
    if switch.trim().is_empty() {
        return unsupported(
            "this kernel has no transparent huge pages (CONFIG_TRANSPARENT_HUGEPAGE), or /sys is not to be read",
        );
    }
    if switch.contains("[never]") {
        return unsupported(
            "transparent huge pages are switched off (`never`): as root, `echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`",
        );
    }
    Ok(())
}

/// The bytes in huge pages of the mapping from `start` to `end`; none if smaps has no such mapping.
fn huge_within(maps: &str, start: usize, end: usize) -> Option<usize> {
    let head = format!("{start:08x}-{end:08x} ");
    let mut lines = maps.lines().skip_while(|line| !line.starts_with(&head));
    lines.next()?;
    let kib: usize = lines
        .find_map(|line| line.strip_prefix("AnonHugePages:"))?
        .trim()
        .strip_suffix("kB")?
        .trim()
        .parse()
        .ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_zeroed_and_writable_in_pages_of_each_size() {
        for pages in [Pages::Any, Pages::Small, Pages::Huge] {
            let mut lines = match CacheLines::new(1000, pages) {
                Ok(lines) => lines,
                // Not every machine has free huge pages.
                Err(e) if pages == Pages::Huge => {
                    assert!(e.to_string().contains("huge pages"), "{e}");
                    continue;
                }
                Err(e) => panic!("{pages:?}: {e}"),
            };
            assert_eq!(lines.len(), 1000);
            assert!(lines.iter().all(|line| *line == [0; 8]));
            lines[999][7] = 5;
            assert_eq!(lines[999][7], 5);
            let start = lines.start().addr();
            let span = (1000 * 64_usize).next_multiple_of(huge_bytes());
            let maps = std::fs::read_to_string(MAPS).unwrap();
            let huge = huge_within(&maps, start, start + span).unwrap();
            match pages {
                Pages::Any => {}
                Pages::Small => assert_eq!(huge, 0),
                Pages::Huge => assert_eq!(huge, span),
            }
        }
        for count in [0, usize::MAX, usize::MAX / 64] {
            assert!(CacheLines::new(count, Pages::Any).is_err(), "{count}");
        }
    }

    #[test]
    fn a_switch_that_is_off_and_a_missing_one_have_different_errors() {
        for (switch, expected) in [
            ("always [madvise] never\n", None),
            ("[always] madvise never\n", None),
            ("always madvise [never]\n", Some("echo madvise")),
            ("", Some("no transparent huge pages")),
        ] {
            let error = check_switch(switch).err().map(|e| e.to_string());
            match expected {
                None => assert_eq!(error, None, "{switch}"),
                Some(part) => assert!(error.unwrap().contains(part), "{switch}"),
            }
        }
    }

    #[test]
    fn the_huge_pages_of_one_mapping_are_read() {
        let maps = "7f0000200000-7f0000400000 rw-p 00000000 00:00 0 \nSize: 2048 kB\nAnonHugePages:         0 kB\nVmFlags: rd wr\n7f0000400000-7f0000800000 rw-p 00000000 00:00 0 \nRss: 4096 kB\nAnonHugePages:      2048 kB\n";
        let check = |start, end, expected| assert_eq!(huge_within(maps, start, end), expected);
        check(0x7f00_0020_0000, 0x7f00_0040_0000, Some(0));
        check(0x7f00_0040_0000, 0x7f00_0080_0000, Some(2 << 20));
        check(0x7f00_0040_0000, 0x7f00_0060_0000, None);
        assert_eq!(huge_within("", 0, 1), None);
    }
}
