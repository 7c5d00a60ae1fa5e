use super::*;
use bytecost_sys::file_map::resident_pages;

fn reads_content(file: &TestFile, len: u64) {
    let read = open(&file.path(), Opening::default()).unwrap();
    let mut bytes = vec![0; len as usize];
    let mut at = 0;
    while at < bytes.len() {
        at += rustix::io::pread(&read, &mut bytes[at..], at as u64).unwrap();
    }
    assert_eq!(content().mismatch(0, &bytes), None);
}

// Invariant 9.
#[test]
fn a_file_grows_keeps_its_content_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for opened in [TestFile::in_memory(), TestFile::in_dir(dir.path())] {
        let mut file = opened.unwrap();
        for len in [10_000, 5000, 1_500_001] {
            file.grow(len).unwrap();
            reads_content(&file, file.len());
        }
        assert_eq!(file.len(), 1_500_001);
        assert_eq!(len(&file).unwrap(), 1_500_001);
        let names = std::fs::read_dir(&dir).unwrap().count();
        assert_eq!(names, 0, "it has no name");
    }
}

#[test]
fn a_file_without_o_tmpfile_is_of_no_name_either() {
    let dir = tempfile::tempdir().unwrap();
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let file = unlinked(dir.path(), flags, Mode::RUSR | Mode::WUSR).unwrap();
    assert_eq!(rustix::fs::fstat(&file).unwrap().st_nlink, 0);
}

#[test]
fn warm_and_cold_are_facts() {
    // The crate's own directory: the temporary one may be a file system in memory.
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut file = TestFile::in_dir(dir).unwrap();
    file.grow(4 << 20).unwrap();
    let resident = || resident_pages(&file, 0, 4 << 20).unwrap().0;
    if is_in_memory(&file) {
        assert!(cool(&file, 0, 4 << 20).is_err());
        return;
    }
    cool(&file, 0, 4 << 20).unwrap();
    assert!(resident() <= 10);
    warm(&file, 0, 4 << 20).unwrap();
    assert_eq!(resident(), 1024);
    cool(&file, 2 << 20, 1 << 20).unwrap();
    let stays = resident();
    assert!(
        (512..=532).contains(&stays),
        "what shares no folio: {stays}"
    );
}

#[test]
fn a_memory_file_is_never_cold_and_has_no_way_past_the_cache() {
    let mut file = TestFile::in_memory().unwrap();
    file.grow(1 << 20).unwrap();
    let cool_error = cool(&file, 0, 1 << 20).unwrap_err().to_string();
    assert!(
        cool_error.contains("100 %") && cool_error.contains("--dir"),
        "{cool_error}"
    );
    let (write, direct) = (false, true);
    let direct = Opening { write, direct };
    let open_error = open(&file.path(), direct).unwrap_err().to_string();
    assert!(
        open_error.contains("no way past the page cache"),
        "{open_error}"
    );
    assert_eq!(direct_bytes(&file.path()), None);
    // A file system that knows nothing of O_DIRECT answers EINVAL.
    let made_up = open(Path::new("/proc/self/status"), direct);
    let why = made_up.unwrap_err().to_string();
    assert!(why.contains("it refuses O_DIRECT"), "{why}");
}

#[test]
fn want_of_space_and_of_a_directory_are_told_before_anything_is_written() {
    let error = room(Path::new("/a"), 100 << 20, 50 << 20).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    let full = error.to_string();
    let says = ["50 MiB", "which has 100 MiB", "--dir"].map(|word| full.contains(word));
    assert_eq!(says, [true; 3], "{full}");
    assert!(room(Path::new("/a"), 200 << 20, 50 << 20).is_ok());
    for (dir, word) in [("/nowhere/at/all", "that is there"), ("/proc", "--dir")] {
        let why = TestFile::in_dir(Path::new(dir)).unwrap_err().to_string();
        assert!(why.contains(dir) && why.contains(word), "{why}");
    }
}

#[test]
fn a_file_that_is_too_short_and_anything_but_a_file_are_errors() {
    let mut file = TestFile::in_memory().unwrap();
    file.grow(8192).unwrap();
    let too_short = warm(&file, 4096, 8192).unwrap_err();
    assert!(too_short.to_string().contains("truncated"), "{too_short}");
    let why = open(Path::new("/"), Opening::default()).unwrap_err();
    assert!(why.to_string().contains("a directory"), "{why}");
}

/// Two files of so many blocks of 4 KiB, the second reserved and blanked, opened to go through.
fn two(blocks: u64) -> (TestFile, TestFile, crate::FileWork) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut from = TestFile::in_dir(dir).unwrap();
    from.grow(blocks * 4096).unwrap();
    let mut to = TestFile::in_dir(dir).unwrap();
    to.reserve(blocks * 4096).unwrap();
    assert_eq!([to.len(), len(&to).unwrap()], [blocks * 4096; 2]);
    let (write, direct) = (true, false);
    let write = Opening { write, direct };
    let work = crate::FileWork {
        file: open(&from.path(), Opening::default()).unwrap(),
        order: BlockOrder::new(bytecost_spec::Access::Random, 0, blocks, 4096, 1),
        depth: 1,
        block: 1000,
        target: Some(open(&to.path(), write).unwrap()),
    };
    (from, to, work)
}

fn mover_of(name: &str, work: crate::FileWork) -> io::Result<Box<dyn crate::Move>> {
    crate::Mover::named(name).unwrap().open(crate::Setup {
        file: Some(work),
        ..crate::Setup::new(4096, std::time::Duration::from_secs(60))
    })
}

#[test]
fn a_copy_is_what_its_source_holds_or_told_to_be_something_else() {
    for name in ["read-write-file", "copy_file_range", "splice-file"] {
        let (from, to, work) = two(8);
        let order = work.order;
        let check = |blocks| check_copied(&from, &to, order, blocks, (4096, 1000), usize::MAX);
        let mut mover = mover_of(name, work).unwrap();
        for _ in 0..7 {
            mover.offer().unwrap();
        }
        assert_eq!(check(7).unwrap(), 7 * 4096, "{name}");
        let why = check(8).unwrap_err().to_string();
        assert!(why.contains("the copy is not what"), "{name}: {why}");
        mover.offer().unwrap();
        assert_eq!(check(100).unwrap(), 8 * 4096, "{name}");
        assert_eq!(mover.tally().bytes, 8 * 4096, "{name}");
        blank(&to, 4096, 4096).unwrap();
        assert!(check(8).is_err(), "{name}: it was blanked");
        reads_content(&from, from.len());
    }
}

#[test]
fn a_copy_that_has_no_second_file_is_refused() {
    let (_from, _to, mut work) = two(1);
    work.target = None;
    let opened = mover_of("splice-file", work);
    assert_eq!(opened.err().unwrap().kind(), io::ErrorKind::InvalidInput);
}
