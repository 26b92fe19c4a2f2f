//! The arguments of `crds`.

use clap::Args;
use clap::builder::PossibleValuesParser;
use vitistack_api::DEFINITIONS;

const EXAMPLES: &str = "\
Examples:
  Install all of them:
    talos-operator crds | kubectl apply --server-side -f -

  Only what the platform does not have:
    talos-operator crds upgraderuns.upgrade.vitistack.io | kubectl apply --server-side -f -";

/// The arguments of `crds`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CrdsArgs {
    /// Definitions to print [default: all]
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(DEFINITIONS.map(|it| it.name)))]
    pub names: Vec<String>,
}
