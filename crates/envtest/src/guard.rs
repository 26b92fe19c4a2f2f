//! Cleans up if the owner cannot.
//!
//! A killed process runs no destructors, and its children live on. So a small shell holds the other
//! end of a pipe from the owner. The owner writes the process IDs to it whenever they change; if
//! the pipe closes without a release, the owner is dead, and the shell ends the processes.

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Terminate first, so that logs are complete, then kill.
const SCRIPT: &str = "
while read -r line; do processes=$line; done
[ -n \"$processes\" ] || exit 0
kill -TERM $processes
for _ in 1 2 3 4 5; do
    sleep 1
    left=
    for process in $processes; do kill -0 $process && left=yes; done
    [ -n \"$left\" ] || exit 0
done
kill -KILL $processes
";

/// The guard shell and the pipe to it.
#[derive(Debug)]
pub(crate) struct Guard {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    pub(crate) fn start() -> io::Result<Self> {
        let mut child = Command::new("/bin/sh")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A signal from the owner's terminal must not end the guard.
            .process_group(0)
            .spawn()?;
        let pipe = child.stdin.take();
        Ok(Self { child, pipe })
    }

    /// Sends the current processes to the guard.
    pub(crate) fn watch(&mut self, processes: impl IntoIterator<Item = u32>) -> io::Result<()> {
        let line: Vec<String> = processes.into_iter().map(|pid| pid.to_string()).collect();
        match &mut self.pipe {
            Some(pipe) => writeln!(pipe, "{}", line.join(" ")),
            None => Ok(()),
        }
    }

    /// Ends the guard, and leaves the processes running.
    pub(crate) fn release(&mut self) {
        self.watch([]).ok();
        self.pipe = None;
        self.child.wait().ok();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::time::Duration;

    use super::*;
    use crate::clock;

    fn sleeper() -> Child {
        Command::new("sleep").arg("60").spawn().expect("sleep")
    }

    fn stubborn() -> Child {
        let script = "trap '' TERM; echo; while :; do sleep 1; done";
        let mut child = Command::new("/bin/sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        // The trap is set once the shell has written something.
        let mut first = [0];
        child.stdout.take().expect("a pipe").read_exact(&mut first).expect("a byte");
        child
    }

    #[test]
    fn processes_end_with_a_killed_owner() {
        let mut children = [sleeper(), stubborn()];
        let mut guard = Guard::start().expect("a shell");
        guard.watch(children.each_ref().map(Child::id)).expect("told");
        // The pipe closes as if this process were killed.
        guard.pipe = None;
        let gone = clock::within(Duration::from_secs(20), Duration::from_millis(10), || {
            children.iter_mut().all(|child| child.try_wait().expect("a child").is_some())
        });
        for child in &mut children {
            child.kill().ok();
        }
        guard.child.wait().expect("the guard ends too");
        assert!(gone);
    }

    #[test]
    fn a_released_process_keeps_running() {
        let mut sleeper = sleeper();
        let mut guard = Guard::start().expect("a shell");
        guard.watch([sleeper.id()]).expect("told");
        guard.release();
        assert!(sleeper.try_wait().expect("a child").is_none());
        sleeper.kill().expect("it still runs");
        sleeper.wait().expect("ended");
    }
}
