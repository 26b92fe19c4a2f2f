//! Lanes on a terminal, redrawn in place.

use std::io::{IsTerminal as _, stderr};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use upgrade_core::jiff::Timestamp;
use upgrade_view::LiveRun;

use super::lanes::lanes;

/// Rows and columns if the terminal does not report its size.
const USUAL: (usize, usize) = (24, 80);

/// Redraws per second: enough for a clock, few enough for a slow connection.
const RATE: u8 = 8;

/// The part of the terminal that is redrawn.
pub(super) struct Screen {
    all: MultiProgress,
    lines: Vec<ProgressBar>,
}

impl Screen {
    /// `None` unless stderr is a terminal that can be redrawn.
    pub(super) fn open() -> Option<Self> {
        if !stderr().is_terminal() || !console_can_move() {
            return None;
        }
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(RATE));
        Some(Self { all, lines: Vec::new() })
    }

    pub(super) fn draw(&mut self, run: &LiveRun, now: Timestamp) {
        let (rows, columns) = size();
        let text = lanes(run, now, rows, columns);
        let lines: Vec<&str> = text.iter().flat_map(|line| line.split('\n')).collect();
        while self.lines.len() < lines.len() {
            // Lines carry their own colours, so one style is enough.
            let style = ProgressStyle::with_template("{msg}");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            self.lines.push(self.all.add(ProgressBar::new_spinner().with_style(style)));
        }
        for surplus in self.lines.drain(lines.len()..) {
            self.all.remove(&surplus);
        }
        for (bar, line) in self.lines.iter().zip(lines) {
            bar.set_message(line.to_owned());
            bar.tick();
        }
    }

    pub(super) fn note(&self, text: &str) {
        // A failure means that the terminal is gone.
        let _ = self.all.println(text.trim_end());
    }

    pub(super) fn close(self) {
        for bar in self.lines {
            bar.abandon();
        }
    }
}

fn size() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(stderr()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => {
            (usize::from(size.ws_row), usize::from(size.ws_col))
        }
        _ => USUAL,
    }
}

/// Some terminals (an editor's, a serial line) cannot move the cursor.
fn console_can_move() -> bool {
    !matches!(crate::settings::terminal().as_deref(), None | Some("" | "dumb"))
}
