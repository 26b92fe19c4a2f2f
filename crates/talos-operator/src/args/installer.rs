//! The installer of the nodes. Without any of these flags they keep their own.

use clap::Args;
use upgrade_core::image::ImageRef;

use super::{CommandLine, parse};

/// The installer of the nodes.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Installer")]
pub struct InstallerArgs {
    /// Change to this Image Factory schematic instead of keeping the nodes' own
    #[arg(long, value_name = "ID", value_parser = parse::schematic,
          conflicts_with_all = ["extensions", "image"])]
    pub schematic: Option<String>,
    /// Change to exactly these system extensions: the Image Factory makes a schematic with them,
    /// and the rest of the nodes' schematic stays
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = parse::extension,
          conflicts_with = "image")]
    pub extensions: Option<Vec<String>>,
    /// Change to this installer image; its tag is replaced by the target version
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<ImageRef>,
    /// Image Factory for --extensions [default: the profile's, else factory.talos.dev]
    #[arg(long, value_name = "URL", value_parser = crate::factory::check_url)]
    pub factory: Option<String>,
    /// Accept that the new installer lacks extensions of the nodes
    #[arg(long)]
    pub drop_extensions: bool,
    /// Expect the nodes' extensions in an image without a schematic, such as one built by
    /// `imager`: they are verified after the boot [default: the profile's]
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
