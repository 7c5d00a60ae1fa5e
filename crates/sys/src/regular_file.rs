//! Files that a user names, which are opened without blocking, and only if they are regular.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl};

/// Opens an existing regular file, open(2). `InvalidInput`, with the kind of file, for others: opening a
/// FIFO may block for ever, and opening a device may act on it.
pub fn open(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    // Before opening, since a device may act when it is opened; links are followed.
    if let Ok(metadata) = path.metadata() {
        check_kind(metadata.file_type())?;
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
    fn an_irregular_file_is_refused_with_its_kind_without_blocking() {
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
