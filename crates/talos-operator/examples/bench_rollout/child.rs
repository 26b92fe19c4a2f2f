//! A program under way. Whatever becomes of this process, it does not outlive it.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs a program, and kills it when stdin ends: also when the process at
/// the other end was killed.
const SCRIPT: &str = r#"
log=$1; shift
exec 3<&0
"$@" </dev/null >>"$log" 2>&1 3<&- &
child=$!
(cat <&3 >/dev/null; kill -KILL $child 2>/dev/null) >/dev/null 2>&1 &
wait $child
code=$?
exit $code
"#;

/// How much of a log is shown when something fails.
const LAST_LINES: usize = 15;

/// Runs programs in one folder, with one log.
#[derive(Clone, Debug)]
pub(crate) struct Runner {
    pub(crate) folder: PathBuf,
    pub(crate) log: PathBuf,
}

impl Runner {
    /// Runs a program to its end; what it last said is the error if it fails.
    pub(crate) async fn run(&self, program: &Path, args: &[&str]) -> Result<(), String> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "sh"]).arg(&self.log).arg(program).args(args);
        command.current_dir(&self.folder).env("HOME", &self.folder);
        for variable in ["XDG_STATE_HOME", "TALOSCONFIG", "KUBECONFIG", "CLICOLOR_FORCE"] {
            command.env_remove(variable);
        }
        // What ends us at a terminal is no business of its: we end it.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut shell = command.spawn().map_err(|error| format!("no shell: {error}"))?;
        // Held while we wait: dropping this future ends the program.
        let stdin = shell.stdin.take();
        let status = tokio::task::spawn_blocking(move || shell.wait()).await;
        drop(stdin);
        let status = status.map_err(|error| error.to_string())?.map_err(|it| it.to_string())?;
        if status.success() {
            return Ok(());
        }
        let program = program.file_name().unwrap_or_default().to_string_lossy();
        let line = args.join(" ");
        Err(format!("`{program} {line}` ended with {status}:\n{}", self.last_words()))
    }

    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }
}
