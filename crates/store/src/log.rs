//! The log of samples: a line of JSON for each trial, appended as soon as the trial ends.

use std::fs::File;
use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use bytecost_spec::Record;

use crate::error::StoreError;

/// The longest line of a log, its end included, in bytes.
const MOST_LINE_BYTES: usize = 4 << 20;

/// The longest log, in bytes, and the most records in it.
const MOST_LOG_BYTES: u64 = 1 << 30;
const MOST_RECORDS: usize = 5_000_000;

/// The content of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The records, in the order in which they were appended.
    pub records: Vec<Record>,
    /// Bytes of an incomplete last line, which was being written when the run was killed.
    pub dropped_bytes: usize,
}

/// A log that is open for appending. It ends with a complete line, or is marked as spoilt.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    path: PathBuf,
    len: u64,
    spoilt: bool,
}

impl Log {
    /// Continues a log. An incomplete last line is cut off, so that the next record starts a line.
    pub(crate) fn resume(mut file: File, path: &Path) -> Result<Log, StoreError> {
        let fail = |why| StoreError::io("repair", path, why);
        check_length(&file, path)?;
        let whole = end_of_last_line(&mut file).map_err(fail)?;
        if whole < file.metadata().map_err(fail)?.len() {
            file.set_len(whole).map_err(fail)?;
        }
        Ok(Log::new(file, path, whole))
    }

    fn new(file: File, path: &Path, len: u64) -> Log {
        Log {
            file,
            path: path.to_owned(),
            len,
            spoilt: false,
        }
    }

    /// Appends one record and hands it to the kernel. After an error the log is unchanged.
    pub(crate) fn append(&mut self, record: &Record) -> Result<(), StoreError> {
        if self.spoilt {
            return Err(StoreError::Spoilt(self.path.clone()));
        }
        let mut line = serde_json::to_vec(record).map_err(|e| self.fail(e))?;
        line.push(b'\n');
        if line.len() > MOST_LINE_BYTES {
            return Err(StoreError::RecordTooLarge(line.len(), MOST_LINE_BYTES));
        }
        if self.len + line.len() as u64 > MOST_LOG_BYTES {
            return Err(StoreError::LogFull(self.path.clone(), MOST_LOG_BYTES));
        }
        if let Err(why) = self.file.write_all(&line) {
            self.spoilt = self.file.set_len(self.len).is_err();
            return Err(self.fail(why));
        }
        self.len += line.len() as u64;
        Ok(())
    }

    /// Writes all appended records to the disk (fdatasync).
    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(|why| self.fail(why))
    }

    fn fail(&self, why: impl Into<io::Error>) -> StoreError {
        StoreError::io("append to", &self.path, why)
    }
}

/// Refuses a log that is longer than any that bytecost writes: reading a sparse one would not end.
pub(crate) fn check_length(file: &File, path: &Path) -> Result<(), StoreError> {
    let found = (file.metadata()).map_err(|why| StoreError::io("look at", path, why))?;
    if found.len() > MOST_LOG_BYTES {
        return Err(StoreError::TooLarge(path.to_owned(), MOST_LOG_BYTES));
    }
    Ok(())
}

/// Reads a log; `path` is for messages.
pub(crate) fn read(mut from: impl BufRead, path: &Path) -> Result<Loaded, StoreError> {
    let mut loaded = Loaded::default();
    let mut buffer = Vec::new();
    for line in 1.. {
        let broken = |why: String| StoreError::BrokenLine {
            path: path.to_owned(),
            line,
            why,
        };
        buffer.clear();
        let read = (&mut from)
            .take(MOST_LINE_BYTES as u64)
            .read_until(b'\n', &mut buffer)
            .map_err(|why| StoreError::io("read", path, why))?;
        if buffer.pop_if(|last| *last == b'\n').is_none() {
            if read == MOST_LINE_BYTES {
                return Err(broken(format!("longer than {MOST_LINE_BYTES} bytes")));
            }
            loaded.dropped_bytes = read;
            break;
        }
        if loaded.records.len() == MOST_RECORDS {
            return Err(broken(format!("more than {MOST_RECORDS} records")));
        }
        let record = serde_json::from_slice(&buffer)
            .map_err(|why| broken(format!("no record of a trial ({why})")))?;
        loaded.records.push(record);
    }
    Ok(loaded)
}

/// Number of complete lines in a log; their content is not read.
pub(crate) fn count(mut from: impl Read) -> io::Result<u64> {
    let mut buffer = vec![0; 64 << 10];
    let mut lines = 0;
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(lines),
            Ok(n) => lines += buffer[..n].iter().filter(|b| **b == b'\n').count() as u64,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
}

/// The offset after the last line feed; 0 if there is none.
fn end_of_last_line(file: &mut (impl Read + Seek)) -> io::Result<u64> {
    const STEP: u64 = 64 << 10;
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut buffer = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(STEP);
        file.seek(SeekFrom::Start(start))?;
        buffer.resize((end - start) as usize, 0);
        file.read_exact(&mut buffer)?;
        if let Some(at) = buffer.iter().rposition(|b| *b == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Cursor;

    use bytecost_spec::{Failure, TrialKey};

    use super::*;

    fn record(block: u32) -> Record {
        Record::Failure(Failure {
            trial: TrialKey::first(block, 1),
            cell: "a/b".into(),
            started_ms: 5,
            reason: "gone\nwith the wind".into(),
            stood_still_ns: None,
            wrong_bytes: false,
            for_evidence: false,
        })
    }

    fn load(bytes: &[u8]) -> Result<Loaded, String> {
        read(Cursor::new(bytes), Path::new("samples.jsonl")).map_err(|e| e.to_string())
    }

    #[test]
    fn an_error_in_a_line_has_its_number() {
        let line = serde_json::to_string(&record(0)).unwrap();
        let broken = format!("{line}\n{{\"sample\":{{}}}}\n{line}\n");
        let error = load(broken.as_bytes()).unwrap_err();
        assert!(error.starts_with("samples.jsonl, line 2: "), "{error}");
        assert!(error.contains("delete that line"), "{error}");
        assert!(load(b"\n").unwrap_err().contains("line 1"));
        assert!(load(b"\xff\xfe\n").unwrap_err().contains("line 1"));
    }

    // Invariant 8.
    #[test]
    fn a_line_has_a_bound_for_readers_and_writers() {
        let endless = vec![b'x'; MOST_LINE_BYTES];
        assert!(load(&endless).unwrap_err().contains("longer than"));
        let mut huge = record(0);
        *huge.cell_mut().unwrap() = "x".repeat(MOST_LINE_BYTES);
        let file = tempfile::tempfile().unwrap();
        let mut log = Log::new(file, Path::new("l"), 0);
        assert!(matches!(
            log.append(&huge),
            Err(StoreError::RecordTooLarge { .. })
        ));
        assert_eq!(log.file.metadata().unwrap().len(), 0);
    }

    /// On the kernel's own full device, where nothing can be cut off either.
    #[test]
    fn a_full_disk_is_an_error_of_its_own_and_a_spoilt_log_accepts_no_record() {
        let file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut log = Log::new(file, Path::new("runs/a/samples.jsonl"), 0);
        let error = log.append(&record(0)).unwrap_err();
        assert!(matches!(error, StoreError::Full { .. }));
        let text = error.to_string();
        for part in [
            "runs/a/samples.jsonl",
            "the disk is full",
            "finished trials are kept",
            "--resume",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(matches!(log.append(&record(0)), Err(StoreError::Spoilt(_))));
    }

    #[test]
    fn the_end_of_the_last_line_is_found_across_steps_of_reading() {
        for (before, after) in [(0, 0), (1, 0), (0, 3), (1, 200_000), (70_000, 65_536)] {
            let mut bytes = vec![b'x'; before];
            if before > 0 {
                bytes[before - 1] = b'\n';
            }
            bytes.extend(vec![b'y'; after]);
            let end = end_of_last_line(&mut Cursor::new(bytes)).unwrap();
            assert_eq!(end, before as u64);
        }
    }
}
