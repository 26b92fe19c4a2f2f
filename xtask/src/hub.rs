//! The hub that all tests of a run share: a real control plane with all shipped manifests except
//! the pods.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use envtest::{ControlPlane, Options};

use crate::cargo::{checkout, target_folder};
use crate::cluster;

/// The variable with its folder, for the tests.
const VARIABLE: &str = "TALOS_OPERATOR_TEST_HUB";

/// The manifests that it gets.
const MANIFESTS: [&str; 4] = ["00-namespace", "10-crds", "20-rbac", "30-admission"];

/// A running hub.
pub(crate) struct Hub {
    plane: ControlPlane,
    folder: PathBuf,
}

impl Hub {
    /// Starts one in a folder of this process.
    pub(crate) fn start() -> Result<Self> {
        let folder = target_folder()?.join(format!("test-hub-{}", std::process::id()));
        // Left over from a killed process with the same ID.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let home = folder.join("hub");
        let plane = ControlPlane::start(Options::new(home, cluster::find_tools()?))?;
        plane.install(&manifests())?;
        Ok(Self { plane, folder })
    }

    /// The variable that shows it to the tests.
    pub(crate) fn variable(&self) -> (OsString, OsString) {
        (VARIABLE.into(), self.folder.join("hub").into())
    }

    /// Stops it, and removes its folder.
    pub(crate) fn stop(self) -> Result<()> {
        let Self { plane, folder } = self;
        plane.stop()?;
        fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())
    }
}

/// The shipped manifests except the pods.
pub(crate) fn manifests() -> Vec<PathBuf> {
    MANIFESTS.iter().map(|part| checkout().join("deploy").join(format!("{part}.yaml"))).collect()
}
