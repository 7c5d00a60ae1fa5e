//! Cached findings for later commands, as files in a directory private to its user.
//!
//! A file contains the circumstances of a finding and the finding. If the circumstances have changed, or
//! the file is unreadable, incomplete or of another user, there is no finding.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::StoreError;
use crate::folder::Folder;

const MOST_BYTES: u64 = 4 << 20;

/// A cached finding, if its circumstances `under` are the same and `fresh` is false; otherwise `find` is
/// called and its result is cached, unless it is an error. Errors of the cache are ignored.
///
/// # Errors
/// Those of `find`.
pub fn known_or<T: Serialize + DeserializeOwned, E>(
    directory: Option<&Path>,
    name: &str,
    under: &[String],
    fresh: bool,
    find: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let folder = directory.and_then(|path| Folder::make_private(path).ok());
    let kept = folder.as_ref().filter(|_| !fresh);
    if let Some(known) = kept.and_then(|dir| get(dir, name, under)) {
        return Ok(known);
    }
    let found = find()?;
    let _ = folder.map(|folder| put(&folder, name, under, &found));
    Ok(found)
}

fn get<T: DeserializeOwned>(folder: &Folder, name: &str, under: &[String]) -> Option<T> {
    let bytes = folder.read_own(name, MOST_BYTES).ok()??;
    let (then, found): (Vec<String>, T) = serde_json::from_slice(&bytes).ok()?;
    (then == under).then_some(found)
}

fn put<T: Serialize>(
    folder: &Folder,
    name: &str,
    under: &[String],
    found: &T,
) -> Result<(), StoreError> {
    folder.write_json(name, serde_json::to_vec(&(under, found)))
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::thread;

    #[test]
    fn a_finding_is_known_under_the_same_circumstances_alone() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("cache/bytecost");
        let known_or = |circumstances: &[&str], found: u32| {
            let under: Vec<String> = circumstances.iter().map(|w| (*w).to_owned()).collect();
            let found = known_or(Some(at.as_path()), "f", &under, false, || {
                (found > 0).then_some(found).ok_or("nothing is found")
            });
            found.unwrap_or(0)
        };
        let here = ["boot 1", "build a"];
        assert_eq!(known_or(&here, 0), 0, "an error is not kept");
        assert_eq!([7, 8].map(|found| known_or(&here, found)), [7, 7]);
        for other in [&["boot 2", "build a"][..], &["boot 1"], &[], &here] {
            assert_eq!([8, 9].map(|found| known_or(other, found)), [8, 8]);
            assert_eq!(known_or(&["elsewhere"], 10), 10);
        }
        for made in [&at, &dir.path().join("cache")] {
            assert_eq!(fs::metadata(made).unwrap().mode() & 0o777, 0o700);
        }
    }

    #[test]
    fn no_link_is_followed() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        symlink(other.path(), dir.path().join("bytecost")).unwrap();
        assert!(Folder::make_private(&dir.path().join("bytecost")).is_err());
        let own = Folder::make_private(&dir.path().join("own")).unwrap();
        fs::write(other.path().join("f"), "[[],[1]]").unwrap();
        symlink(other.path().join("f"), dir.path().join("own/f")).unwrap();
        assert_eq!(get::<Vec<u32>>(&own, "f", &[]), None);
        put(&own, "f", &[], &[2]).unwrap();
        assert_eq!(fs::read(other.path().join("f")).unwrap(), b"[[],[1]]");
    }

    #[test]
    fn a_directory_or_file_of_another_user_is_not_changed() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let theirs = dir.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        std::os::unix::fs::chown(&theirs, Some(12_345), None).unwrap();
        for path in [theirs.clone(), theirs.join("bytecost"), theirs.join("a/b")] {
            let refused = Folder::make_private(&path).unwrap_err();
            assert!(matches!(refused, StoreError::OfAnother(..)), "{refused}");
        }
        assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0);
        let own = Folder::make_private(&dir.path().join("own")).unwrap();
        put(&own, "f", &[], &[1]).unwrap();
        std::os::unix::fs::chown(dir.path().join("own/f"), Some(12_345), None).unwrap();
        assert_eq!(get::<Vec<u32>>(&own, "f", &[]), None);
    }

    #[test]
    fn of_two_writers_at_the_same_time_one_leaves_a_whole_file() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("bytecost");
        thread::scope(|scope| {
            for n in 0..4_u8 {
                let at = &at;
                scope.spawn(move || {
                    let folder = Folder::make_private(at).unwrap();
                    for _ in 0..5 {
                        let _ = put(&folder, "f", &[], &vec![n; 10_000]);
                    }
                });
            }
        });
        let found: Vec<u8> = get(&Folder::make_private(&at).unwrap(), "f", &[]).unwrap();
        assert!(found.len() == 10_000 && found.iter().all(|n| *n == found[0]));
        assert_eq!(fs::read_dir(&at).unwrap().count(), 1);
    }
}
