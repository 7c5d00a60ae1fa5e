//! The kernel's symbols by their addresses, from `/proc/kallsyms`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// The most symbols that are read; a kernel with all its modules has some 200,000.
const MOST_SYMBOLS: usize = 4 << 20;
const MOST_LINE_BYTES: u64 = 4096;

/// Functions of the running kernel and its modules, by where they begin.
#[derive(Clone, Debug, Default)]
pub struct Symbols(BTreeMap<u64, String>);

impl Symbols {
    /// Reads `proc/kallsyms` below `root`: `PermissionDenied` where the addresses are hidden
    /// (kernel.kptr_restrict), `InvalidData` where it holds no function.
    pub fn read(root: &Path) -> io::Result<Symbols> {
        Symbols::from_text(text(root)?)
    }

    fn from_text(text: impl BufRead) -> io::Result<Symbols> {
        let mut found = Symbols::default();
        let mut hidden = 0_usize;
        each(text, |[address, kind, name]| {
            let is_code = matches!(kind, "t" | "T" | "w" | "W");
            // Padding before a function is run by nothing.
            match u64::from_str_radix(address, 16) {
                _ if !is_code || name.starts_with("__pfx_") => {}
                Ok(0) => hidden += 1,
                // Of several names of one address the last stands: a linker's section comes first.
                Ok(address) => drop(found.0.insert(address, name.to_owned())),
                Err(_) => {}
            }
            found.0.len() < MOST_SYMBOLS
        })?;
        let hides =
            "the kernel hides the addresses of its functions (kernel.kptr_restrict): run as root";
        let none = "/proc/kallsyms names no function of the kernel";
        if !found.0.is_empty() {
            Ok(found)
        } else if hidden > 0 {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, hides))
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidData, none))
        }
    }

    /// The function that an address lies in; none below the first.
    pub fn name(&self, address: u64) -> Option<&str> {
        let (_, name) = self.0.range(..=address).next_back()?;
        Some(name)
    }
}

pub(crate) fn text(root: &Path) -> io::Result<impl BufRead> {
    Ok(BufReader::new(File::open(root.join("proc/kallsyms"))?))
}

pub(crate) fn each(
    mut text: impl BufRead,
    mut wants_more: impl FnMut([&str; 3]) -> bool,
) -> io::Result<()> {
    let mut line = String::new();
    while io::Read::take(&mut text, MOST_LINE_BYTES).read_line(&mut line)? > 0 {
        let mut words = line.split_ascii_whitespace();
        if let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next())
            && !wants_more([address, kind, name])
        {
            break;
        }
        line.clear();
    }
    Ok(())
}

/// A function's name as its source has it, without `.isra.0`, `.constprop.0`, `.part.0`, `.cold`.
pub fn plain(name: &str) -> &str {
    match name.find('.') {
        Some(at) if at > 0 => &name[..at],
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_function_that_begins_before_it() {
        let text = "ffff1000 T _stext\nffff1000 T first\nffff1010 t __pfx_second\nffff1020 t second.isra.0\n\
                    ffff1030 d data\nffff2000 t in_module [veth]\nnonsense\n";
        let symbols = Symbols::from_text(text.as_bytes()).unwrap();
        let check = |address, expected| assert_eq!(symbols.name(address), expected, "{address:x}");
        check(0xffff_0fff, None);
        check(0xffff_1000, Some("first"));
        check(0xffff_101f, Some("first"));
        check(0xffff_1020, Some("second.isra.0"));
        check(0xffff_1fff, Some("second.isra.0"));
        check(u64::MAX, Some("in_module"));
    }

    #[test]
    fn hidden_addresses_and_no_functions_are_errors() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        let refused = |text: &str| {
            std::fs::write(root.path().join("proc/kallsyms"), text).unwrap();
            let read = Symbols::read(root.path()).map(|_| ());
            read.unwrap_err().to_string()
        };
        let hidden = refused("0000000000000000 T a\n0000000000000000 t b\n");
        assert!(hidden.contains("kptr_restrict"), "{hidden}");
        let none = refused("ffff1000 d data\n");
        assert!(none.contains("no function"), "{none}");
        assert!(Symbols::read(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn names_lose_what_the_compiler_appended() {
        let check = |name, expected| assert_eq!(plain(name), expected);
        check("tcp_sendmsg", "tcp_sendmsg");
        check("tcp_ack.constprop.0", "tcp_ack");
        check("skb_release.part.0.isra.0", "skb_release");
        check(".hidden", ".hidden");
    }

    #[test]
    fn the_running_kernel_has_the_functions_that_everything_rests_on() {
        match Symbols::read(Path::new("/")) {
            Ok(symbols) => {
                assert!(symbols.0.values().any(|name| name == "tcp_sendmsg"));
            }
            Err(e) => assert_eq!(e.kind(), io::ErrorKind::PermissionDenied, "{e}"),
        }
    }
}
