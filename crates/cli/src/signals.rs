//! Ctrl-C, counted. Being asked to end by the system counts as well: whoever
//! stops a machine wants a safe state as much as whoever sits before it.

use tokio::sync::mpsc;

/// Interruptions, as they come.
#[derive(Debug)]
pub struct Signals {
    heard: mpsc::UnboundedReceiver<()>,
    count: usize,
}

impl Signals {
    /// Listens from now on; what was heard before ended the process.
    pub fn listen() -> Self {
        let (tell, heard) = mpsc::unbounded_channel();
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
                // A system without signals has no other way to stop than to kill.
                let Ok(mut signal) = signal(kind) else { continue };
                let tell = tell.clone();
                tokio::spawn(async move {
                    while signal.recv().await.is_some() {
                        if tell.send(()).is_err() {
                            break;
                        }
                    }
                });
            }
        }
        #[cfg(not(unix))]
        tokio::spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                if tell.send(()).is_err() {
                    break;
                }
            }
        });
        Self { heard, count: 0 }
    }

    /// The next interruption: its number, from 1.
    pub async fn next(&mut self) -> usize {
        match self.heard.recv().await {
            Some(()) => {
                self.count += 1;
                self.count
            }
            None => std::future::pending().await,
        }
    }
}
