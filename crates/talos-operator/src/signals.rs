//! Ctrl-C, counted. SIGTERM counts as well: a machine that shuts down needs a safe state too.

use tokio::sync::mpsc;

/// Interruptions in the order of their arrival.
#[derive(Debug)]
pub struct Signals {
    received: mpsc::UnboundedReceiver<()>,
    count: usize,
}

impl Signals {
    /// Listens from now on. A signal before that ends the process.
    pub fn listen() -> Self {
        let (sender, received) = mpsc::unbounded_channel();
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
                // Without signals, only a kill stops the process.
                let Ok(mut signal) = signal(kind) else { continue };
                let sender = sender.clone();
                tokio::spawn(async move {
                    while signal.recv().await.is_some() {
                        if sender.send(()).is_err() {
                            break;
                        }
                    }
                });
            }
        }
        #[cfg(not(unix))]
        tokio::spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                if sender.send(()).is_err() {
                    break;
                }
            }
        });
        Self { received, count: 0 }
    }

    /// The next interruption: its number, from 1.
    pub async fn next(&mut self) -> usize {
        match self.received.recv().await {
            Some(()) => {
                self.count += 1;
                self.count
            }
            None => std::future::pending().await,
        }
    }
}
