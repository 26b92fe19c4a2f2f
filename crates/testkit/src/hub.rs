//! A real control plane with our custom resources.
//!
//! `cargo xtask test` starts one and sets a variable to its folder: every test uses a namespace of
//! it. Without the variable, the tests of one process share a hub that the first of them starts. It
//! ends with the last test that uses it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use envtest::{Access, ControlPlane, Options, Tools, inspect};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use talos_sim::kubernetes::remote::RealApi;
use tempfile::TempDir;

use crate::manifests;
use crate::tenant::Tenant;

/// The variable that names the folder of the hub that all tests share.
const VARIABLE: &str = "TALOS_OPERATOR_TEST_HUB";

/// The hub of this process, if there is no other. Its users keep it alive: a static is never
/// dropped, and the hub's folder would stay.
static OF_PROCESS: Mutex<Weak<Own>> = Mutex::new(Weak::new());

/// A hub.
#[derive(Clone)]
pub struct Hub {
    pub(crate) access: Access,
    pub(crate) kubectl: PathBuf,
    own: Option<Arc<Own>>,
}

/// A hub that this process started.
struct Own {
    access: Access,
    kubectl: PathBuf,
    plane: Mutex<ControlPlane>,
    /// Dropped after the control plane that uses it.
    _folder: TempDir,
}

impl Hub {
    /// The hub that many tests share.
    pub async fn shared() -> Self {
        blocking(Self::find_shared).await
    }

    /// A hub for one test that restarts it or changes it for everyone.
    pub async fn start() -> Self {
        blocking(|| Self::of(start_own(&manifests::paths()))).await
    }

    /// The same without the shipped manifests: for tests of the manifests, and for a cluster that
    /// is not a hub.
    pub async fn empty() -> Self {
        blocking(|| Self::of(start_own(&[]))).await
    }

    /// The real kubectl, as the administrator, in the namespace `default`.
    pub fn kubectl(&self) -> Command {
        let mut command = Command::new(&self.kubectl);
        let cache = self.access.kubeconfig.with_file_name("kubectl-cache");
        command.env("KUBECONFIG", &self.access.kubeconfig).env("KUBECACHEDIR", cache);
        command
    }

    /// A namespace of this hub for a test of this name.
    pub async fn tenant(&self, name: &str) -> Tenant {
        Tenant::new(self.clone(), name).await
    }

    fn find_shared() -> Self {
        let Some(folder) = environment(VARIABLE) else {
            let mut known = OF_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
            return Self::of(known.upgrade().unwrap_or_else(|| {
                let own = start_own(&manifests::paths());
                *known = Arc::downgrade(&own);
                own
            }));
        };
        let tools = Tools::find().expect("the tools");
        let found = inspect(&PathBuf::from(&folder), &tools).expect("a hub that can be inspected");
        let found = found.unwrap_or_else(|| panic!("{VARIABLE} names a folder without a hub"));
        Self { access: found.access, kubectl: tools.kubectl, own: None }
    }

    fn of(own: Arc<Own>) -> Self {
        Self { access: own.access.clone(), kubectl: own.kubectl.clone(), own: Some(own) }
    }

    /// Lets a simulated cluster use this as its Kubernetes API.
    pub fn real_api(&self) -> RealApi {
        let Access { url, token, authority, .. } = self.access.clone();
        RealApi { url, token_file: token, ca_file: authority }
    }

    /// Restarts the API server of a hub that this test started.
    pub async fn restart_api_server(&self) {
        let own = Arc::clone(self.own.as_ref().expect("a hub of this test, see Hub::start"));
        blocking(move || {
            let mut plane = own.plane.lock().expect("no panic");
            plane.restart_apiserver().expect("it comes back");
        })
        .await;
    }

    /// The kubeconfig of the administrator.
    pub(crate) fn admin(&self) -> Kubeconfig {
        Kubeconfig::read_from(&self.access.kubeconfig).expect("a kubeconfig")
    }
}

fn start_own(manifests: &[PathBuf]) -> Arc<Own> {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().canonicalize().expect("a path").join("hub");
    let tools = Tools::find().expect("the tools");
    let kubectl = tools.kubectl.clone();
    let plane = ControlPlane::start(Options::new(home, tools)).expect("a control plane");
    if !manifests.is_empty() {
        plane.install(manifests).expect("the shipped manifests");
    }
    let (access, plane) = (plane.access(), Mutex::new(plane));
    Arc::new(Own { access, kubectl, plane, _folder: folder })
}

/// A client for a kubeconfig.
pub(crate) async fn client(kubeconfig: Kubeconfig) -> Client {
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Client::try_from(config.expect("a configuration")).expect("a client")
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("no panic")
}

#[expect(clippy::disallowed_methods, reason = "this is how the test command names the hub")]
fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
