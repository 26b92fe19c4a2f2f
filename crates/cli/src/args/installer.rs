//! Which installer the nodes get. Without any of these they keep their own.

use clap::Args;
use upgrade_core::image::ImageRef;

use super::{CommandLine, parse};

/// Which installer the nodes get.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Installer")]
pub struct InstallerArgs {
    /// Change to this Image Factory schematic instead of keeping the nodes' own
    #[arg(long, value_name = "ID", value_parser = parse::schematic,
          conflicts_with_all = ["extensions", "image"])]
    pub schematic: Option<String>,
    /// Change to these system extensions, and no others: a schematic with them is made by the
    /// Image Factory; the rest of the nodes' schematic stays
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = parse::extension,
          conflicts_with = "image")]
    pub extensions: Option<Vec<String>>,
    /// Change to this installer image; its tag is replaced by the target's
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<ImageRef>,
    /// The Image Factory for --extensions [default: the profile's, or else factory.talos.dev]
    #[arg(long, value_name = "URL", value_parser = crate::factory::check_url)]
    pub factory: Option<String>,
    /// Let extensions go that the new installer lacks
    #[arg(long)]
    pub drop_extensions: bool,
    /// Expect the nodes' extensions in an image without a schematic, such as one that `imager`
    /// built: they must be there after the boot [default: as the profile says]
    #[arg(long, conflicts_with_all = ["drop_extensions", "schematic", "extensions"])]
    pub keep_extensions: bool,
}

impl InstallerArgs {
    /// Whether the nodes get another installer than their own.
    pub const fn is_given(&self) -> bool {
        self.schematic.is_some() || self.extensions.is_some() || self.image.is_some()
    }

    /// Repeats these flags in another command.
    pub fn repeat(&self, line: &mut CommandLine) {
        let Self { schematic, extensions, image, factory, drop_extensions, keep_extensions } = self;
        line.value("schematic", schematic.as_ref())
            .value("extensions", extensions.as_ref().map(|names| names.join(",")))
            .value("image", image.as_ref())
            .value("factory", factory.as_ref())
            .switch("drop-extensions", *drop_extensions)
            .switch("keep-extensions", *keep_extensions);
    }
}
