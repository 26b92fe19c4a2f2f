//! The read-only root filesystem of a Talos release.
//!
//! Real nodes have it as a squashfs image. Here it is a folder: the built programs,
//! the configuration files from the release's own sources, and a few of Debian's.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::parts::{Parts, link, succeed};
use crate::tools;

const FOLDERS: &str = "boot/EFI dev proc sys run tmp root mnt system old var .extra \
    opt/cni/bin opt/containerd/bin opt/containerd/lib \
    etc/iscsi etc/nvme etc/cri/conf.d/hosts etc/kubernetes/manifests etc/cni/net.d etc/ssl/certs \
    etc/selinux/targeted/contexts/files etc/containerd etc/lvm \
    usr/bin usr/lib usr/lib64 usr/etc usr/local/share usr/libexec/kubernetes usr/share/spdx \
    usr/share/zoneinfo/Etc usr/lib/firmware usr/lib/modules \
    usr/local/lib/kubelet/credentialproviders";

/// Files that must exist so that Talos can mount something over them.
const EMPTY_FILES: &str = "etc/extensions.yaml etc/resolv.conf etc/hosts etc/machine-id \
    etc/cri/conf.d/cri.toml etc/cri/conf.d/01-registries.part \
    etc/cri/conf.d/20-customization.part etc/cri/conf.d/base-spec.json \
    etc/ssl/certs/ca-certificates.crt etc/selinux/targeted/contexts/files/file_contexts \
    etc/iscsi/initiatorname.iscsi etc/nvme/hostid etc/nvme/hostnqn";

const LINKS: [(&str, &str); 11] = [
    ("bin", "usr/bin"),
    ("sbin", "usr/bin"),
    ("lib", "usr/lib"),
    ("lib64", "usr/lib64"),
    ("usr/sbin", "bin"),
    ("etc/localtime", "/usr/share/zoneinfo/Etc/UTC"),
    ("etc/ssl/certs/ca-certificates", "ca-certificates.crt"),
    ("etc/pki", "/etc/ssl"),
    ("usr/share/ca-certificates", "/etc/ssl"),
    ("usr/local/share/ca-certificates", "/etc/ssl"),
    ("etc/ca-certificates", "/etc/ssl"),
];

/// Files of the release's sources, and their destinations.
const SOURCES: [(&str, &str); 6] = [
    ("hack/zoneinfo/Etc/UTC", "usr/share/zoneinfo/Etc/UTC"),
    ("hack/nfsmount.conf", "etc/nfsmount.conf"),
    ("hack/containerd.toml", "etc/containerd/config.toml"),
    ("hack/cri-containerd.toml", "etc/cri/containerd.toml"),
    ("hack/cri-plugin.part", "etc/cri/conf.d/00-base.part"),
    ("hack/lvm.conf", "etc/lvm/lvm.conf"),
];

/// Builds the root of one release; `packages` holds the unpacked Debian packages.
pub(super) fn build(parts: &Parts, tool: &str, packages: &Path, root: &Path) -> Result<()> {
    for folder in FOLDERS.split_whitespace() {
        fs::create_dir_all(root.join(folder)).with_context(|| format!("creating {folder}"))?;
    }
    for (place, target) in LINKS {
        link(&root.join(place), target)?;
    }
    for file in EMPTY_FILES.split_whitespace() {
        fs::write(root.join(file), "")?;
    }
    fs::write(root.join("etc/hostname"), "talos\n")?;
    fs::write(root.join("usr/etc/in-container"), "true\n")?;
    from_sources(tool, root)?;

    copy(parts.tool(tool)?, &root.join("usr/bin/init"))?;
    for name in ["poweroff", "shutdown", "reboot", "dashboard"] {
        link(&root.join("usr/bin").join(name), "init")?;
    }
    copy(parts.tool("containerd")?, &root.join("usr/bin/containerd"))?;
    copy(parts.tool("containerd-shim")?, &root.join("usr/bin/containerd-shim-runc-v2"))?;
    copy(parts.tool("node-kit")?, &root.join("usr/bin/runc"))?;
    copy(&packages.join("usr/sbin/runc"), &root.join("usr/bin/runc.real"))?;
    copy(&packages.join("bin/busybox"), &root.join("usr/bin/busybox"))?;
    for name in ["sh", "ls", "cat", "ps", "mount", "umount"] {
        link(&root.join("usr/bin").join(name), "busybox")?;
    }
    // The libraries of runc: in Debian's paths, behind our links.
    for (from, to) in [
        ("lib/.", "usr/lib"),
        ("usr/lib/.", "usr/lib"),
        ("lib64/.", "usr/lib64"),
        ("usr/lib/cni/.", "opt/cni/bin"),
    ] {
        let from = packages.join(from);
        if from.is_dir() {
            succeed(
                Command::new("cp")
                    .args(["-a", "--remove-destination"])
                    .arg(from)
                    .arg(root.join(to)),
            )?;
        }
    }
    Ok(())
}

fn from_sources(tool: &str, root: &Path) -> Result<()> {
    let talos = tools::sources(tool, "github.com/siderolabs/talos")?;
    let machinery = tools::sources(tool, "github.com/siderolabs/talos/pkg/machinery")?;
    let files = SOURCES.iter().map(|(from, to)| (talos.join(from), *to));
    let release = (machinery.join("version/os-release"), "etc/os-release");
    for (from, to) in files.chain([release]) {
        // Read and written instead of copied: files in Go's cache are read-only.
        let contents = fs::read(&from).with_context(|| format!("reading {}", from.display()))?;
        fs::write(root.join(to), contents)?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("copying {}", from.display()))?;
    Ok(())
}
