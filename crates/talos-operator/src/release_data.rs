//! Release data: built in, or from files of the same form.

use std::path::Path;

use upgrade_core::catalogue::Catalogue;
use upgrade_core::matrix::Matrix;

use crate::args::DataArgs;
use crate::usage::Usage;

/// Everything known about releases.
#[derive(Clone, Debug)]
pub struct ReleaseData {
    /// The support matrix.
    pub matrix: Matrix,
    /// The known releases.
    pub catalogue: Catalogue,
}

impl ReleaseData {
    /// The files of the flags, else the built-in data.
    pub fn load(args: &DataArgs) -> Result<Self, Usage> {
        Ok(Self {
            matrix: read("--matrix", args.matrix.as_deref(), Matrix::from_toml)?
                .unwrap_or_else(Matrix::builtin),
            catalogue: read("--catalogue", args.catalogue.as_deref(), Catalogue::from_toml)?
                .unwrap_or_else(Catalogue::builtin),
        })
    }
}

fn read<T, E: ToString>(
    flag: &str,
    path: Option<&Path>,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, Usage> {
    let Some(path) = path else {
        return Ok(None);
    };
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        Usage::new(
            format!("{flag}: cannot read {shown}: {error}"),
            "name a readable file, or remove the flag to use the built-in data",
        )
    })?;
    parse(&text).map(Some).map_err(|error| {
        // TOML errors end with an excerpt and a line break.
        let error = error.to_string();
        Usage::new(
            format!("{flag}: {shown}: {}", error.trim_end()),
            "correct the file, or remove the flag to use the built-in data",
        )
    })
}
