//! The process table: the CPU time that each process has used so far.

use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

use crate::Roots;

/// The longest `stat` that is read, in bytes; real ones have some 300.
const MOST_STAT_BYTES: usize = 4096;
/// The most entries of `/proc` that are read: the kernel's bound of processes (PID_MAX_LIMIT).
const MOST_ENTRIES: usize = 1 << 22;

/// A process by its `stat` file, proc_pid_stat(5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStat<'a> {
    /// Its process id.
    pub pid: u32,
    /// Its name (at most 15 bytes for a program, longer for a kernel thread), in bytes of any kind.
    pub name: &'a [u8],
    /// User CPU time so far, field 14, in units of 1/sysconf(_SC_CLK_TCK) s.
    pub user_ticks: u64,
    /// Kernel CPU time so far, field 15, in the same unit.
    pub kernel_ticks: u64,
}

/// A reader of all processes. Its buffers are reused, so that a second reading allocates little.
#[derive(Debug)]
pub struct ProcessTable {
    proc: PathBuf,
    path: PathBuf,
    text: Vec<u8>,
}

impl ProcessTable {
    /// A reader of the processes below `roots.proc`.
    pub fn new(roots: &Roots) -> ProcessTable {
        ProcessTable {
            proc: roots.proc.clone(),
            path: PathBuf::new(),
            text: Vec::with_capacity(MOST_STAT_BYTES),
        }
    }

    /// Calls `visit` with every process, in no particular order, except those that end meanwhile or
    /// may not be read.
    pub fn each(&mut self, visit: &mut dyn FnMut(ProcessStat<'_>)) {
        let Ok(entries) = fs::read_dir(&self.proc) else {
            return;
        };
        for entry in entries.take(MOST_ENTRIES).flatten() {
            let name = entry.file_name();
            if !name.as_encoded_bytes().iter().all(u8::is_ascii_digit) {
                continue;
            }
            self.path.clone_from(&self.proc);
            self.path.push(name);
            self.path.push("stat");
            self.text.clear();
            let read = File::open(&self.path).and_then(|file| {
                file.take(MOST_STAT_BYTES as u64)
                    .read_to_end(&mut self.text)
            });
            if let (Ok(_), Some(process)) = (read, parse(&self.text)) {
                visit(process);
            }
        }
    }
}

/// A process by the text of its `stat`. The name ends at the last closing bracket, since it may have
/// brackets itself.
fn parse(text: &[u8]) -> Option<ProcessStat<'_>> {
    let open = text.iter().position(|b| *b == b'(')?;
    let close = text.iter().rposition(|b| *b == b')')?;
    let name = text.get(open + 1..close)?;
    let pid = number(text[..open].trim_ascii())?;
    let mut fields = text[close + 1..]
        .split(u8::is_ascii_whitespace)
        .filter(|field| !field.is_empty())
        .skip(14 - 3);
    Some(ProcessStat {
        pid: u32::try_from(pid).ok()?,
        name,
        user_ticks: number(fields.next()?)?,
        kernel_ticks: number(fields.next()?)?,
    })
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::machine;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    fn stat(pid: u32, name: &str, user: u64, kernel: u64) -> String {
        format!("{pid} ({name}) S 1 2 3 4 5 6 7 8 9 10 {user} {kernel} 0 0 20 0 1 0 12345\n")
    }

    #[test]
    fn fields_are_counted_from_the_last_bracket() {
        for name in [
            "sh",
            "tmux: server",
            "(sd-pam)",
            "a) S 9 9 9 9 9 9 9 9 9 9 99 99 (b",
            ")",
            "",
            "kworker/u8:1-events_unbound",
        ] {
            let text = stat(7, name, 14, 15);
            let expected = ProcessStat {
                pid: 7,
                name: name.as_bytes(),
                user_ticks: 14,
                kernel_ticks: 15,
            };
            assert_eq!(parse(text.as_bytes()), Some(expected), "{name}");
        }
    }

    #[test]
    fn a_malformed_text_is_no_process() {
        for text in [
            "",
            "7",
            "7 (sh",
            "7 sh) S",
            ") 7 (sh",
            "x (sh) S 1 2 3 4 5 6 7 8 9 10 1 2",
            "7 (sh) S 1 2 3 4 5 6 7 8 9 10 1",
            "7 (sh) S 1 2 3 4 5 6 7 8 9 10 1 -2",
            "99999999999 (sh) S 1 2 3 4 5 6 7 8 9 10 1 2",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn processes_that_end_meanwhile_are_left_out() {
        let (dir, roots) = machine(&[
            ("proc/10/stat", &stat(10, "one (1)", 1, 2)),
            ("proc/12/stat", ""), // gone between the opening and the reading
            ("proc/sys/stat", &stat(13, "no process", 1, 2)),
            ("proc/14/stat", &stat(14, "two", 3, 4)),
        ]);
        fs::create_dir(dir.path().join("proc/11")).unwrap(); // gone before the opening
        let mut seen = Vec::new();
        ProcessTable::new(&roots).each(&mut |p| seen.push(p.pid));
        seen.sort_unstable();
        assert_eq!(seen, [10, 14]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, rng_seed: RngSeed::Fixed(20_261_121), ..ProptestConfig::default() })]

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
