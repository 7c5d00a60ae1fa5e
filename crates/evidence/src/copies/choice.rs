//! The choice of the means that count copies at each place, from the hooks that this kernel allows.

use std::collections::BTreeMap;

use bytecost_spec::evidence::{CopyMeans, CopyPlace};

use CopyPlace::{Delivery, FromFile, IntoFile, IntoKernel, ToReader};
use Need::{IfThere, InPlaceOf, Must, OfSome};

/// A program and what it is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The means that it belongs to.
    pub means: CopyMeans,
    /// Its name in the object.
    pub program: &'static str,
    /// The function, or the tracepoint.
    pub target: &'static str,
    /// The places whose copies it counts.
    pub legs: &'static [CopyPlace],
    /// The need of it for these places.
    pub need: Need,
}

/// The need of a hook for the places that it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Without it they are not counted.
    Must,
    /// Without it they are counted where the kernel has no such function: then nothing goes through it.
    IfThere,
    /// Without it they are counted except for some file systems, which a known transfer finds ([`super::Copies`]).
    OfSome,
    /// It stands in where that other program's function cannot be hooked.
    InPlaceOf(&'static str),
}

const fn function(
    program: &'static str,
    target: &'static str,
    legs: &'static [CopyPlace],
    need: Need,
) -> Hook {
    Hook {
        means: CopyMeans::Functions,
        program,
        target,
        legs,
        need,
    }
}

const fn tracepoint(
    program: &'static str,
    target: &'static str,
    legs: &'static [CopyPlace],
) -> Hook {
    Hook {
        means: CopyMeans::Tracepoints,
        ..function(program, target, legs, Must)
    }
}

/// Each place by itself, as most hooks see one.
const SENT: &[CopyPlace] = &[IntoKernel];
const DELIVERED: &[CopyPlace] = &[Delivery];
const READ: &[CopyPlace] = &[ToReader];
const FROM: &[CopyPlace] = &[FromFile];
const INTO: &[CopyPlace] = &[IntoFile];

/// Every hook, those of the stronger means first.
pub const HOOKS: &[Hook] = &[
    function("sent", "tcp_sendmsg", SENT, Must),
    function("pinned", "skb_zerocopy_iter_stream", SENT, Must),
    // Before Linux 6.5 pages did not come through tcp_sendmsg.
    function("spliced", "skb_splice_from_iter", SENT, IfThere),
    function("sent_unix", "skb_copy_datagram_from_iter", SENT, IfThere),
    function("delivered", "skb_copy_ubufs", DELIVERED, Must),
    function("read_packet", "skb_copy_datagram_iter", READ, Must),
    function(
        "read_piece",
        "simple_copy_to_iter",
        READ,
        InPlaceOf("read_packet"),
    ),
    function("from_file", "filemap_read", FROM, Must),
    function("from_memory_file", "shmem_file_read_iter", FROM, IfThere),
    // Before Linux 6.5 the two above were also called to take pages over.
    function("from_file_taken", "generic_file_splice_read", FROM, IfThere),
    function("from_file_spliced", "copy_splice_read", FROM, IfThere),
    function("to_file", "generic_perform_write", INTO, Must),
    function("to_file_iomap", "iomap_file_buffered_write", INTO, IfThere),
    function("to_file_btrfs", "btrfs_buffered_write", INTO, OfSome),
    function("to_file_fuse", "fuse_perform_write", INTO, OfSome),
    function(
        "to_file_fuse_piece",
        "fuse_fill_write_pages",
        INTO,
        InPlaceOf("to_file_fuse"),
    ),
    function("to_file_netfs", "netfs_perform_write", INTO, OfSome),
    tracepoint("queued", "net_dev_queue", &[IntoKernel, Delivery]),
    tracepoint("consumed", "consume_skb", &[IntoKernel, Delivery]),
    tracepoint("arrived", "tcp_probe", DELIVERED),
    tracepoint("copied", "skb_copy_datagram_iovec", READ),
    tracepoint("returned", "sys_exit", &[FromFile, IntoFile]),
    tracepoint("ringed", "io_uring_complete", &[FromFile, IntoFile]),
];

/// The outcome of attaching a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// It is attached.
    Attached,
    /// The kernel has nothing of that name.
    NotThere,
    /// It is there, and cannot be hooked: why.
    Refused(String),
}

/// The hooks in use, and the means of each place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookChoice {
    /// Each place with the strongest means that there is, or why there is none.
    pub legs: Vec<(CopyPlace, Result<CopyMeans, String>)>,
    /// The hooks that must stay attached.
    pub hooks: Vec<&'static Hook>,
    /// Functions and tracepoints that cannot be hooked in this kernel, a sentence each.
    pub gaps: Vec<String>,
}

impl HookChoice {
    /// The means that counts a place; none where nothing does.
    pub fn means(&self, leg: CopyPlace) -> Option<CopyMeans> {
        let found = self.legs.iter().find(|(l, _)| *l == leg);
        found.and_then(|(_, means)| means.as_ref().ok().copied())
    }

    /// The hooks in use that count a place by these means.
    pub fn hooks_of(
        &self,
        leg: CopyPlace,
        means: CopyMeans,
    ) -> impl Iterator<Item = &'static Hook> {
        let is_of = move |h: &&'static Hook| h.means == means && h.legs.contains(&leg);
        self.hooks.iter().copied().filter(is_of)
    }

    /// The reason why no place can be counted; none where one can.
    pub fn refused(&self) -> Option<&str> {
        if self.legs.iter().any(|(_, means)| means.is_ok()) {
            return None;
        }
        let (_, first) = self.legs.first()?;
        first.as_ref().err().map(String::as_str)
    }
}

/// For each place the strongest means that were `wanted`, by what became of each hook, by program.
pub fn choose(tried: &BTreeMap<&str, Tried>, wanted: &[CopyMeans]) -> HookChoice {
    let mut legs = Vec::with_capacity(CopyPlace::ALL.len());
    let mut hooks: Vec<&'static Hook> = Vec::new();
    for &leg in CopyPlace::ALL {
        let mut found = Err("no means was asked for".to_owned());
        for &means in wanted {
            if found.is_err() {
                found = check(tried, leg, means).map(|()| means);
            }
        }
        if let Ok(means) = found {
            let used = hooks_of(leg, means).filter(|h| is_used(tried, h));
            hooks.extend(used.filter(|h| !hooks.contains(h)).collect::<Vec<_>>());
        }
        legs.push((leg, found));
    }
    HookChoice {
        legs,
        hooks,
        gaps: gaps(tried, wanted),
    }
}

fn hooks_of(leg: CopyPlace, means: CopyMeans) -> impl Iterator<Item = &'static Hook> {
    HOOKS
        .iter()
        .filter(move |h| h.means == means && h.legs.contains(&leg))
}

fn is_attached(tried: &BTreeMap<&str, Tried>, program: &str) -> bool {
    tried.get(program) == Some(&Tried::Attached)
}

/// Returns true if a hook is attached and counts: of two that count the same bytes only one does.
fn is_used(tried: &BTreeMap<&str, Tried>, hook: &Hook) -> bool {
    let spare = matches!(hook.need, InPlaceOf(other) if is_attached(tried, other));
    is_attached(tried, hook.program) && !spare
}

/// Succeeds if a means counts a place; else gives the reason why it does not.
fn check(tried: &BTreeMap<&str, Tried>, leg: CopyPlace, means: CopyMeans) -> Result<(), String> {
    let is_missed = |hook: &&Hook| {
        let stands_in = |h: &Hook| h.need == InPlaceOf(hook.program);
        match tried.get(hook.program) {
            Some(Tried::Attached) => false,
            _ if hooks_of(leg, means).any(|h| stands_in(h) && is_attached(tried, h.program)) => {
                false
            }
            Some(Tried::NotThere) => hook.need == Must,
            _ => !matches!(hook.need, InPlaceOf(_) | OfSome),
        }
    };
    if hooks_of(leg, means).next().is_none() {
        return Err(format!("{} do not tell it", means.title()));
    }
    match hooks_of(leg, means).find(is_missed) {
        Some(hook) => Err(why(tried, hook)),
        None => Ok(()),
    }
}

fn why(tried: &BTreeMap<&str, Tried>, hook: &Hook) -> String {
    let what = match hook.means {
        CopyMeans::Functions => "function",
        _ => "tracepoint",
    };
    let it = format!("{what} `{}`", hook.target);
    match tried.get(hook.program) {
        Some(Tried::Refused(why)) => format!("the {it} cannot be hooked: {why}"),
        Some(Tried::NotThere) => {
            format!("this kernel has no {it}: it was renamed, or is compiled into its callers")
        }
        Some(Tried::Attached) | None => format!("the {it} was not tried"),
    }
}

/// The gaps of each means that was wanted: one sentence where it lacks all for one reason.
fn gaps(tried: &BTreeMap<&str, Tried>, wanted: &[CopyMeans]) -> Vec<String> {
    let mut gaps: Vec<String> = Vec::new();
    for &means in wanted {
        let own = || HOOKS.iter().filter(move |h| h.means == means);
        let mut reasons: Vec<&String> = own()
            .filter_map(|h| match tried.get(h.program) {
                Some(Tried::Refused(why)) => Some(why),
                _ => None,
            })
            .collect();
        let refused = reasons.len();
        reasons.dedup();
        if refused > 1 && refused == own().count() && reasons.len() == 1 {
            gaps.push(format!("no {} can be hooked: {}", noun(means), reasons[0]));
            continue;
        }
        let lacks = own().filter(|h| match tried.get(h.program) {
            Some(Tried::Refused(_)) => true,
            Some(Tried::NotThere) => h.need == Must,
            _ => false,
        });
        gaps.extend(lacks.map(|h| why(tried, h)));
    }
    gaps
}

fn noun(means: CopyMeans) -> &'static str {
    match means {
        CopyMeans::Functions => "function of the kernel",
        _ => "tracepoint",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CopyMeans::{Functions, Tracepoints};

    const BOTH: &[CopyMeans] = &[Functions, Tracepoints];

    /// A kernel on which everything can be hooked but what is named.
    fn kernel(but: &[(&str, Tried)]) -> BTreeMap<&'static str, Tried> {
        let outcome = |h: &'static Hook| {
            let other = but.iter().find(|(target, _)| *target == h.target);
            (h.program, other.map_or(Tried::Attached, |(_, t)| t.clone()))
        };
        HOOKS.iter().map(outcome).collect()
    }

    /// A kernel that refuses a means altogether, as one without fentry or without rights does.
    fn without(means: &[CopyMeans]) -> BTreeMap<&'static str, Tried> {
        let refused = || Tried::Refused("not permitted".to_owned());
        let own = HOOKS.iter().filter(|h| means.contains(&h.means));
        kernel(&own.map(|h| (h.target, refused())).collect::<Vec<_>>())
    }

    fn means(choice: &HookChoice) -> Vec<Option<CopyMeans>> {
        CopyPlace::ALL.iter().map(|l| choice.means(*l)).collect()
    }

    #[test]
    fn the_strongest_means_that_a_kernel_allows_is_taken() {
        let check = |tried: BTreeMap<&str, Tried>, expected: [Option<CopyMeans>; 5]| {
            assert_eq!(means(&choose(&tried, BOTH)), expected);
        };
        check(kernel(&[]), [Some(Functions); 5]);
        check(without(&[Functions]), [Some(Tracepoints); 5]);
        check(without(&[Tracepoints]), [Some(Functions); 5]);
        check(without(BOTH), [None; 5]);
        check(BTreeMap::new(), [None; 5]);
        // A place of its own takes the next means, the others keep the first.
        let inlined = kernel(&[("skb_copy_ubufs", Tried::NotThere)]);
        let mixed = [Functions, Functions, Functions, Tracepoints, Functions];
        check(inlined, mixed.map(Some));
        let another_cpu = kernel(&[
            ("filemap_read", Tried::NotThere),
            ("sys_exit", Tried::Refused("no field `orig_ax`".to_owned())),
        ]);
        let mut all_but_one = [Some(Functions); 5];
        all_but_one[0] = None;
        check(another_cpu, all_but_one);
    }

    #[test]
    fn what_an_older_kernel_does_without_is_not_missed() {
        let older = kernel(&[
            ("skb_splice_from_iter", Tried::NotThere),
            ("copy_splice_read", Tried::NotThere),
        ]);
        let choice = choose(&older, BOTH);
        assert_eq!(means(&choice), [Some(Functions); 5]);
        assert_eq!(choice.gaps, [""; 0]);
        // There, and not to be hooked, is another thing: its bytes would count as copied.
        let hidden = Tried::Refused("it is compiled to another form".to_owned());
        let of_hidden = choose(&kernel(&[("skb_splice_from_iter", hidden)]), BOTH);
        assert_eq!(of_hidden.means(IntoKernel), Some(Tracepoints));
        let is_named = of_hidden.gaps[0].contains("`skb_splice_from_iter`");
        assert!(is_named, "{:?}", of_hidden.gaps);
    }

    #[test]
    fn what_some_file_systems_write_with_is_missed_by_no_other() {
        let other_form = Tried::Refused("it is compiled to another form".to_owned());
        let of_fuse = || ("fuse_perform_write", other_form.clone());
        let without = |others: &[(&str, Tried)]| {
            let all: Vec<_> = others.iter().cloned().chain([of_fuse()]).collect();
            choose(&kernel(&all), BOTH)
        };
        let choice = without(&[("btrfs_buffered_write", Tried::NotThere)]);
        assert_eq!(choice.means(IntoFile), Some(Functions));
        assert!(choice.gaps[0].contains("fuse_perform_write"));
        let has =
            |chosen: &HookChoice, program: &str| chosen.hooks.iter().any(|h| h.program == program);
        assert!(has(&choice, "to_file_fuse_piece") && !has(&choice, "to_file_btrfs"));
        let spare = choose(&kernel(&[]), BOTH);
        assert!(has(&spare, "to_file_fuse") && !has(&spare, "to_file_fuse_piece"));
    }

    #[test]
    fn of_two_that_count_the_same_only_one_stays() {
        let read = |tried: &BTreeMap<&str, Tried>| -> Vec<&str> {
            let hooks = choose(tried, BOTH).hooks;
            let own = hooks.iter().filter(|h| h.legs == [ToReader]);
            own.map(|h| h.program).collect()
        };
        assert_eq!(read(&kernel(&[])), ["read_packet"]);
        let renamed = kernel(&[("skb_copy_datagram_iter", Tried::NotThere)]);
        assert_eq!(read(&renamed), ["read_piece"]);
        assert_eq!(read(&without(&[Functions])), ["copied"]);
    }

    #[test]
    fn unavailable_means_have_a_reason() {
        let choice = choose(&without(BOTH), BOTH);
        assert!(choice.refused().unwrap().contains("not permitted"));
        assert_eq!(choice.hooks.len(), 0);
        assert_eq!(choice.gaps.len(), 2, "{:?}", choice.gaps);
        let of_tracepoints = choose(&kernel(&[]), &[Tracepoints]);
        assert_eq!(means(&of_tracepoints), [Some(Tracepoints); 5]);
        assert_eq!(of_tracepoints.refused(), None);
        let renamed = choose(&kernel(&[("tcp_sendmsg", Tried::NotThere)]), BOTH);
        assert_eq!(renamed.means(IntoKernel), Some(Tracepoints));
        assert!(renamed.gaps[0].contains("renamed"), "{:?}", renamed.gaps);
    }
}
