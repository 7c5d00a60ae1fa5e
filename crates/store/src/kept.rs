//! What is found once and kept for the next command: files in a directory that is its user's alone.
//!
//! A file holds what it was found under beside what was found. Where the first is another now, or
//! the file cannot be read, is cut short or is somebody else's, nothing is known.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::StoreError;
use crate::folder::Folder;

/// The longest file that is read, in bytes.
const MOST_BYTES: u64 = 4 << 20;

/// What is kept in a directory under these circumstances, or else what is found now, which is kept
/// then; in any case the latter if `fresh`. Without a place to keep it the next command finds it
/// again.
pub fn known_or<T: Serialize + DeserializeOwned>(
    directory: Option<&Path>,
    name: &str,
    under: &[String],
    fresh: bool,
    find: impl FnOnce() -> T,
) -> T {
    let kept = directory.and_then(|path| Kept::at(path).ok());
    let known = kept.as_ref().filter(|_| !fresh);
    if let Some(known) = known.and_then(|kept| kept.get(name, under)) {
        return known;
    }
    let found = find();
    let _ = kept.map(|kept| kept.put(name, under, &found));
    found
}

/// A directory of what is kept.
#[derive(Debug)]
struct Kept {
    folder: Folder,
}

impl Kept {
    /// The directory at a path, made where it is not there, for nobody but its user.
    fn at(path: &Path) -> Result<Kept, StoreError> {
        let folder = Folder::make_private(path)?;
        Ok(Kept { folder })
    }

    /// What was found under the same circumstances; none where that is not known.
    fn get<T: DeserializeOwned>(&self, name: &str, under: &[String]) -> Option<T> {
        let bytes = self.folder.read_own(name, MOST_BYTES).ok()??;
        let (then, found): (Vec<String>, T) = serde_json::from_slice(&bytes).ok()?;
        (then == under).then_some(found)
    }

    /// Keeps what was found, in the place of what was kept under that name.
    fn put<T: Serialize>(&self, name: &str, under: &[String], found: &T) -> Result<(), StoreError> {
        let json = serde_json::to_vec(&(under, found));
        self.folder.write_json(name, json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::thread;

    fn under(words: &[&str]) -> Vec<String> {
        words.iter().map(|w| (*w).to_owned()).collect()
    }

    #[test]
    fn what_was_found_is_known_under_the_same_circumstances_alone() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("cache/bytecost");
        let here = under(&["boot 1", "build a"]);
        let kept = Kept::at(&at).unwrap();
        assert_eq!(kept.get::<Vec<u32>>("f", &here), None);
        kept.put("f", &here, &[7, 8]).unwrap();
        let again = Kept::at(&at).unwrap();
        assert_eq!(again.get("f", &here), Some(vec![7, 8]));
        for other in [&["boot 2", "build a"][..], &["boot 1"], &[]] {
            assert_eq!(again.get::<Vec<u32>>("f", &under(other)), None);
        }
        for made in [&at, &dir.path().join("cache")] {
            assert_eq!(fs::metadata(made).unwrap().mode() & 0o777, 0o700);
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_known_and_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("bytecost");
        let kept = Kept::at(&at).unwrap();
        let here = under(&["here"]);
        for broken in ["", "[[\"here\"],[1", "[[\"here\"],\"no numbers\"]", "\0\0"] {
            fs::write(at.join("f"), broken).unwrap();
            assert_eq!(kept.get::<Vec<u32>>("f", &here), None, "{broken}");
            kept.put("f", &here, &[1]).unwrap();
            assert_eq!(kept.get("f", &here), Some(vec![1]));
        }
    }

    #[test]
    fn what_is_known_is_not_found_again_unless_it_is_to_be() {
        let dir = tempfile::tempdir().unwrap();
        let here = under(&["here"]);
        let found = |at: Option<&Path>, fresh, n: u32| known_or(at, "f", &here, fresh, || n);
        let at = Some(dir.path());
        let at_all = [
            (at, false, 1),
            (at, false, 2),
            (at, true, 3),
            (at, false, 4),
        ];
        assert_eq!(
            at_all.map(|(at, fresh, n)| found(at, fresh, n)),
            [1, 1, 3, 3]
        );
        let nowhere = Some(Path::new("/proc/nowhere"));
        assert_eq!([None, nowhere].map(|at| found(at, false, 5)), [5, 5]);
    }

    #[test]
    fn no_link_is_followed() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        symlink(other.path(), dir.path().join("bytecost")).unwrap();
        assert!(Kept::at(&dir.path().join("bytecost")).is_err());
        let kept = Kept::at(&dir.path().join("own")).unwrap();
        fs::write(other.path().join("f"), "[[],[1]]").unwrap();
        symlink(other.path().join("f"), dir.path().join("own/f")).unwrap();
        assert_eq!(kept.get::<Vec<u32>>("f", &[]), None);
        kept.put("f", &[], &[2]).unwrap();
        assert_eq!(fs::read(other.path().join("f")).unwrap(), b"[[],[1]]");
    }

    #[test]
    fn a_directory_or_file_of_somebody_else_is_left_alone() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let theirs = dir.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        std::os::unix::fs::chown(&theirs, Some(12_345), None).unwrap();
        for path in [theirs.clone(), theirs.join("bytecost"), theirs.join("a/b")] {
            let refused = Kept::at(&path).unwrap_err();
            assert!(matches!(refused, StoreError::OfAnother { .. }), "{refused}");
        }
        assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0);
        let kept = Kept::at(&dir.path().join("own")).unwrap();
        kept.put("f", &[], &[1]).unwrap();
        std::os::unix::fs::chown(dir.path().join("own/f"), Some(12_345), None).unwrap();
        assert_eq!(kept.get::<Vec<u32>>("f", &[]), None);
    }

    #[test]
    fn two_who_keep_at_once_leave_one_of_both_whole() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("bytecost");
        thread::scope(|scope| {
            for n in 0..4_u8 {
                let at = &at;
                scope.spawn(move || {
                    let kept = Kept::at(at).unwrap();
                    for _ in 0..5 {
                        let _ = kept.put("f", &[], &vec![n; 10_000]);
                    }
                });
            }
        });
        let found: Vec<u8> = Kept::at(&at).unwrap().get("f", &[]).unwrap();
        assert!(found.len() == 10_000 && found.iter().all(|n| *n == found[0]));
        assert_eq!(fs::read_dir(&at).unwrap().count(), 1);
    }
}
