//! Objects of BPF: loaded, attached to the kernel, and read; with what goes wrong in one line.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use aya::maps::{Array, Map};
use aya::programs::{BtfTracePoint, Program, ProgramError};
use aya::{Btf, Ebpf, EbpfLoader};
use bytecost_sys::file_map::FileMap;

/// The reason for no counts in a time namespace with an offset.
pub(crate) const OTHER_CLOCK: &str = "the clock of this time namespace (time_namespaces(7)) is not the kernel's: run it outside of the namespace";
/// The reason for no counts in a PID namespace other than the kernel's first.
pub(crate) const OTHER_NUMBERS: &str = "processes have other numbers here than in the kernel: run it outside of the container's PID namespace";

const MOST_CHARS: usize = 400;
/// The last part of these characters is kept: there a verifier says what it refuses.
const LAST_CHARS: usize = 250;

/// An error with all of its causes in one line, of the kind of the system error among them.
pub fn in_one_line(error: &(dyn Error + 'static)) -> io::Error {
    let (mut text, mut kind, mut cause) = (error.to_string(), None, Some(error));
    while let Some(one) = cause {
        let said = one.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        kind = kind.or(one.downcast_ref::<io::Error>().map(io::Error::kind));
        cause = one.source();
    }
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // Where the verifier was not asked, it says nothing.
    let line = shortened(line.trim_end_matches("Verifier output:").trim_end());
    io::Error::new(kind.unwrap_or(io::ErrorKind::Other), line)
}

/// A system error with its object before it, of the same kind.
pub(crate) fn about(what: &str, e: io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{what}: {e}"))
}

fn shortened(text: &str) -> String {
    let chars = text.chars().count();
    if chars <= MOST_CHARS {
        return text.to_owned();
    }
    let first = text.chars().take(MOST_CHARS - LAST_CHARS - 3);
    let last = text.chars().skip(chars - LAST_CHARS);
    first.chain(" … ".chars()).chain(last).collect()
}

/// The types of the running kernel, without which no program here can be loaded; parsed once per
/// process, as that takes longer than all else that loads a program.
pub fn types(root: &Path) -> io::Result<&'static Btf> {
    static TYPES: Mutex<BTreeMap<PathBuf, &'static Btf>> = Mutex::new(BTreeMap::new());
    let mut known = TYPES.lock().unwrap_or_else(PoisonError::into_inner);
    let file = root.join("sys/kernel/btf/vmlinux");
    if let Some(types) = known.get(&file) {
        return Ok(types);
    }
    let what = "the kernel does not tell its types (CONFIG_DEBUG_INFO_BTF)";
    let parsed = Btf::parse_file(&file, aya::Endianness::default());
    let types: &'static Btf =
        Box::leak(Box::new(parsed.map_err(|e| about(what, in_one_line(&e)))?));
    known.insert(file, types);
    Ok(types)
}

/// Loads an object, with so many entries in these maps. All objects of the process have one
/// loader, since a new one reads and parses the kernel's types, whatever it is given (aya 0.14). So
/// a number of entries stays with its map's name, and two objects may not give one name two.
pub fn loaded(
    bytes: &[u8],
    types: Option<&'static Btf>,
    entries: &[(&'static str, u32)],
) -> io::Result<Ebpf> {
    static LOADER: Mutex<Option<EbpfLoader<'static>>> = Mutex::new(None);
    let mut guard = LOADER.lock().unwrap_or_else(PoisonError::into_inner);
    let loader = guard.get_or_insert_with(EbpfLoader::new);
    for (map, most) in entries {
        loader.map_max_entries(map, *most);
    }
    if types.is_some() {
        loader.btf(types);
    }
    loader.load(bytes).map_err(|e| in_one_line(&e))
}

/// Attaches a program of an object to a tracepoint or function, as its section says.
pub fn attach(object: &mut Ebpf, program: &str, target: &str, types: &Btf) -> io::Result<()> {
    let attached: Result<(), ProgramError> = match object.program_mut(program) {
        Some(Program::BtfTracePoint(p)) => {
            p.load(target, types).and_then(|()| p.attach().map(|_| ()))
        }
        Some(Program::FExit(p)) => p.load(target, types).and_then(|()| p.attach().map(|_| ())),
        _ => return Err(io::Error::other(format!("there is no program `{program}`"))),
    };
    attached.map_err(|e| in_one_line(&e))
}

/// A program at a tracepoint, to be attached and taken off by its caller.
pub fn tracepoint<'o>(object: &'o mut Ebpf, program: &str) -> io::Result<&'o mut BtfTracePoint> {
    match object.program_mut(program) {
        Some(Program::BtfTracePoint(found)) => Ok(found),
        _ => Err(io::Error::other(format!("there is no program `{program}`"))),
    }
}

/// An object whose one map, `sums`, has `N` words: the first are ours, the others its programs'.
#[derive(Debug)]
pub struct Object<const N: usize> {
    object: Ebpf,
    sums: FileMap,
}

impl<const N: usize> Object<N> {
    /// Makes its maps, with so many entries in these; refused without rights, or where it does not
    /// fit.
    pub fn load(
        bytes: &[u8],
        types: &'static Btf,
        entries: &[(&'static str, u32)],
    ) -> io::Result<Object<N>> {
        let object = loaded(bytes, Some(types), entries)?;
        let sums = match object.map("sums") {
            Some(Map::Array(data)) => FileMap::new(data.fd(), 0, N * 8)?,
            _ => return Err(io::Error::other("the object has no array `sums`")),
        };
        Ok(Object { object, sums })
    }

    /// Attaches one of its programs, see [`attach`].
    pub fn attach(&mut self, program: &str, target: &str, types: &Btf) -> io::Result<()> {
        attach(&mut self.object, program, target, types)
    }

    /// The number of events at which a program was not run, as it already ran on that CPU; none before
    /// Linux 5.12.
    pub fn misses(&self, program: &str) -> Option<u64> {
        let fd = match self.object.program(program)? {
            Program::BtfTracePoint(p) => p.fd(),
            Program::FExit(p) => p.fd(),
            _ => return None,
        };
        let descriptor = fd.ok()?.as_fd().as_raw_fd();
        misses(&fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).ok()?)
    }

    /// Takes a program off again.
    pub fn detach(&mut self, program: &str) {
        // One that was never loaded is off already.
        let _ = match self.object.program_mut(program) {
            Some(Program::BtfTracePoint(p)) => p.unload(),
            Some(Program::FExit(p)) => p.unload(),
            _ => Ok(()),
        };
    }

    /// Sets the first words, and all others to 0, bpf(2).
    pub fn begin(&mut self, first: &[u64]) -> io::Result<()> {
        let mut all = [0; N];
        for (word, value) in all.iter_mut().zip(first) {
            *word = *value;
        }
        let mut sums =
            Array::<_, [u64; N]>::try_from(self.map("sums")?).map_err(|e| in_one_line(&e))?;
        sums.set(0, all, 0).map_err(|e| in_one_line(&e))
    }

    /// One of its maps, unless it has none of that name.
    pub fn map(&mut self, name: &str) -> io::Result<&mut Map> {
        let map = self.object.map_mut(name);
        map.ok_or_else(|| io::Error::other(format!("the object has no map `{name}`")))
    }

    /// All words, each of its own moment.
    pub fn words(&self) -> [u64; N] {
        std::array::from_fn(|at| self.sums.word(at))
    }
}

fn misses(fdinfo: &str) -> Option<u64> {
    let line = fdinfo
        .lines()
        .find_map(|l| l.strip_prefix("recursion_misses:"));
    line?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt;

    #[test]
    fn what_a_program_missed_is_read_where_the_kernel_tells_it() {
        let fdinfo = "pos:\t0\nprog_type:\t26\nrun_cnt:\t9\nrecursion_misses:\t3\n";
        assert_eq!(misses(fdinfo), Some(3));
        assert_eq!(misses("pos:\t0\nprog_type:\t26\n"), None);
    }

    #[derive(Debug)]
    struct Outer(io::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the program\n  cannot be loaded")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn a_cause_follows_its_effect_and_gives_its_kind() {
        let error = in_one_line(&Outer(io::ErrorKind::PermissionDenied.into()));
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let in_full = error.to_string();
        assert_eq!(in_full, "the program cannot be loaded: permission denied");
        let verifier = format!("{} R1 unbounded memory access", "x".repeat(10_000));
        let long = in_one_line(&Outer(io::Error::other(verifier)));
        assert_eq!(long.kind(), io::ErrorKind::Other);
        let text = long.to_string();
        assert_eq!(text.chars().count(), MOST_CHARS);
        assert!(text.starts_with("the program"), "{text}");
        assert!(text.ends_with("R1 unbounded memory access"), "{text}");
    }
}
