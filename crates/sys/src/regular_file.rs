//! Files that a user names: opened without waiting, and only where they are regular ones.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl};

/// Opens a file that is there, open(2). `InvalidInput` names the kind of what is no regular file:
/// opening a FIFO or a device may wait for ever, or act on a device.
pub fn open(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    // A device acts when it is opened; a link is followed.
    if let Ok(seen) = path.metadata() {
        check_kind(seen.file_type())?;
    }
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    check_kind(file.metadata()?.file_type())?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file.into())
}

fn check_kind(kind: std::fs::FileType) -> io::Result<()> {
    let name = match kind {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a FIFO or pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    let why = format!("this is no regular file, but {name}: name a regular one");
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, mknodat, unlinkat};

    #[test]
    fn what_is_no_regular_file_is_named_at_once() {
        let fifo = std::env::temp_dir().join(format!("bytecost-fifo-{}", std::process::id()));
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let check = |path: &Path, kind: &str| {
            let error = open(path, OFlags::RDONLY).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains(kind), "{error}");
        };
        check(&fifo, "a FIFO");
        unlinkat(CWD, &fifo, rustix::fs::AtFlags::empty()).unwrap();
        check(Path::new("/dev/zero"), "a device");
        check(Path::new("/"), "a directory");
        let file = open(Path::new("/proc/self/exe"), OFlags::RDONLY).unwrap();
        assert!(!fcntl_getfl(&file).unwrap().contains(OFlags::NONBLOCK));
        let missing = open(&fifo, OFlags::RDONLY).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
