//! `talos-operator crds`: the definitions of the kinds that the operator needs.

use vitistack_api::DEFINITIONS;

use crate::Exit;
use crate::args::CrdsArgs;
use crate::printer::Printer;

/// Prints definitions as one YAML stream.
pub fn crds(CrdsArgs { names }: &CrdsArgs, printer: Printer) -> Exit {
    let wanted = DEFINITIONS
        .iter()
        .filter(|it| names.is_empty() || names.iter().any(|name| name == it.name));
    let texts: Vec<&str> = wanted.map(|definition| definition.text).collect();
    printer.stdout(&texts.join("---\n"));
    Exit::Done
}
