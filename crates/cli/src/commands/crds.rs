//! `talos-operator crds`: the definitions of the kinds that the operator needs.

use vitistack_api::DEFINITIONS;

use crate::Exit;
use crate::args::CrdsArgs;
use crate::printer::Printer;

/// Prints all definitions as one YAML stream.
pub fn crds(CrdsArgs {}: &CrdsArgs, printer: Printer) -> Exit {
    let texts: Vec<&str> = DEFINITIONS.iter().map(|definition| definition.text).collect();
    printer.stdout(&texts.join("---\n"));
    Exit::Done
}
