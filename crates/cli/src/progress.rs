//! What is shown while a run is under way.
//!
//! [`Board`] is the run as its events tell it, [`lanes`] draws it for a
//! terminal, [`Lines`] writes it for everything else: pure, all of them.
//! [`Progress`] is where they meet a screen.

mod board;
mod lanes;
mod lines;
mod screen;

use upgrade_core::event::Event;
use upgrade_core::jiff::Timestamp;
use upgrade_core::journal::State;
use upgrade_core::plan::Plan;

use crate::args::Output;
use crate::printer::Printer;

pub use board::{Board, Running, Stage};
pub use lanes::lanes;
pub use lines::Lines;
pub(crate) use lines::moves;
use screen::Screen;

/// How a run is shown.
enum Form {
    /// An event a line, on stdout.
    Json,
    /// Words, on stderr.
    Lines(Lines),
    /// A lane a node, on the terminal that stderr is.
    Screen(Screen),
}

/// What is shown while a run is under way.
pub struct Progress {
    board: Board,
    form: Form,
    printer: Printer,
}

impl Progress {
    /// For a run that begins, or goes on where `state` stands.
    pub fn new(plan: &Plan, state: &State, output: Output, printer: Printer) -> Self {
        let form = match output {
            Output::Json => Form::Json,
            Output::Text => {
                Screen::open().map_or_else(|| Form::Lines(Lines::default()), Form::Screen)
            }
        };
        Self { board: Board::new(plan, state), form, printer }
    }

    /// Something happened.
    pub fn event(&mut self, event: &Event) {
        self.board.apply(event);
        match &mut self.form {
            Form::Json => {
                let line = serde_json::to_string(event).expect("an event is always JSON");
                self.printer.stdout(&(line + "\n"));
            }
            Form::Lines(lines) => {
                if let Some(line) = lines.line(event, &self.board) {
                    self.printer.stderr(&line);
                }
            }
            Form::Screen(screen) => screen.draw(&self.board, event.at),
        }
    }

    /// Time passes.
    pub fn tick(&mut self, now: Timestamp) {
        if let Form::Screen(screen) = &mut self.form {
            screen.draw(&self.board, now);
        }
    }

    /// Something to say beside it.
    pub fn note(&self, text: &str) {
        match &self.form {
            Form::Screen(screen) => screen.note(text),
            _ => self.printer.stderr(text),
        }
    }

    /// The end: the last picture stays.
    pub fn end(self, now: Timestamp) {
        if let Form::Screen(mut screen) = self.form {
            screen.draw(&self.board, now);
            screen.close();
            // The cursor is left at the end of the last line.
            self.printer.stderr("\n");
        }
    }
}
