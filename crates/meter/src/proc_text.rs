//! Parsers of the kernel's text files that do not allocate. They give none for a text of another form.

use std::fs::File;
use std::os::unix::fs::FileExt;

use bytecost_sys::process::ThreadUsage;

/// The first bytes of a file of /proc or /sys, read again into `buffer`; none if that fails.
pub(crate) fn reread<'a>(file: &File, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let length = file.read_at(buffer, 0).ok()?;
    buffer.get(..length)
}

/// A file that holds one number and a line end: cpuacct.usage.
pub(crate) fn lone_number(text: &[u8]) -> Option<u64> {
    number(text.strip_suffix(b"\n")?)
}

/// The value of `key` in a file of lines such as `key   :   12`: /proc/thread-self/sched.
pub(crate) fn value(text: &[u8], key: &str) -> Option<u64> {
    number(after_key(text, key)?)
}

/// The bytes of a line such as `key:   12 kB`: /proc/PID/status.
pub(crate) fn bytes(text: &[u8], key: &str) -> Option<u64> {
    let kib = after_key(text, key)?.strip_suffix(b" kB")?;
    number(kib)?.checked_mul(1024)
}

/// The text after the key and the colon of its line.
fn after_key<'t>(text: &'t [u8], key: &str) -> Option<&'t [u8]> {
    let value = whole_lines(text).find_map(|line| {
        let rest = line.strip_prefix(key.as_bytes())?.trim_ascii_start();
        rest.strip_prefix(b":")
    })?;
    Some(value.trim_ascii())
}

/// The fields of /proc/PID/stat, proc_pid_stat(5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatFields<'t> {
    /// The name of the process, between the first opening and the last closing bracket. It may have
    /// brackets and blanks itself.
    pub(crate) name: &'t [u8],
    after_name: &'t [u8],
}

impl<'t> StatFields<'t> {
    pub(crate) fn parse(text: &'t [u8]) -> Option<StatFields<'t>> {
        let open = text.iter().position(|b| *b == b'(')?;
        let close = text.iter().rposition(|b| *b == b')')?;
        Some(StatFields {
            name: text.get(open + 1..close)?,
            after_name: &text[close + 1..],
        })
    }

    /// A field after the name, by its number in proc_pid_stat(5), from 3.
    pub(crate) fn field(self, number: usize) -> Option<u64> {
        nth_number(self.after_name, number.checked_sub(3)?)
    }
}

/// CPU times and page faults of a process from its `stat`, whose unit of time is `unit_ns`.
pub(crate) fn usage(stat: &[u8], unit_ns: u64) -> Option<ThreadUsage> {
    let stat = StatFields::parse(stat)?;
    Some(ThreadUsage {
        user_ns: stat.field(14)?.saturating_mul(unit_ns),
        system_ns: stat.field(15)?.saturating_mul(unit_ns),
        faults_minor: stat.field(10)?,
        faults_major: stat.field(12)?,
        ..ThreadUsage::default()
    })
}

/// The voluntary and involuntary context switches of a thread, from its `status`.
pub(crate) fn switches(status: &[u8]) -> Option<[u64; 2]> {
    let voluntary = value(status, "voluntary_ctxt_switches")?;
    Some([voluntary, value(status, "nonvoluntary_ctxt_switches")?])
}

/// The value under `name` of two equally long lines of names and values: /proc/net/snmp.
pub(crate) fn in_columns(text: &[u8], group: &str, name: &str) -> Option<u64> {
    let mut lines = whole_lines(text)
        .filter_map(|line| line.strip_prefix(group.as_bytes())?.strip_prefix(b":"));
    let (names, values) = (lines.next()?, lines.next()?);
    let column = words(names).position(|word| word == name.as_bytes())?;
    if words(names).count() != words(values).count() {
        return None;
    }
    number(words(values).nth(column)?)
}

fn nth_number(line: &[u8], index: usize) -> Option<u64> {
    number(words(line).nth(index)?)
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace)
        .filter(|w| !w.is_empty())
}

/// The time for which a thread was ready and waited for a CPU, from its `schedstat`. None if it has not
/// run at all, as without CONFIG_SCHED_INFO.
pub(crate) fn run_queue_ns(line: &[u8]) -> Option<u64> {
    nth_number(line, 0).filter(|ran_ns| *ran_ns > 0)?;
    nth_number(line, 1)
}

/// The sum of irq and softirq of one CPU, from /proc/stat, in the file's unit.
pub(crate) fn interrupts(text: &[u8], cpu: u32) -> Option<u64> {
    let line = whole_lines(text).find(|line| {
        let name = words(line).next().and_then(|w| w.strip_prefix(b"cpu"));
        name.and_then(number) == Some(u64::from(cpu))
    })?;
    nth_number(line, 6)?.checked_add(nth_number(line, 7)?)
}

/// The number of CPUs in a list such as `0-3,6`, which ends with a line end.
pub(crate) fn cpus_in_list(text: &[u8]) -> Option<u32> {
    let mut cpus = 0_u32;
    for range in text.strip_suffix(b"\n")?.split(|b| *b == b',') {
        let mut ends = range.splitn(2, |b| *b == b'-');
        let first = u32::try_from(number(ends.next()?)?).ok()?;
        let last = match ends.next() {
            Some(last) => u32::try_from(number(last)?).ok()?,
            None => first,
        };
        let more = last.checked_sub(first)?.checked_add(1)?;
        cpus = cpus.checked_add(more)?;
    }
    Some(cpus)
}

/// The first line of /proc/stat: sums over all CPUs, in the file's unit, proc_stat(5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatLine {
    /// Idle time, including waiting for I/O.
    pub(crate) idle: u64,
    pub(crate) softirq: u64,
    pub(crate) steal: u64,
}

impl StatLine {
    /// Parses a complete line with the eight fields that Linux has had since 2.6.11.
    pub(crate) fn parse(text: &[u8]) -> Option<StatLine> {
        let line = whole_lines(text).next()?.strip_prefix(b"cpu ")?;
        let mut fields = [0_u64; 8];
        let mut words = words(line);
        for field in &mut fields {
            *field = number(words.next()?)?;
        }
        let [_user, _nice, _system, idle, iowait, _irq, softirq, steal] = fields;
        Some(StatLine {
            idle: idle.checked_add(iowait)?,
            softirq,
            steal,
        })
    }
}

/// The complete lines; a last one without a line end may be cut off.
fn whole_lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|b| *b == b'\n')
        .filter_map(|line| line.strip_suffix(b"\n"))
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |n, digit| {
        let digit = char::from(*digit).to_digit(10)?;
        n.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    #[test]
    fn a_number_is_read_completely_or_not_at_all() {
        for (text, expected) in [
            ("147432753800\n", Some(147_432_753_800)),
            ("0\n", Some(0)),
            ("18446744073709551615\n", Some(u64::MAX)),
            ("18446744073709551616\n", None),
            ("147432753800", None),
            ("-1\n", None),
            ("+1\n", None),
            ("1 2\n", None),
            ("\n", None),
            ("", None),
        ] {
            assert_eq!(lone_number(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn a_value_is_found_by_its_whole_key() {
        let sched = "cat (7318, #threads: 1)\n\
            ---------------------------------\n\
            se.sum_exec_runtime                          :             0.198984\n\
            se.nr_migrations                             :                    1\n\
            nr_switches                                  :                   23\n\
            cut :  4";
        for (key, expected) in [
            ("se.nr_migrations", Some(1)),
            ("nr_switches", Some(23)),
            ("nr_switch", None),
            ("se.sum_exec_runtime", None),
            ("cut", None),
            ("absent", None),
        ] {
            assert_eq!(value(sched.as_bytes(), key), expected, "{key}");
        }
    }

    #[test]
    fn a_name_with_brackets_does_not_move_the_fields() {
        let text = b"12 (a) b 1) S 1 2 3 4 -1 6 71 8 91 10 1101 1201 130 140 20\n";
        let stat = StatFields::parse(text).unwrap();
        assert_eq!(stat.name, b"a) b 1");
        assert_eq!([4, 16, 17].map(|n| stat.field(n)), [1, 130, 140].map(Some));
        let expected = ThreadUsage {
            faults_minor: 71,
            faults_major: 91,
            user_ns: 11_010,
            system_ns: 12_010,
            ..ThreadUsage::default()
        };
        assert_eq!(usage(text, 10), Some(expected));
        for cut in [
            "12 (a S 1 2 3 4 5 6 7 8 9 10 11 12 13\n",
            "12 (a) S 1 2 3 4 5 6 7 8 9 10\n",
            "1 (x) S 1",
            "",
        ] {
            assert_eq!(usage(cut.as_bytes(), 10), None, "{cut}");
        }
    }

    #[test]
    fn columns_are_found_by_group_and_whole_name() {
        let snmp = "Ip: Forwarding DefaultTTL\nIp: 2 64\nTcp: MaxConn InSegs OutSegs\nTcp: -1 34 12\n\
            Udp: InDatagrams OutDatagrams\nUdp: 1\nCut: A\nCut: 1";
        for (group, name, expected) in [
            ("Tcp", "InSegs", Some(34)),
            ("Tcp", "OutSegs", Some(12)),
            ("Ip", "Forwarding", Some(2)),
            ("Tcp", "MaxConn", None),
            ("Tcp", "Segs", None),
            ("Ip", "InSegs", None),
            ("Udp", "InDatagrams", None),
            ("Cut", "A", None),
            ("UdpLite", "InDatagrams", None),
        ] {
            let found = in_columns(snmp.as_bytes(), group, name);
            assert_eq!(found, expected, "{group} {name}");
        }
    }

    #[test]
    fn cpu_lists_are_counted() {
        for (list, expected) in [
            ("0-1\n", Some(2)),
            ("0\n", Some(1)),
            ("0-3,6,8-9\n", Some(7)),
            ("3-1\n", None),
            ("0-4294967295,0\n", None),
            ("0-1", None),
            ("0-,1\n", None),
            ("\n", None),
            ("a\n", None),
        ] {
            assert_eq!(cpus_in_list(list.as_bytes()), expected, "{list:?}");
        }
    }

    #[test]
    fn the_first_line_of_proc_stat() {
        let whole = "cpu  8546 0 5377 280452 1490 0 166 1380 0 0\ncpu0 1";
        for (text, expected) in [
            (whole, Some([281_942, 166, 1380])),
            ("cpu 1 2 3 4 5 6 7 8\n", Some([9, 7, 8])),
            ("cpu  1 2 3 4 5 6 7\n", None),
            ("cpu  1 2 3 4 5 6 7 8", None),
            ("cpu0 1 2 3 4 5 6 7 8\n", None),
            ("cpu  1 2 3 x 5 6 7 8\n", None),
            ("cpu  1 2 3 18446744073709551615 1 6 7 8\n", None),
            ("\n", None),
            ("", None),
        ] {
            let found = StatLine::parse(text.as_bytes()).map(|s| [s.idle, s.softirq, s.steal]);
            assert_eq!(found, expected, "{text:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, rng_seed: RngSeed::Fixed(20_261_121), ..ProptestConfig::default() })]

        #[test]
        fn no_bytes_make_them_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = lone_number(&bytes);
            let _ = value(&bytes, "se.nr_migrations");
            let _ = cpus_in_list(&bytes);
            let _ = in_columns(&bytes, "", "a");
            let _ = StatLine::parse(&bytes);
        }

        #[test]
        fn a_written_number_is_read(n in any::<u64>(), pad in 0_usize..40) {
            prop_assert_eq!(lone_number(format!("{n}\n").as_bytes()), Some(n));
            let text = format!("other : 1\nkey{}:{:>2$}\n", " ".repeat(pad), n, pad);
            prop_assert_eq!(value(text.as_bytes(), "key"), Some(n));
        }
    }
}
