//! This program, put on a host that has none of the same build, and gone again at the end.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytecost_spec::units;
use rustix::process::{Pid, Signal, kill_process};

use super::command::{ENDED_WITHIN, PeerCommand, PeerError, ended_within};

/// What the private directory's name begins with.
const DIRECTORY: &str = "bytecost-copy.";
const NAME: &str = "bytecost";
/// Takes a program of `$1` bytes from stdin and says where it is; one in part is taken away.
const TAKE: &str = r#"umask 077; d=$(mktemp -d "${TMPDIR:-/tmp}/bytecost-copy.XXXXXX") || exit
trap 'rm -rf "$d"' EXIT; trap 'exit 1' HUP INT TERM PIPE
cat > "$d/bytecost" && [ $(wc -c < "$d/bytecost") = $1 ] && chmod 700 "$d/bytecost" && echo "$d" && trap - EXIT"#;
const COPIED_WITHIN: Duration = Duration::from_secs(120);
const MOST_PATH_BYTES: u64 = 4096;

/// A copy on the other host that nobody has started yet.
pub(super) struct ProgramCopy {
    command: PeerCommand,
    directory: String,
}

impl ProgramCopy {
    pub(super) fn put(command: &PeerCommand, stop: &AtomicBool) -> Result<ProgramCopy, PeerError> {
        let failed = |why| {
            let why = format!("the program cannot be put there: {why}");
            PeerError::new(format!("peer {command}: {why}"))
        };
        let told = |e: io::Error| failed(e.to_string());
        let program = File::open("/proc/self/exe").map_err(told)?;
        let bytes = program.metadata().map_err(told)?.len().to_string();
        let mut child = command
            .run(&["sh", "-c", TAKE, "sh", &bytes])
            .stdin(Stdio::from(program))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(told)?;
        let Some(status) = ended_within(&mut child, COPIED_WITHIN, Some(stop)) else {
            end(&mut child);
            let most = units::duration(COPIED_WITHIN);
            return Err(match stop.load(Ordering::Relaxed) {
                true => PeerError::interrupted(),
                false => failed(format!("it took longer than {most}")),
            });
        };
        let mut said = String::new();
        if let Some(from) = child.stdout.take() {
            let _ = from.take(MOST_PATH_BYTES).read_to_string(&mut said);
        }
        let directory = said.lines().last().unwrap_or_default().to_owned();
        let is_one = directory.starts_with('/') && is_copys(directory.as_ref());
        if !status.success() || !is_one {
            return Err(failed(format!(
                "`sh` there ended with {status}: is there room in its directory of temporary files, and may programs run from it?"
            )));
        }
        Ok(ProgramCopy {
            command: command.clone(),
            directory,
        })
    }

    pub(super) fn command(&self) -> PeerCommand {
        self.command
            .with_program(format!("{}/{NAME}", self.directory))
    }

    /// Takes it away, where no agent of it has begun.
    pub(super) fn remove(&self) {
        let mut remove = self.command.run(&["rm", "-rf", "--", &self.directory]);
        let null = || Stdio::null();
        let _ = remove.stdin(null()).stdout(null()).stderr(null()).status();
    }
}

fn end(child: &mut Child) {
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
    let _ = ended_within(child, ENDED_WITHIN, None);
    let _ = child.kill();
    let _ = child.wait();
}

/// Takes away the own program where it is such a copy: it is held open, and is gone with who runs.
pub(super) fn remove_own() {
    let own = std::env::current_exe().unwrap_or_default();
    if let Some(directory) = own.parent()
        && own.file_name().is_some_and(|name| name == NAME)
        && is_copys(directory)
    {
        let _ = fs::remove_file(&own);
        let _ = fs::remove_dir(directory);
    }
}

fn is_copys(directory: &Path) -> bool {
    let name = directory.file_name();
    name.is_some_and(|name| name.to_string_lossy().starts_with(DIRECTORY))
}
