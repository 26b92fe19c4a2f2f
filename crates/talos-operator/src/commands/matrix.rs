//! `talos-operator matrix`: the support matrix, whole or one line of it.

use crate::Exit;
use crate::args::{MatrixArgs, Output};
use crate::printer::Printer;
use crate::release_data::ReleaseData;
use crate::render;
use crate::usage::Usage;

/// Shows the support matrix.
pub fn matrix(args: &MatrixArgs, printer: Printer) -> Result<Exit, Usage> {
    let data = ReleaseData::load(&args.data)?;
    let lines = render::matrix::lines(&data);
    let Some(talos) = args.talos else {
        printer.stdout(&match args.output.output {
            Output::Text => render::matrix::table(&lines),
            Output::Json => render::matrix::json(&lines),
        });
        return Ok(Exit::Done);
    };
    let Some(line) = lines.iter().find(|line| line.row.talos == talos) else {
        printer.stderr(&render::matrix::unknown(talos, &lines));
        return Ok(Exit::Refused);
    };
    printer.stdout(&match args.output.output {
        Output::Text => render::matrix::one(line),
        Output::Json => render::matrix::json(std::slice::from_ref(line)),
    });
    Ok(Exit::Done)
}
