//! Where the kernel's files are, and how they are read: bounded, and never with a panic.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The largest file that is read, in bytes: /proc/cpuinfo of a thousand CPUs fits.
const MOST_BYTES: u64 = 8 << 20;
/// The most entries of a directory that are looked at.
const MOST_ENTRIES: usize = 65_536;

/// Root paths of the readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
    /// `/etc`.
    pub etc: PathBuf,
    /// `/boot`.
    pub boot: PathBuf,
}

impl Roots {
    /// The machine that this runs on.
    pub fn real() -> Roots {
        Roots::under(Path::new("/"))
    }

    /// `proc`, `sys`, `etc` and `boot` under a directory.
    pub fn under(dir: &Path) -> Roots {
        Roots {
            proc: dir.join("proc"),
            sys: dir.join("sys"),
            etc: dir.join("etc"),
            boot: dir.join("boot"),
        }
    }

    /// A file under `/proc`, without white space at its ends; else why it cannot be read.
    pub(crate) fn proc(&self, path: &str) -> Result<String, String> {
        text(&self.proc, path).map_err(|why| format!("/proc/{path} {why}"))
    }

    pub(crate) fn sys(&self, path: &str) -> Result<String, String> {
        text(&self.sys, path).map_err(|why| format!("/sys/{path} {why}"))
    }

    pub(crate) fn etc(&self, path: &str) -> Result<String, String> {
        text(&self.etc, path).map_err(|why| format!("/etc/{path} {why}"))
    }

    /// How the kernel was built: `/proc/config.gz`, else `/boot/config-` and its release.
    pub(crate) fn kernel_config(&self) -> Option<String> {
        let packed = File::open(self.proc.join("config.gz"));
        let unpacked = |file| {
            let mut text = String::new();
            let mut from = flate2::read::GzDecoder::new(file).take(MOST_BYTES);
            from.read_to_string(&mut text).ok().map(|_| text)
        };
        packed.ok().and_then(unpacked).or_else(|| {
            let release = self.proc("sys/kernel/osrelease").ok()?;
            text(&self.boot, &format!("config-{release}")).ok()
        })
    }

    pub(crate) fn sys_as<T: FromStr>(&self, path: &str) -> Option<T> {
        self.sys(path).ok()?.parse().ok()
    }

    /// What a file of lines `key: value` under `/proc` says of a key.
    pub(crate) fn proc_value(&self, path: &str, key: &str) -> Option<String> {
        value(&self.proc(path).ok()?, key)
    }

    pub(crate) fn proc_number(&self, path: &str) -> Option<u64> {
        self.proc(path).ok()?.parse().ok()
    }

    pub(crate) fn has_sys(&self, path: &str) -> bool {
        self.sys.join(path).exists()
    }

    /// The last part of what a link under `/sys` leads to.
    pub(crate) fn sys_link_name(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.sys.join(path)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    /// The names in a directory under `/sys`, sorted.
    pub(crate) fn sys_names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.sys.join(path)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .take(MOST_ENTRIES)
            .flatten()
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

pub(crate) fn value(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key && !value.trim().is_empty()).then(|| value.trim().to_owned())
    })
}

fn text(root: &Path, path: &str) -> Result<String, String> {
    let read = || -> io::Result<String> {
        let mut bytes = Vec::new();
        File::open(root.join(path))?
            .take(MOST_BYTES)
            .read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    read().map_err(|why| match why.kind() {
        io::ErrorKind::NotFound => "is not there".to_owned(),
        io::ErrorKind::PermissionDenied => "may not be read".to_owned(),
        _ => format!("cannot be read: {why}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{machine, put};
    use std::io::Write;

    #[test]
    fn how_the_kernel_was_built_is_read_packed_or_beside_it() {
        let (dir, roots) = machine(&[("proc/sys/kernel/osrelease", "6.1.0-x\n")]);
        let accounts = || crate::accounts_for_interrupts(&roots);
        assert_eq!(accounts(), None);
        let option = "CONFIG_IRQ_TIME_ACCOUNTING";
        let beside = |line: String| {
            let text = format!("CONFIG_A=y\n{line}\n");
            put(dir.path(), "boot/config-6.1.0-x", &text);
        };
        beside(format!("# {option} is not set"));
        assert_eq!(accounts(), Some(false));
        beside(format!("{option}=y"));
        assert_eq!(accounts(), Some(true));
        let packed = File::create(roots.proc.join("config.gz")).unwrap();
        let mut packed = flate2::write::GzEncoder::new(packed, flate2::Compression::fast());
        writeln!(packed, "# {option} is not set").unwrap();
        packed.finish().unwrap();
        assert_eq!(accounts(), Some(false));
    }
}
