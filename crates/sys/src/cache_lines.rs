//! Memory to work on: lines of 64 bytes on pages of a kind.
//!
//! Transparent huge pages are advice (madvise(2)): a kernel may have none to give, and says
//! nothing. So what it gave is read in `/proc/self/smaps` (proc_pid_smaps(5), `AnonHugePages`).
//! Each mapping lies between two that nobody can use, so that no other joins it there.

use std::io;
use std::ops::{Deref, DerefMut};

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

use crate::mapping::Mapping;

/// A line.
pub type CacheLine = [u64; 8];

/// Bytes of a page of the smallest kind there is; larger ones are touched more often than needed.
const PAGE_BYTES: usize = 4096;
/// Bytes of a huge page where the kernel does not tell: x86-64, and Arm with pages of 4 KiB.
const USUAL_HUGE_BYTES: usize = 2 << 20;
/// The largest huge page that is taken for one: Arm with pages of 64 KiB has 512 MiB.
const MOST_HUGE_BYTES: usize = 512 << 20;
const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const HUGE_SIZE: &str = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
const MAPS: &str = "/proc/self/smaps";

/// What pages memory is to lie in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// Those that the system gives.
    #[default]
    Any,
    /// Huge ones, all of it.
    Huge,
    /// Small ones, all of it.
    Small,
}

/// Zeroed lines, all present in memory; not there in a process that is forked.
#[derive(Debug)]
pub struct CacheLines {
    map: Mapping,
    /// In bytes.
    skipped: usize,
    count: usize,
}

impl CacheLines {
    /// So many lines. `InvalidInput` for none or too many, else mmap(2); for huge pages, why there
    /// are none or how much the kernel gave.
    pub fn new(count: usize, pages: Pages) -> io::Result<CacheLines> {
        if pages == Pages::Huge {
            can_be_huge(&std::fs::read_to_string(ENABLED).unwrap_or_default())?;
        }
        let huge = huge_bytes();
        let bytes = count
            .checked_mul(size_of::<CacheLine>())
            .filter(|bytes| (1..=isize::MAX as usize / 4).contains(bytes))
            .ok_or(io::ErrorKind::InvalidInput)?;
        // Alike for all kinds of pages, so that they differ in nothing else.
        let span = bytes.next_multiple_of(huge);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let map = Mapping::of_zeroes(span + 2 * huge, ProtFlags::empty(), flags)?;
        // The first huge page behind a page which nobody can use; two are mapped beside the span.
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

    fn allow(&self, span: usize, pages: Pages) -> io::Result<()> {
        let at = self.start().cast();
        let rights = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: the span lies within this mapping, which nobody uses yet.
        unsafe { rustix::mm::mprotect(at, span, rights)? };
        // A fork would have the next write to a huge page break it up. A child gets none of it.
        // SAFETY: as above.
        unsafe { rustix::mm::madvise(at, span, Advice::LinuxDontFork)? };
        let advice = match pages {
            Pages::Any => return Ok(()),
            Pages::Huge => Advice::LinuxHugepage,
            Pages::Small => Advice::LinuxNoHugepage,
        };
        // SAFETY: as above; neither advice changes what is in memory.
        match unsafe { rustix::mm::madvise(at, span, advice) } {
            // A kernel without huge pages gives small ones.
            Err(rustix::io::Errno::INVAL) if pages == Pages::Small => Ok(()),
            done => Ok(done?),
        }
    }

    fn touch(&self, bytes: usize) {
        for at in (0..bytes).step_by(PAGE_BYTES) {
            // SAFETY: the byte lies within the span, which may be written and is nobody else's.
            unsafe { self.start().cast::<u8>().add(at).write_volatile(0) };
        }
    }

    fn check(&self, bytes: usize, span: usize, pages: Pages) -> io::Result<()> {
        let given = || {
            let start = self.start().addr();
            let maps = std::fs::read_to_string(MAPS)?;
            huge_within(&maps, start, start + span).ok_or_else(|| {
                io::Error::other(format!("{MAPS} does not tell of the memory to work on"))
            })
        };
        let wanted = bytes.next_multiple_of(huge_bytes());
        match pages {
            Pages::Any => Ok(()),
            Pages::Huge if given()? >= wanted => Ok(()),
            Pages::Huge => {
                // What lay in small pages may still be brought together, since Linux 6.1; a
                // kernel that cannot do that leaves it as it is.
                // SAFETY: the span is this value's own, and its content stays as it is.
                unsafe {
                    libc::madvise(self.start().cast(), wanted, libc::MADV_COLLAPSE);
                }
                match given()? {
                    enough if enough >= wanted => Ok(()),
                    some => Err(io::Error::new(
                        io::ErrorKind::OutOfMemory,
                        format!(
                            "the kernel gave huge pages for {} of {} KiB: free memory in large pieces is short; as root, `echo 1 > /proc/sys/vm/compact_memory`",
                            some >> 10,
                            wanted >> 10
                        ),
                    )),
                }
            }
            Pages::Small => match given()? {
                0 => Ok(()),
                some => Err(io::Error::other(format!(
                    "the kernel gave huge pages for {} KiB that were to lie in small ones",
                    some >> 10
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
    let told = std::fs::read_to_string(HUGE_SIZE).ok();
    told.and_then(|text| text.trim().parse().ok())
        .filter(|bytes: &usize| {
            bytes.is_power_of_two() && (PAGE_BYTES..=MOST_HUGE_BYTES).contains(bytes)
        })
        .unwrap_or(USUAL_HUGE_BYTES)
}

/// The switch reads `always [madvise] never`.
fn can_be_huge(switch: &str) -> io::Result<()> {
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

/// Bytes in huge pages of the mapping from `start` to `end`; none where there is no such one.
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
    fn lines_are_zeroed_and_can_be_written_whatever_they_lie_in() {
        for pages in [Pages::Any, Pages::Small, Pages::Huge] {
            let mut lines = match CacheLines::new(1000, pages) {
                Ok(lines) => lines,
                // Not every machine has them to give.
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
    fn a_switch_that_is_off_and_one_that_is_not_there_are_told_apart() {
        for (switch, expected) in [
            ("always [madvise] never\n", None),
            ("[always] madvise never\n", None),
            ("always madvise [never]\n", Some("echo madvise")),
            ("", Some("no transparent huge pages")),
        ] {
            let told = can_be_huge(switch).err().map(|e| e.to_string());
            match expected {
                None => assert_eq!(told, None, "{switch}"),
                Some(part) => assert!(told.unwrap().contains(part), "{switch}"),
            }
        }
    }

    #[test]
    fn the_right_mapping_is_read() {
        let maps = "7f0000200000-7f0000400000 rw-p 00000000 00:00 0 \nSize: 2048 kB\nAnonHugePages:         0 kB\nVmFlags: rd wr\n7f0000400000-7f0000800000 rw-p 00000000 00:00 0 \nRss: 4096 kB\nAnonHugePages:      2048 kB\n";
        let check = |start, end, expected| assert_eq!(huge_within(maps, start, end), expected);
        check(0x7f00_0020_0000, 0x7f00_0040_0000, Some(0));
        check(0x7f00_0040_0000, 0x7f00_0080_0000, Some(2 << 20));
        check(0x7f00_0040_0000, 0x7f00_0060_0000, None);
        assert_eq!(huge_within("", 0, 1), None);
    }
}
