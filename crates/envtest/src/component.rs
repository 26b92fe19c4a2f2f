//! The four components and their command lines.

use std::ffi::{OsStr, OsString};
use std::fmt;

use crate::folder::Folder;
use crate::ports::Ports;

/// One process of a control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// The database.
    Etcd,
    /// The API server.
    ApiServer,
    /// The controllers.
    ControllerManager,
    /// The scheduler.
    Scheduler,
}

impl Component {
    /// All components in start order; they stop in reverse order. An API server that is stopped
    /// after its etcd is gone does not end: it waits for the database first.
    pub const ALL: [Self; 4] =
        [Self::Etcd, Self::ApiServer, Self::ControllerManager, Self::Scheduler];

    /// The name of its program, its log, and its entry in listings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|component| component.name() == name)
    }

    /// The URL it listens on.
    pub(crate) fn url(self, ports: Ports) -> String {
        let scheme = if self == Self::Etcd { "http" } else { "https" };
        format!("{scheme}://127.0.0.1:{}", ports.of(self))
    }

    /// The argument for its working folder.
    pub(crate) fn place(self, folder: &Folder) -> OsString {
        match self {
            Self::Etcd => argument("--data-dir", folder.etcd_data()),
            // They create their certificates there once and keep them.
            Self::ApiServer | Self::ControllerManager | Self::Scheduler => {
                argument("--cert-dir", folder.certificates())
            }
        }
    }

    /// Its command line.
    pub(crate) fn arguments(self, folder: &Folder, ports: Ports) -> Vec<OsString> {
        let mut line = Line(vec![self.place(folder)]);
        match self {
            Self::Etcd => line
                // Losing the data with the machine is acceptable: nothing here is worth waiting for
                // a disk.
                .flag("--unsafe-no-fsync", "true")
                .flag("--listen-client-urls", self.url(ports))
                .flag("--advertise-client-urls", self.url(ports))
                // It has no peers, so any port will do.
                .flag("--listen-peer-urls", "http://127.0.0.1:0"),
            Self::ApiServer => line
                .flag("--etcd-servers", Self::Etcd.url(ports))
                .flag("--token-auth-file", folder.tokens())
                .flag("--authorization-mode", "Node,RBAC")
                .flag("--service-account-key-file", folder.service_account_key())
                .flag("--service-account-signing-key-file", folder.service_account_key())
                .flag("--service-account-issuer", "https://kubernetes.default.svc")
                .flag("--service-cluster-ip-range", "10.96.0.0/12")
                // By default, open watches of other clients delay a stop by up to a minute, in
                // which no client can connect.
                .flag("--shutdown-watch-termination-grace-period", "1s")
                // System pods such as kube-proxy need it, and Talos clusters allow it.
                .flag("--allow-privileged", "true")
                // A loopback address cannot be an endpoint; without this flag the API server would
                // retry it for ever.
                .flag("--advertise-address", "127.0.0.1")
                .flag("--endpoint-reconciler-type", "none"),
            Self::ControllerManager => line
                .flag("--kubeconfig", folder.kubeconfig_of(self))
                .flag("--root-ca-file", folder.certificate_of(Self::ApiServer))
                .flag("--service-account-private-key-file", folder.service_account_key())
                .flag("--use-service-account-credentials", "true")
                // Every controller requests its own token at the start; the default limits stretch
                // that to five seconds.
                .flag("--kube-api-qps", "500")
                .flag("--kube-api-burst", "1000")
                .flag("--leader-elect", "false"),
            Self::Scheduler => line
                .flag("--kubeconfig", folder.kubeconfig_of(self))
                .flag("--leader-elect", "false"),
        };
        if self != Self::Etcd {
            line.flag("--bind-address", "127.0.0.1")
                .flag("--secure-port", ports.of(self).to_string());
        }
        line.0
    }
}

impl fmt::Display for Component {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad`, not `write`: names stand in columns.
        formatter.pad(self.name())
    }
}

struct Line(Vec<OsString>);

impl Line {
    fn flag(&mut self, name: &str, value: impl AsRef<OsStr>) -> &mut Self {
        self.0.push(argument(name, value));
        self
    }
}

fn argument(name: &str, value: impl AsRef<OsStr>) -> OsString {
    let mut argument = OsString::from(name);
    argument.push("=");
    argument.push(value);
    argument
}
