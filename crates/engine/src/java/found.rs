//! The search for a Java virtual machine.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Environment variables that lead to Java, or that a script in its place needs. Java's own options, which
/// no report would show, are not passed.
pub const PASSED_ON: &[&str] = &["JAVA_HOME", "PATH", "HOME"];

/// The `java` of JAVA_HOME, else the first one in PATH; `NotFound` with what to do without one.
pub fn find() -> io::Result<PathBuf> {
    find_in(
        std::env::var_os("JAVA_HOME").as_deref(),
        std::env::var_os("PATH").as_deref(),
    )
}

fn find_in(home: Option<&OsStr>, path: Option<&OsStr>) -> io::Result<PathBuf> {
    let of_home = home
        .filter(|home| !home.is_empty())
        .map(|home| Path::new(home).join("bin"));
    let of_path = path.map(|path| std::env::split_paths(path).collect::<Vec<_>>());
    of_home
        .into_iter()
        .chain(of_path.into_iter().flatten())
        // A relative one would mean another program in another directory.
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join("java"))
        .find(|java| java.is_file() && access(java, Access::EXEC_OK).is_ok())
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                "there is no java in JAVA_HOME or PATH: install a JDK of version 11 or newer (16 for Unix sockets)",
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn java_is_that_of_java_home_and_else_the_first_of_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for (name, mode) in [
            ("home/bin/java", 0o755),
            ("one/java", 0o644),
            ("two/java", 0o755),
        ] {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), "").unwrap();
            fs::set_permissions(at(name), Permissions::from_mode(mode)).unwrap();
        }
        let check = |home: Option<&str>, path: &[&str], expected: Option<&str>| {
            let java_home = home.map(|h| at(h).into_os_string());
            let list = std::env::join_paths(path.iter().map(|p| at(p))).unwrap();
            let found = find_in(java_home.as_deref(), Some(&list)).ok();
            assert_eq!(found, expected.map(at), "{home:?} {path:?}");
        };
        check(Some("home"), &["two"], Some("home/bin/java"));
        check(Some("nowhere"), &["two"], Some("two/java"));
        check(None, &["nowhere", "one", "two"], Some("two/java"));
        check(None, &["one", "home"], None);
        let relative = find_in(None, Some(OsStr::new(".:"))).unwrap_err();
        assert!(relative.to_string().contains("install a JDK"), "{relative}");
        assert!(find_in(None, None).is_err());
    }
}
