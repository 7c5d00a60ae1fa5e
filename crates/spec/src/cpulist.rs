//! Lists of CPUs and nodes: as the kernel writes them, `0-3,8,10-11` (cpuset(7), "List format"), and as
//! a study does, where the order counts.

use itertools::Itertools as _;

/// One more than the largest number of a CPU or node in a list; Linux has at most 8,192 CPUs.
pub const MOST: u32 = 65_536;
/// One more than the largest number of a CPU in a study; Linux has at most 8,192.
pub const MOST_CPUS: u32 = 8192;
/// The most CPUs of a list in a study: two for each of the most flows.
const MOST_LISTED: usize = 512;

/// Parses numbers and ranges into ascending numbers without repetition, below [`MOST`]; the error
/// names the wrong part. An empty text is an empty list.
pub fn parse(text: &str) -> Result<Vec<u32>, String> {
    let mut set = Vec::new();
    for part in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if first > last {
            return Err(format!("`{part}` runs backwards"));
        }
        // Overlapping ranges cannot make the list longer than all numbers twice.
        if set.len() + (last - first) as usize >= 2 * MOST as usize {
            return Err("too many CPUs".to_owned());
        }
        set.extend(first..=last);
    }
    set.sort_unstable();
    set.dedup();
    Ok(set)
}

/// Writes ascending numbers as the kernel does: `[0, 1, 2, 8]` becomes `0-2,8`.
pub fn write(numbers: &[u32]) -> String {
    let ranges = numbers.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let mut parts = ranges.map(|range| match range {
        [] => String::new(),
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
    });
    parts.join(",")
}

/// Parses numbers and ranges, in their order and with repetition: `0,2` or `0-3,8`; none for other text
/// and for a list longer than [`MOST_LISTED`].
pub(crate) fn parse_in_order(text: &str) -> Option<Vec<u32>> {
    let number = |digits: &str| digits.trim().parse().ok().filter(|n: &u32| *n < MOST_CPUS);
    let mut cpus: Vec<u32> = Vec::new();
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if first > last {
            return None;
        }
        // A CPU that is named twice in `A:B` lists is two flows on it, in their order.
        cpus.extend((first..=last).take(MOST_LISTED + 1));
        if cpus.len() > MOST_LISTED {
            return None;
        }
    }
    Some(cpus)
}

/// Writes numbers in their order: `[2, 0, 1]` becomes `2,0,1`.
pub(crate) fn write_in_order(cpus: &[u32]) -> String {
    cpus.iter().join(",")
}

fn number(text: &str) -> Result<u32, String> {
    match text.trim().parse() {
        Ok(n) if n < MOST => Ok(n),
        _ => Err(format!("`{text}` is no CPU")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_parsed_as_it_is_written() {
        for (text, list) in [
            ("", &[][..]),
            ("0", &[0]),
            ("0-3", &[0, 1, 2, 3]),
            ("0-1,8,10-11", &[0, 1, 8, 10, 11]),
            ("65535", &[65_535]),
        ] {
            assert_eq!(parse(text).as_deref(), Ok(list));
            assert_eq!(write(list), text);
        }
        assert_eq!(parse(" 3,1-2,2\n").as_deref(), Ok(&[1, 2, 3][..]));
    }

    #[test]
    fn a_text_that_is_no_list_is_an_error() {
        let bad = "x|-1|1-|3-1|0,,1|,|65536|0-4294967295|0-3:1/2|1.5";
        for text in bad.split('|') {
            assert!(parse(text).is_err(), "{text}");
        }
        let long = vec!["0-65535"; 1000].join(",");
        assert!(parse(&long).is_err());
    }
}
