//! What is shown while a run is in progress.
//!
//! [`lanes`] draws a [`LiveRun`] for a terminal, [`Lines`] writes it for everything else; both
//! are pure. [`Progress`] connects them to the screen.

mod lanes;
mod lines;
mod screen;

use std::sync::Arc;

use upgrade_core::event::Event;
use upgrade_core::jiff::Timestamp;
use upgrade_core::journal::State;
use upgrade_core::plan::Plan;
use upgrade_view::LiveRun;

use crate::args::Output;
use crate::printer::Printer;

pub use lanes::lanes;
pub use lines::Lines;
use screen::Screen;

/// The form in which a run is shown.
enum Form {
    /// One event per line, on stdout.
    Json,
    /// Plain lines, on stderr.
    Lines(Lines),
    /// One lane per node, if stderr is a terminal.
    Screen(Screen),
}

/// What is shown while a run is in progress.
pub struct Progress {
    run: LiveRun,
    form: Form,
    printer: Printer,
}

impl Progress {
    /// For a run that starts, or continues where `state` stands.
    pub fn new(plan: &Arc<Plan>, state: &State, output: Output, printer: Printer) -> Self {
        let form = match output {
            Output::Json => Form::Json,
            Output::Text => {
                Screen::open().map_or_else(|| Form::Lines(Lines::default()), Form::Screen)
            }
        };
        Self { run: LiveRun::new(Arc::clone(plan), state.clone()), form, printer }
    }

    /// Shows an event.
    pub fn event(&mut self, event: &Event) {
        self.run.apply(event);
        match &mut self.form {
            Form::Json => {
                let line = serde_json::to_string(event).expect("an event is always JSON");
                self.printer.stdout(&(line + "\n"));
            }
            Form::Lines(lines) => {
                if let Some(line) = lines.line(event, &self.run) {
                    self.printer.stderr(&line);
                }
            }
            Form::Screen(screen) => screen.draw(&self.run, event.at),
        }
    }

    /// Moves the clocks on.
    pub fn tick(&mut self, now: Timestamp) {
        if let Form::Screen(screen) = &mut self.form {
            screen.draw(&self.run, now);
        }
    }

    /// Prints a message beside the progress.
    pub fn note(&self, text: &str) {
        match &self.form {
            Form::Screen(screen) => screen.note(text),
            _ => self.printer.stderr(text),
        }
    }

    /// Ends the display; its last state stays on the screen.
    pub fn end(self, now: Timestamp) {
        if let Form::Screen(mut screen) = self.form {
            screen.draw(&self.run, now);
            screen.close();
            // The cursor is left at the end of the last line.
            self.printer.stderr("\n");
        }
    }
}
