//! From a call chain to the kind of work: `functions.txt` and how it is read.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use bytecost_spec::evidence::Kind;

use crate::symbols::plain;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// It is work of this kind.
    Work(Kind),
    /// It works for its caller.
    Caller,
    /// The CPU was idle.
    Idle,
}

/// The finding of one sample of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribution<'a> {
    /// Work of a kind.
    Work {
        /// The kind.
        kind: Kind,
        /// The function that decided it.
        function: &'a str,
        /// True if the sample landed in another function, which works for its caller.
        moved: bool,
    },
    /// An idle CPU.
    Idle,
}

/// The map of functions.
#[derive(Clone, Debug)]
pub struct Map {
    exact: BTreeMap<&'static str, Class>,
    beginnings: BTreeMap<&'static str, Class>,
}

/// The map of this version.
pub static MAP: LazyLock<Map> =
    LazyLock::new(|| match Map::parse(include_str!("../functions.txt")) {
        Ok(map) => map,
        // A test reads it, so that this cannot be met.
        Err(why) => unreachable!("functions.txt: {why}"),
    });

impl Map {
    /// Reads the form that `functions.txt` describes.
    fn parse(text: &'static str) -> Result<Map, String> {
        let mut map = Map {
            exact: BTreeMap::new(),
            beginnings: BTreeMap::new(),
        };
        let mut class = None;
        for (at, raw) in text.lines().enumerate() {
            let without_comment = raw.split('#').next().unwrap_or_default();
            let line = without_comment.trim();
            let error = |what: String| format!("line {}: {what}", at + 1);
            if let Some(section) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                class = Some(match section {
                    "idle" => Class::Idle,
                    "caller" | "enables" => Class::Caller,
                    name => Class::Work(
                        Kind::named(name)
                            .ok_or_else(|| error(format!("section `{name}` is no kind")))?,
                    ),
                });
                continue;
            }
            for pattern in line.split_ascii_whitespace() {
                let class =
                    class.ok_or_else(|| error(format!("`{pattern}` stands in no section")))?;
                let before = match pattern.strip_suffix('*') {
                    Some(beginning) => map.beginnings.insert(beginning, class),
                    None => map.exact.insert(pattern, class),
                };
                if before.is_some_and(|before| before != class) {
                    return Err(error(format!("`{pattern}` stands in two sections")));
                }
            }
        }
        Ok(map)
    }

    fn class(&self, function: &str) -> Option<Class> {
        let function = plain(function);
        if let Some(class) = self.exact.get(function) {
            return Some(*class);
        }
        let ends = (1..=function.len()).rev();
        ends.filter_map(|end| function.get(..end))
            .find_map(|beginning| self.beginnings.get(beginning).copied())
    }

    /// The work that a chain of functions in the kernel shows, the innermost first.
    pub fn attribute<'a>(&self, chain: impl IntoIterator<Item = &'a str>) -> Attribution<'a> {
        let mut first = None;
        for function in chain {
            let moved = first.is_some();
            first.get_or_insert(function);
            let kind = match self.class(function) {
                Some(Class::Caller) => continue,
                Some(Class::Idle) => return Attribution::Idle,
                Some(Class::Work(kind)) => kind,
                None => Kind::Unattributed,
            };
            return Attribution::Work {
                kind,
                function: plain(function),
                moved,
            };
        }
        Attribution::Work {
            kind: first.map_or(Kind::User, |_| Kind::Unattributed),
            function: first.map_or("", plain),
            moved: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytecost_spec::evidence::KINDS;

    #[test]
    fn the_map_can_be_read_and_has_every_kind() {
        let map = Map::parse(include_str!("../functions.txt")).unwrap();
        let has = |kind| {
            let mut classes = map.exact.values().chain(map.beginnings.values());
            classes.any(|c| *c == Class::Work(kind))
        };
        for row in KINDS {
            let is_of_functions = !matches!(row.kind, Kind::User | Kind::Unattributed);
            assert_eq!(has(row.kind), is_of_functions, "{}", row.name);
        }
    }

    #[test]
    fn a_map_that_contradicts_itself_is_refused() {
        let check = |text, word| {
            let why = Map::parse(text).unwrap_err();
            assert!(why.contains(word), "{why}");
        };
        check("a", "no section");
        check("[nothing]\na", "no kind");
        check("[skb]\na b\n[memory]\nb", "`b` stands in two sections");
        check("[skb]\na*\n[memory]\na*", "two sections");
        assert!(Map::parse("# all\n[skb] # these\na a* b\n[memory]\nab*").is_ok());
    }

    #[test]
    fn a_function_of_the_map_decides_and_what_it_does_not_know_is_not_guessed() {
        // The function at that place of a chain, the innermost first, decides the kind.
        let check = |chain: &str, kind, at: usize| {
            let function = chain.split_whitespace().nth(at).map_or("", plain);
            let moved = at > 0;
            let expected = Attribution::Work {
                kind,
                function,
                moved,
            };
            let found = MAP.attribute(chain.split_whitespace());
            assert_eq!(found, expected, "{chain}");
        };
        check("", Kind::User, 0);
        check("rep_movs_alternative _copy_from_iter", Kind::DataCopy, 0);
        check("tcp_sendmsg_locked.cold", Kind::Protocol, 0);
        check("skb_copy_ubufs", Kind::DataCopy, 0);
        check("skb_release_data", Kind::Skb, 0);
        check("folio_put_testzero", Kind::Memory, 0);
        check("filemap_get_read_batch", Kind::Files, 0);
        check("sock_def_readable", Kind::Socket, 0);
        check("__x64_sys_sendto", Kind::Entry, 0);
        let waking = "_raw_spin_unlock_irqrestore __wake_up_sync_key sock_def_readable";
        check(waking, Kind::Scheduling, 1);
        let queued = "handle_softirqs __local_bh_enable_ip __dev_queue_xmit ip_finish_output2";
        check(queued, Kind::Device, 2);
        check("memset", Kind::Unattributed, 0);
        check("zzz_unheard_of tcp_sendmsg", Kind::Unattributed, 0);
        check("memset zzz_unheard_of", Kind::Unattributed, 1);
    }

    #[test]
    fn an_idle_cpu_is_idle_and_an_interrupt_of_it_is_work() {
        let idle = ["pv_native_safe_halt", "default_idle", "do_idle"];
        assert_eq!(MAP.attribute(idle), Attribution::Idle);
        let receiving = ["tcp_v4_rcv", "ip_local_deliver_finish", "do_idle"];
        let expected = Attribution::Work {
            kind: Kind::Protocol,
            function: "tcp_v4_rcv",
            moved: false,
        };
        assert_eq!(MAP.attribute(receiving), expected);
    }
}
