//! Cleaning up after an owner that cannot.
//!
//! A process that is killed outright runs no destructors, and its children
//! live on. So a small shell holds the other end of a pipe from the owner. It
//! is told the processes whenever they change; when the pipe closes without a
//! word that all is well, the owner is dead, and the shell ends them.

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Politely first, so that logs end well; then for certain.
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

/// The shell and the pipe to it.
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
            // What ends the owner at its terminal must not end the guard.
            .process_group(0)
            .spawn()?;
        let pipe = child.stdin.take();
        Ok(Self { child, pipe })
    }

    /// Tells which processes there are from now on.
    pub(crate) fn watch(&mut self, processes: impl IntoIterator<Item = u32>) -> io::Result<()> {
        let line: Vec<String> = processes.into_iter().map(|pid| pid.to_string()).collect();
        match &mut self.pipe {
            Some(pipe) => writeln!(pipe, "{}", line.join(" ")),
            None => Ok(()),
        }
    }

    /// Ends the guard and leaves the processes alone.
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
        // It has set its trap once it has written something.
        let mut first = [0];
        child.stdout.take().expect("a pipe").read_exact(&mut first).expect("a byte");
        child
    }

    #[test]
    fn an_owner_that_vanishes_takes_its_processes_along() {
        let mut children = [sleeper(), stubborn()];
        let mut guard = Guard::start().expect("a shell");
        guard.watch(children.each_ref().map(Child::id)).expect("told");
        // The pipe closes as it would if this process were killed.
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
    fn a_released_process_lives_on() {
        let mut sleeper = sleeper();
        let mut guard = Guard::start().expect("a shell");
        guard.watch([sleeper.id()]).expect("told");
        guard.release();
        assert!(sleeper.try_wait().expect("a child").is_none());
        sleeper.kill().expect("still there");
        sleeper.wait().expect("ended");
    }
}
