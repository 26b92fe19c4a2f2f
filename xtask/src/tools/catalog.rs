//! The tools, and how each is built.
//!
//! Versions are not repeated here: they are read from the `go.mod` that pins them, so that there is
//! one place to change.

use anyhow::{Result, bail};
use semver::Version;

/// One program, built from one of the folders below `tools/`.
#[derive(Debug)]
pub(crate) struct Tool {
    /// Its name on our command line.
    pub(crate) name: &'static str,
    /// The folder below `tools/` that pins it.
    pub(crate) folder: &'static str,
    /// The module whose pinned version is the tool's version.
    pub(crate) module: &'static str,
    /// The Go package of its `main`.
    pub(crate) package: &'static str,
    /// Its file name, in the cache and on a user's PATH.
    pub(crate) binary: &'static str,
    /// The arguments that make it print its version without contacting a server. Empty for a
    /// program that would start something instead; its embedded build information counts then.
    pub(crate) version_arguments: &'static [&'static str],
    /// Its build tags, separated by commas.
    pub(crate) tags: &'static str,
    /// Whether it is built only on request by name: a part of the tier with real Talos nodes, which
    /// costs far more than the tests need.
    pub(crate) on_request: bool,
    /// Packages whose `gitVersion` and related variables the linker must set. The other tools carry
    /// their version in their sources.
    pub(crate) stamped_packages: &'static [&'static str],
}

/// The compiler flags, the same for every package of every tool, so that the tools share common
/// packages in Go's build cache. The builds are a third faster: functions are not inlined, and
/// there are no debug tables, which the linker would drop anyway (measured in
/// `docs/adr/0002-fast-feedback.md`).
pub(crate) const COMPILER_FLAGS: &str = "all=-l -dwarf=false";

const TALOS: &str = "github.com/siderolabs/talos";
const KUBERNETES: &str = "k8s.io/kubernetes";

/// A program built only for the tier with real Talos nodes.
const NODE_PART: Tool = Tool {
    name: "",
    folder: "",
    module: "",
    package: ".",
    binary: "",
    version_arguments: &[],
    tags: "",
    on_request: true,
    stamped_packages: &[],
};

const MACHINED: Tool = Tool {
    module: TALOS,
    package: "github.com/siderolabs/talos/internal/app/machined",
    binary: "machined",
    tags: "tcell_minimal,grpcnotrace",
    ..NODE_PART
};

const CONTAINERD: Tool = Tool {
    folder: "real-talos/containerd",
    module: "github.com/containerd/containerd/v2",
    tags: "no_btrfs,no_zfs",
    ..NODE_PART
};

const TALOSCTL: Tool = Tool {
    module: TALOS,
    binary: "talosctl",
    version_arguments: &["version", "--client", "--short"],
    on_request: false,
    ..NODE_PART
};

const ETCD: Tool = Tool { folder: "etcd", on_request: false, ..NODE_PART };

const KUBERNETES_COMPONENT: Tool = Tool {
    folder: "kubernetes",
    module: KUBERNETES,
    version_arguments: &["--version"],
    on_request: false,
    // A server's /version, and a client's user agent.
    stamped_packages: &["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"],
    ..NODE_PART
};

const KUBERNETES_NODE_PART: Tool =
    Tool { folder: "real-talos/kubelet", on_request: true, ..KUBERNETES_COMPONENT };

/// All tools, in build order: those for quick feedback first.
static TOOLS: [Tool; 21] = [
    Tool { name: "talosctl-1.14", folder: "talosctl-1.14", ..TALOSCTL },
    Tool { name: "talosctl-1.13", folder: "talosctl-1.13", ..TALOSCTL },
    Tool { name: "talosctl-1.12", folder: "talosctl-1.12", ..TALOSCTL },
    Tool {
        name: "etcd",
        module: "go.etcd.io/etcd/server/v3",
        package: "go.etcd.io/etcd/server/v3",
        binary: "etcd",
        version_arguments: &["--version"],
        ..ETCD
    },
    Tool {
        name: "etcdutl",
        module: "go.etcd.io/etcd/etcdutl/v3",
        package: "go.etcd.io/etcd/etcdutl/v3",
        binary: "etcdutl",
        version_arguments: &["version"],
        ..ETCD
    },
    // An S3 server, for etcd snapshots.
    Tool {
        name: "versitygw",
        folder: "versitygw",
        module: "github.com/versity/versitygw",
        package: "github.com/versity/versitygw/cmd/versitygw",
        binary: "versitygw",
        on_request: false,
        ..NODE_PART
    },
    Tool {
        name: "kube-apiserver",
        binary: "kube-apiserver",
        package: "k8s.io/kubernetes/cmd/kube-apiserver",
        ..KUBERNETES_COMPONENT
    },
    Tool {
        name: "kube-controller-manager",
        binary: "kube-controller-manager",
        package: "k8s.io/kubernetes/cmd/kube-controller-manager",
        ..KUBERNETES_COMPONENT
    },
    Tool {
        name: "kube-scheduler",
        binary: "kube-scheduler",
        package: "k8s.io/kubernetes/cmd/kube-scheduler",
        ..KUBERNETES_COMPONENT
    },
    Tool {
        name: "kubectl",
        binary: "kubectl",
        package: "k8s.io/kubernetes/cmd/kubectl",
        version_arguments: &["version", "--client"],
        ..KUBERNETES_COMPONENT
    },
    Tool { name: "node-kit", folder: "real-talos/kit", binary: "kit", ..NODE_PART },
    Tool {
        name: "node-config",
        folder: "real-talos/config",
        module: "github.com/siderolabs/talos/pkg/machinery",
        binary: "config",
        ..NODE_PART
    },
    Tool {
        name: "discovery-service",
        folder: "real-talos/discovery-service",
        module: "github.com/siderolabs/discovery-service",
        package: "github.com/siderolabs/discovery-service/cmd/discovery-service",
        binary: "discovery-service",
        ..NODE_PART
    },
    Tool {
        name: "containerd",
        package: "github.com/containerd/containerd/v2/cmd/containerd",
        binary: "containerd",
        ..CONTAINERD
    },
    Tool {
        name: "containerd-shim",
        package: "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
        binary: "containerd-shim-runc-v2",
        ..CONTAINERD
    },
    Tool {
        name: "kubelet",
        package: "k8s.io/kubernetes/cmd/kubelet",
        binary: "kubelet",
        ..KUBERNETES_NODE_PART
    },
    Tool {
        name: "kube-proxy",
        package: "k8s.io/kubernetes/cmd/kube-proxy",
        binary: "kube-proxy",
        ..KUBERNETES_NODE_PART
    },
    Tool {
        name: "coredns",
        folder: "real-talos/coredns",
        module: "github.com/coredns/coredns",
        binary: "coredns",
        ..NODE_PART
    },
    Tool {
        name: "etcd-3.7",
        folder: "real-talos/etcd-3.7",
        module: "go.etcd.io/etcd/server/v3",
        package: "go.etcd.io/etcd/server/v3",
        binary: "etcd",
        version_arguments: &["--version"],
        ..NODE_PART
    },
    Tool { name: "machined-1.13", folder: "real-talos/machined-1.13", ..MACHINED },
    Tool { name: "machined-1.14", folder: "real-talos/machined-1.14", ..MACHINED },
];

impl Tool {
    /// The linker flags: no debug tables, and the version where the sources leave it open.
    pub(crate) fn link_flags(&self, version: &Version) -> String {
        let Version { major, minor, .. } = version;
        let stamps = [
            ("gitVersion", format!("v{version}")),
            ("gitMajor", major.to_string()),
            ("gitMinor", minor.to_string()),
            ("gitTreeState", "clean".to_owned()),
        ];
        let mut flags = vec!["-s -w".to_owned()];
        for package in self.stamped_packages {
            flags.extend(stamps.iter().map(|(name, value)| format!("-X {package}.{name}={value}")));
        }
        flags.join(" ")
    }

    /// Everything besides the folder's files that shapes the binary, so that a changed recipe never
    /// reuses an old build.
    pub(crate) fn recipe(&self, version: &Version) -> String {
        let platform = (std::env::consts::OS, std::env::consts::ARCH);
        let mut recipe =
            format!("{platform:?} {} {COMPILER_FLAGS} {}", self.package, self.link_flags(version));
        if !self.tags.is_empty() {
            recipe.push(' ');
            recipe.push_str(self.tags);
        }
        recipe
    }
}

/// The tools with these names: a tool's own, or its folder's. No names mean all except those built
/// only on request.
pub(crate) fn select(names: &[&str]) -> Result<Vec<&'static Tool>> {
    for name in names {
        if !TOOLS.iter().any(|tool| tool.name == *name || tool.folder == *name) {
            let known = TOOLS.iter().map(|tool| tool.name).collect::<Vec<_>>().join(", ");
            bail!("no tool is called {name}; there are {known}");
        }
    }
    // A tool's own name wins: `etcd` is the server, not all of its folder.
    let own_name = |name: &str| TOOLS.iter().any(|tool| tool.name == name);
    Ok(TOOLS
        .iter()
        .filter(|tool| {
            (names.is_empty() && !tool.on_request)
                || names
                    .iter()
                    .any(|name| tool.name == *name || (tool.folder == *name && !own_name(name)))
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(asked: &[&str]) -> Vec<&'static str> {
        select(asked).expect("known names").into_iter().map(|tool| tool.name).collect()
    }

    #[test]
    fn a_folder_stands_for_its_tools() {
        assert_eq!(
            names(&["kubernetes"]),
            ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"],
        );
        assert_eq!(names(&["etcd"]), ["etcd"]);
        assert_eq!(names(&["kubectl", "talosctl-1.12"]), ["talosctl-1.12", "kubectl"]);
        assert_eq!(names(&[]).len(), 10);
        assert_eq!(names(&["real-talos/kubelet"]), ["kubelet", "kube-proxy"]);
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let error = select(&["talosctl"]).expect_err("three of them, so none").to_string();
        assert!(error.contains("talosctl-1.14"), "{error}");
    }

    #[test]
    fn only_kubernetes_is_stamped() {
        let version = Version::new(1, 36, 4);
        let [kubectl] = select(&["kubectl"]).expect("a tool")[..] else { panic!("one tool") };
        let flags = kubectl.link_flags(&version);
        assert!(flags.contains("-X k8s.io/component-base/version.gitVersion=v1.36.4"), "{flags}");
        assert!(flags.contains("-X k8s.io/component-base/version.gitMinor=36"), "{flags}");
        let [etcd] = select(&["etcd"]).expect("a tool")[..] else { panic!("one tool") };
        assert_eq!(etcd.link_flags(&version), "-s -w");
    }
}
