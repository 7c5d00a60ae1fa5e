//! The root directories of the kernel's files, and readers that are bounded and never panic.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The largest file that is read, in bytes: /proc/cpuinfo of a thousand CPUs fits.
const MOST_BYTES: u64 = 8 << 20;
/// The most entries of a directory that are read.
const MOST_ENTRIES: usize = 65_536;

/// The directories that stand for `/proc`, `/sys`, `/etc` and `/boot`: the real ones, or those of a
/// recorded machine.
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
    /// The directories of the machine on which this program runs.
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

    /// The text of a file under `/proc`, trimmed.
    ///
    /// # Errors
    /// The path with the reason: it does not exist, may not be read, or the error of read(2).
    pub(crate) fn proc(&self, path: &str) -> Result<String, String> {
        text(&self.proc, path).map_err(|e| format!("/proc/{path} {}", reason(&e)))
    }

    /// The text of a file under `/proc`, as [`Self::proc`]; none if there is no such file.
    pub(crate) fn proc_if_there(&self, path: &str) -> Result<Option<String>, String> {
        match text(&self.proc, path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(format!("/proc/{path} {}", reason(&e))),
            Ok(text) => Ok(Some(text)),
        }
    }

    /// The text of a file under `/sys`, as [`Self::proc`].
    pub(crate) fn sys(&self, path: &str) -> Result<String, String> {
        text(&self.sys, path).map_err(|e| format!("/sys/{path} {}", reason(&e)))
    }

    /// The text of a file under `/etc`, as [`Self::proc`].
    pub(crate) fn etc(&self, path: &str) -> Result<String, String> {
        text(&self.etc, path).map_err(|e| format!("/etc/{path} {}", reason(&e)))
    }

    /// The build configuration of the running kernel: `/proc/config.gz`, else `/boot/config-RELEASE`.
    pub(crate) fn kernel_config(&self) -> Option<String> {
        let packed = File::open(self.proc.join("config.gz"));
        let unpacked = |file| {
            let mut text = String::new();
            let mut decoder = flate2::read::GzDecoder::new(file).take(MOST_BYTES);
            decoder.read_to_string(&mut text).ok().map(|_| text)
        };
        packed.ok().and_then(unpacked).or_else(|| {
            let release = self.proc("sys/kernel/osrelease").ok()?;
            text(&self.boot, &format!("config-{release}")).ok()
        })
    }

    /// The value of a file under `/sys`.
    pub(crate) fn sys_as<T: FromStr>(&self, path: &str) -> Option<T> {
        self.sys(path).ok()?.parse().ok()
    }

    /// The value of a key in a file under `/proc` that has lines of `key: value`.
    pub(crate) fn proc_value(&self, path: &str, key: &str) -> Option<String> {
        value(&self.proc(path).ok()?, key)
    }

    /// The number in a file under `/proc`.
    pub(crate) fn proc_number(&self, path: &str) -> Option<u64> {
        self.proc(path).ok()?.parse().ok()
    }

    pub(crate) fn has_sys(&self, path: &str) -> bool {
        self.sys.join(path).exists()
    }

    /// The file name of the target of a symbolic link under `/sys`.
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

/// The value of a key in a text that has lines of `key: value`; none if it is empty.
pub(crate) fn value(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key && !value.trim().is_empty()).then(|| value.trim().to_owned())
    })
}

/// The first [`MOST_BYTES`] of a file, trimmed.
fn text(root: &Path, path: &str) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(root.join(path))?
        .take(MOST_BYTES)
        .read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// The reason why a file has no text, to be read after its path.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "is not there".to_owned(),
        io::ErrorKind::PermissionDenied => "may not be read".to_owned(),
        _ => format!("cannot be read: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{machine, put};
    use std::io::Write;

    #[test]
    fn the_kernel_configuration_is_read_from_proc_or_boot() {
        let (dir, roots) = machine(&[("proc/sys/kernel/osrelease", "6.1.0-x\n")]);
        let accounts = || crate::accounts_for_interrupts(&roots);
        assert_eq!(accounts(), None);
        let option = "CONFIG_IRQ_TIME_ACCOUNTING";
        let in_boot = |line: String| {
            let text = format!("CONFIG_A=y\n{line}\n");
            put(dir.path(), "boot/config-6.1.0-x", &text);
        };
        in_boot(format!("# {option} is not set"));
        assert_eq!(accounts(), Some(false));
        in_boot(format!("{option}=y"));
        assert_eq!(accounts(), Some(true));
        let packed = File::create(roots.proc.join("config.gz")).unwrap();
        let mut packed = flate2::write::GzEncoder::new(packed, flate2::Compression::fast());
        writeln!(packed, "# {option} is not set").unwrap();
        packed.finish().unwrap();
        assert_eq!(accounts(), Some(false));
    }
}
