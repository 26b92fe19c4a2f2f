//! The parts of the nodes: root filesystems and container images, assembled once from the built
//! programs and a few Debian packages.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use semver::Version;
use sha2::{Digest, Sha256};

use super::root;
use crate::tools::{self, host};

/// The tools that contain the Talos of the nodes, oldest first.
const TALOS: [&str; 2] = ["machined-1.13", "machined-1.14"];

/// All other tools.
const TOOLS: [&str; 17] = [
    "node-kit",
    "node-config",
    "discovery-service",
    "containerd",
    "containerd-shim",
    "kubelet",
    "kube-proxy",
    "coredns",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "etcd",
    "etcd-3.7",
    "etcdutl",
    "kubectl",
    "talosctl-1.13",
    "talosctl-1.14",
];

/// The version of the assembly below: a change invalidates what was assembled before.
const RECIPE: &str = "3";

/// Packages for the nodes' own root, and for the image of kube-proxy.
const RUNC: [&str; 5] =
    ["runc", "busybox-static", "containernetworking-plugins", "libseccomp2", "libc6"];
const NFTABLES: [&str; 12] = [
    "nftables",
    "libnftables1",
    "libnftnl11",
    "libmnl0",
    "libjansson4",
    "libedit2",
    "libbsd0",
    "libmd0",
    "libtinfo6",
    "libxtables12",
    "libgmp10",
    "libc6",
];

/// The image tags that each Talos release uses. The programs behind them are those of the same
/// minor that `tools/` pins.
const ETCD_TAGS: [(&str, &str); 2] = [("etcd", "v3.6.12"), ("etcd-3.7", "3.7.1,v3.7.1")];
const PAUSE_TAGS: &str = "3.10.1,3.10.2";

/// The exit code of the installer that fails.
pub(super) const INSTALLER_EXIT: u8 = 7;

/// All parts, ready.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) tools: BTreeMap<&'static str, PathBuf>,
    /// Root filesystems by Talos version.
    pub(super) roots: BTreeMap<String, PathBuf>,
    /// The images in the registry.
    pub(super) images: PathBuf,
    /// The Talos releases, oldest first.
    pub(super) talos: [Version; 2],
    /// The Kubernetes releases. The older one is the newer one with another version number in it.
    pub(super) kubernetes: [Version; 2],
}

impl Parts {
    /// Builds what is missing.
    pub(super) fn ensure() -> Result<Self> {
        let names: Vec<&str> = TOOLS.iter().copied().chain(TALOS).collect();
        let tools = tools::ensure(&names)?;
        let newest = tools::pinned("kubelet")?;
        let oldest = Version { minor: newest.minor - 1, ..newest.clone() };
        let talos = [tools::pinned(TALOS[0])?, tools::pinned(TALOS[1])?];
        let place = place(&tools)?;
        let parts = Self {
            roots: talos
                .iter()
                .map(|version| (version.to_string(), place.join("roots").join(version.to_string())))
                .collect(),
            images: place.join("images"),
            tools,
            talos,
            kubernetes: [oldest, newest],
        };
        if !place.is_dir() {
            // Another command may be assembling them.
            let lock = File::create(place.with_extension("lock")).context("creating a lock")?;
            lock.lock().context("waiting for another command")?;
            if !place.is_dir() {
                parts.put_together(&place)?;
            }
        }
        Ok(parts)
    }

    /// The program of a tool.
    pub(super) fn tool(&self, name: &str) -> Result<&Path> {
        self.tools.get(name).map(PathBuf::as_path).with_context(|| format!("no {name} was built"))
    }

    /// Assembles everything in a temporary folder, and renames it.
    fn put_together(&self, place: &Path) -> Result<()> {
        let began = host::now();
        host::note("real-talos: putting root filesystems and images together");
        let partial = place.with_extension("partial");
        if partial.exists() {
            fs::remove_dir_all(&partial).context("removing an unfinished build")?;
        }
        let packages = partial.join("packages");
        unpack(&packages.join("runc"), &RUNC)?;
        unpack(&packages.join("nftables"), &NFTABLES)?;
        for (tool, version) in TALOS.iter().zip(&self.talos) {
            let target = partial.join("roots").join(version.to_string());
            root::build(self, tool, &packages.join("runc"), &target)
                .with_context(|| format!("the root filesystem of Talos {version}"))?;
        }
        self.write_images(&partial.join("images"), &packages, &partial.join("stamped"))?;
        for leftover in ["packages", "stamped"] {
            fs::remove_dir_all(partial.join(leftover))
                .context("removing what only the build needed")?;
        }
        fs::rename(&partial, place).context("moving the parts into place")?;
        host::note(&format!("real-talos: put together in {:.0?}", began.elapsed()));
        Ok(())
    }

    fn write_images(&self, images: &Path, packages: &Path, stamped: &Path) -> Result<()> {
        let kit = self.tool("node-kit")?;
        let write = |name: &str, tags: &str, items: &[String]| -> Result<()> {
            let mut command = Command::new(kit);
            command.arg("image").arg(images).args([name, tags]).args(items);
            succeed(&mut command).with_context(|| format!("the image {name}"))
        };
        let file = |source: &Path, place: &str| format!("file:{}={place}", source.display());
        let text = |item: &str| item.to_owned();

        for (tool, tags) in ETCD_TAGS {
            let program = file(self.tool(tool)?, "usr/local/bin/etcd");
            write("etcd", tags, &[program, text("dir:var/lib/etcd"), text("dir:tmp")])?;
        }
        write("pause", PAUSE_TAGS, &[file(kit, "pause"), text("entrypoint:/pause")])?;
        let tags = TALOS.map(|tool| constant(tool, "DefaultCoreDNSVersion"));
        let tags = tags.into_iter().collect::<Result<Vec<_>>>()?.join(",");
        let items = [file(self.tool("coredns")?, "coredns"), text("entrypoint:/coredns")];
        write("coredns/coredns", &tags, &items)?;
        for version in &self.talos {
            self.write_installers(&write, version)?;
        }
        let library = |kind: &str| -> Vec<String> {
            ["lib", "usr/lib", "lib64", "usr/sbin"]
                .into_iter()
                .filter(|folder| packages.join(kind).join(folder).is_dir())
                .map(|folder| {
                    format!("tree:{}={folder}", packages.join(kind).join(folder).display())
                })
                .collect()
        };
        for version in &self.kubernetes {
            let tag = format!("v{version}");
            let program = |name: &str| self.stamp(name, version, stamped);
            let accounts =
                [text("text:etc/passwd=root:x:0:0:root:/root:/bin/sh\n"), text("dir:tmp")];
            for name in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
                let binary = format!("usr/local/bin/{name}");
                let mut items = accounts.to_vec();
                items.extend([file(&program(name)?, &binary), format!("entrypoint:/{binary}")]);
                write(name, &tag, &items)?;
            }
            let mut items = accounts.to_vec();
            items.extend(library("nftables"));
            items.extend([file(&program("kube-proxy")?, "usr/local/bin/kube-proxy")]);
            write("kube-proxy", &tag, &items)?;

            let busybox = packages.join("runc/bin/busybox");
            let mut items = accounts.to_vec();
            items.extend([
                file(&program("kubelet")?, "usr/local/bin/kubelet"),
                file(&busybox, "bin/busybox"),
                text("text:etc/group=root:x:0:\n"),
                text("entrypoint:/usr/local/bin/kubelet"),
                text("link:var/run=/run"),
            ]);
            items.extend(["sh", "mount", "umount"].map(|name| format!("link:bin/{name}=busybox")));
            items.extend(
                ["var/lib", "run", "usr/bin", "usr/sbin", "sbin"].map(|name| format!("dir:{name}")),
            );
            write("siderolabs/kubelet", &tag, &items)?;
        }
        Ok(())
    }

    /// The installer of a release, one that fails, and a slow one.
    fn write_installers(
        &self,
        write: &impl Fn(&str, &str, &[String]) -> Result<()>,
        version: &Version,
    ) -> Result<()> {
        let program = format!("file:{}=bin/installer", self.tool("node-kit")?.display());
        let plain =
            [program, format!("text:version={version}"), "entrypoint:/bin/installer".to_owned()];
        let tag = format!("v{version}");
        let with = |item: String| [&plain[..], &[item]].concat();
        write("siderolabs/installer", &tag, &plain)?;
        write("failing/installer", &tag, &with(format!("text:exit={INSTALLER_EXIT}")))?;
        write("slow/installer", &tag, &with("text:seconds=20".to_owned()))
    }

    /// A Kubernetes program with another version number.
    fn stamp(&self, name: &str, version: &Version, folder: &Path) -> Result<PathBuf> {
        let path = self.tool(name)?;
        let [_, newest] = &self.kubernetes;
        if version == newest {
            return Ok(path.to_owned());
        }
        let target = folder.join(version.to_string()).join(name);
        fs::create_dir_all(target.parent().context("a folder")?)?;
        restamp(path, newest, version, &target)?;
        let new = format!("v{version}");
        let output = Command::new(&target).arg("--version").output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        if !said.contains(&new) {
            bail!("{name} still says {}", said.trim());
        }
        Ok(target)
    }
}

/// Writes a copy of a program with another version number. It is replaced in place, so it must have
/// the same length.
fn restamp(from: &Path, built: &Version, wanted: &Version, to: &Path) -> Result<()> {
    let (old, new) = (format!("v{built}"), format!("v{wanted}"));
    if old.len() != new.len() {
        bail!("{new} cannot stand in the place of {old}");
    }
    let mut contents = fs::read(from).with_context(|| format!("reading {}", from.display()))?;
    let mut replaced = 0;
    for at in 0..contents.len().saturating_sub(old.len() - 1) {
        if contents[at] == b'v' && contents[at..].starts_with(old.as_bytes()) {
            contents[at..at + new.len()].copy_from_slice(new.as_bytes());
            replaced += 1;
        }
    }
    if replaced == 0 {
        bail!("{} does not hold its version {old}", from.display());
    }
    fs::write(to, contents)?;
    succeed(Command::new("chmod").arg("755").arg(to))
}

/// The folder of the parts, named after all of its inputs.
fn place(tools: &BTreeMap<&'static str, PathBuf>) -> Result<PathBuf> {
    let mut hasher = Sha256::new();
    hasher.update(RECIPE);
    for path in tools.values() {
        hasher.update(path.as_os_str().as_encoded_bytes());
    }
    let hash =
        hasher.finalize()[..6].iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    Ok(host::cache_folder()?.join(format!("real-talos-{hash}")))
}

/// A text constant of the release's own sources.
fn constant(tool: &str, name: &str) -> Result<String> {
    let machinery = tools::sources(tool, "github.com/siderolabs/talos/pkg/machinery")?;
    let text = fs::read_to_string(machinery.join("constants/constants.go"))?;
    let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{name} = ")));
    let value = line.and_then(|line| line.split('"').nth(1));
    value.map(str::to_owned).with_context(|| format!("{tool} has no constant {name}"))
}

/// Fetches Debian packages and unpacks them into a folder.
fn unpack(folder: &Path, packages: &[&str]) -> Result<()> {
    let archives = folder.with_extension("archives");
    for path in [folder, &archives] {
        fs::create_dir_all(path).with_context(|| format!("creating {}", path.display()))?;
    }
    succeed(Command::new("apt-get").current_dir(&archives).arg("download").args(packages))
        .context("fetching Debian packages; `apt-get update` may help")?;
    for archive in fs::read_dir(&archives)? {
        succeed(Command::new("dpkg-deb").arg("-x").arg(archive?.path()).arg(folder))?;
    }
    Ok(())
}

/// Runs a command to its end, and shows its output if it fails.
pub(super) fn succeed(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("running {command:?}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} ended with {}: {}", command.get_program().display(), output.status, said.trim());
    }
    Ok(())
}

/// A symbolic link, with the folders above it.
pub(super) fn link(place: &Path, target: &str) -> Result<()> {
    fs::create_dir_all(place.parent().context("a folder")?)?;
    symlink(target, place).with_context(|| format!("linking {}", place.display()))
}
