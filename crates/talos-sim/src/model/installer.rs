//! Installing another version: the lifecycle API, the legacy call, and the rules of the new
//! version.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use talos_proto::machine;
use talos_proto::machine::lifecycle_service_install_progress::Response as Progress;
use upgrade_core::version::Version;

use super::World;
use super::api::{NodeIndex, Reply, Status, StreamId};
use super::config::{Rules, check_images};
use super::fault::{Fault, FaultKind};
use super::images::Place;
use super::node::Power;
use super::pull::Then;
use super::registry::MATRIX;
use super::schedule::Due;
use super::sequence::Kind;
use super::slots::Installed;
use super::streams::Stream;
use super::time::Time;
use super::timing::Span;

/// The installer's exit code for invalid input.
const INVALID_INPUT: i32 = 2;
const ENVIRONMENT: i32 = 4;

/// A running installer. It continues to its end even if its caller is gone: a node whose caller
/// lost the connection may still become armed (this is why rule 8 matters).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Install {
    #[serde(skip)]
    stream: Option<StreamId>,
    new: Installed,
    /// Its output, in the chunks in which it arrives.
    pieces: Vec<String>,
    said: usize,
    code: i32,
    /// Whether it switches the default to the new version before it exits.
    switches: bool,
    each: Duration,
}

/// The output and exit code of an installer.
struct Run {
    lines: Vec<String>,
    code: i32,
    switches: bool,
}

/// The largest chunk of an installer's output that a node sends at once.
const PIECE: usize = 512;

/// Output as a node sends it: the contents of its buffer, not lines.
fn pieces(lines: &[String]) -> Vec<String> {
    let text: Vec<char> = lines.iter().flat_map(|line| line.chars().chain(['\n'])).collect();
    let length = text.len().div_ceil(lines.len().max(1)).clamp(1, PIECE / 4);
    text.chunks(length).map(|piece| piece.iter().collect()).collect()
}

impl World {
    /// Runs the checks of an installer: first the configuration by the rules of the new version,
    /// then the version of the host (rule 13).
    fn run_installer(&self, node: NodeIndex, new: &Installed) -> Run {
        let here = &self.nodes[node.0];
        let mut lines = vec![format!("running Talos installer {}", new.version.tag())];
        let mut run = |code: i32, last: String| {
            lines.push(last);
            Run { lines: std::mem::take(&mut lines), code, switches: false }
        };
        if let Some(Fault::InstallerExit { code }) = self.fault(node, FaultKind::InstallerExit) {
            return run(*code, format!("Error: simulated failure, exit code {code}"));
        }
        let rules = Rules { role: here.role, talos: &new.version };
        let problems = check_images(|minor| here.config.components_of(minor), &rules);
        if let Some(problem) = problems.first() {
            let last = format!("Error: config validation failed: {problem}");
            return run(INVALID_INPUT, last);
        }
        if let Err(problem) = host_rule(here.version(), &new.version) {
            let last = format!("Error: pre-flight checks failed: {problem}");
            return run(ENVIRONMENT, last);
        }
        lines.extend([
            "running pre-flight checks".to_owned(),
            format!("host Talos version: {}", here.version().tag()),
            "all pre-flight checks successful".to_owned(),
            format!("writing boot entry Talos-{}.efi", new.version.tag()),
        ]);
        if let Some(Fault::InstallerExitLate { code }) =
            self.fault(node, FaultKind::InstallerExitLate)
        {
            // As with firmware whose variables are full or locked: the default is already switched.
            lines.push("updating EFI variables".to_owned());
            lines.push(format!("Error: failed to create boot entry: simulated, exit code {code}"));
            return Run { lines, code: *code, switches: true };
        }
        lines.extend([
            "updating META".to_owned(),
            format!("installation of {} complete", new.version.tag()),
        ]);
        Run { lines, code: 0, switches: true }
    }

    /// Another client runs an installer of this image on the node, from start to end at once, and
    /// does not reboot it; `false` if the image is not available.
    pub fn arm(&mut self, now: Time, node: NodeIndex, image: &str) -> bool {
        self.advance(now);
        let Some(new) = self.installer_of(image) else { return false };
        if self.nodes[node.0].power != Power::On {
            return false;
        }
        self.nodes[node.0].slots.install(new);
        self.settle();
        true
    }

    /// `LifecycleService.Upgrade`.
    pub(super) fn lifecycle_upgrade(
        &mut self,
        node: NodeIndex,
        request: &machine::LifecycleServiceUpgradeRequest,
    ) -> Reply {
        match self.start_install(node, request) {
            Ok(stream) => Reply::Stream(stream),
            Err(status) => status.into(),
        }
    }

    fn start_install(
        &mut self,
        node: NodeIndex,
        request: &machine::LifecycleServiceUpgradeRequest,
    ) -> Result<StreamId, Status> {
        if self.nodes[node.0].install.is_some() {
            return Err(Status::failed_precondition(
                "another installation/upgrade is already in progress",
            ));
        }
        if self.nodes[node.0].in_container() {
            return Err(Status::failed_precondition("upgrade is not supported in container mode"));
        }
        let reference = request
            .source
            .as_ref()
            .map(|source| source.image_name.as_str())
            .filter(|reference| !reference.is_empty())
            .ok_or_else(|| Status::invalid_argument("installer image name is required"))?;
        let place = Place::of_instance(request.containerd.as_ref())?;
        if !self.has_image(node, place, reference) {
            return Err(Status::internal(format!(
                "upgrade failed: installer image {reference:?} not found in containerd store: \
                 image {reference:?}: not found"
            )));
        }
        let new = self.installs(node, place, reference).ok_or_else(|| {
            Status::internal(
                "upgrade failed: failed to start task: exec: \"/bin/installer\": stat \
                 /bin/installer: no such file or directory",
            )
        })?;
        let Run { lines, code, switches } = self.run_installer(node, &new);
        let total = if switches { self.draw(node, Span::Install) } else { Duration::from_secs(2) };
        let pieces = pieces(&lines);
        let each = total / u32::try_from(pieces.len()).unwrap_or(1).max(1);
        let stream = self.open(node, Stream::Installer);
        let here = &mut self.nodes[node.0];
        here.install =
            Some(Install { stream: Some(stream), new, pieces, said: 0, code, switches, each });
        here.installs += 1;
        let boot = here.boot;
        self.schedule.put(self.now.plus(each), Due::Install { node, boot });
        Ok(stream)
    }

    /// The installer sends its next chunk, or exits.
    pub(super) fn step_install(&mut self, node: NodeIndex) {
        let Some(install) = &mut self.nodes[node.0].install else {
            return;
        };
        let piece = install.pieces.get(install.said).cloned();
        install.said += 1;
        let install = install.clone();
        let respond = |progress| machine::LifecycleServiceUpgradeResponse {
            progress: Some(machine::LifecycleServiceInstallProgress { response: Some(progress) }),
        };
        if let (Some(piece), Some(stream)) = (piece, install.stream) {
            self.send(stream, respond(Progress::Message(piece)));
        }
        if install.said < install.pieces.len() {
            let boot = self.nodes[node.0].boot;
            let due = Due::Install { node, boot };
            self.schedule.put(self.now.plus(install.each), due);
            return;
        }
        self.nodes[node.0].install = None;
        if install.switches {
            self.nodes[node.0].slots.install(install.new);
        }
        if let Some(stream) = install.stream {
            self.send(stream, respond(Progress::ExitCode(install.code)));
            self.end(stream, Ok(()));
        }
    }

    /// The installer as part of a sequence: it runs at once, and an error is fatal.
    pub(super) fn install_in_sequence(
        &mut self,
        node: NodeIndex,
        image: &str,
    ) -> Result<(), String> {
        let new = self
            .installer_of(image)
            .ok_or_else(|| format!("failed to pull image {image:?}: not found"))?;
        let Run { lines, code, switches } = self.run_installer(node, &new);
        if switches {
            self.nodes[node.0].slots.install(new);
        }
        if code != 0 {
            let last = lines.last().cloned().unwrap_or_default();
            return Err(format!("task \"upgrade\" failed: exit code {code}: {last}"));
        }
        Ok(())
    }

    /// The legacy `Upgrade`: the image is pulled and validated before the answer.
    pub(super) fn upgrade(&mut self, node: NodeIndex, request: machine::UpgradeRequest) -> Reply {
        if self.nodes[node.0].in_container() {
            return not_in_container();
        }
        let image = request.image.clone();
        if image.parse::<upgrade_core::image::ImageRef>().is_err() {
            return Status::unknown(format!(
                "error validating installer image {image:?}: invalid reference format"
            ))
            .into();
        }
        self.pull(node, Place::InMemory, image, Then::Upgrade(Box::new(request)))
    }

    pub(super) fn upgrade_after_pull(
        &mut self,
        node: NodeIndex,
        stream: StreamId,
        request: machine::UpgradeRequest,
    ) {
        let checked = self.check_legacy_upgrade(node, &request);
        if let Err(status) = checked {
            self.end(stream, Err(status));
            return;
        }
        let actor_id = self.random.uuid();
        self.send(
            stream,
            machine::UpgradeResponse {
                messages: vec![machine::Upgrade {
                    metadata: None,
                    ack: "Upgrade request received".to_owned(),
                    actor_id: actor_id.clone(),
                }],
            },
        );
        self.end(stream, Ok(()));
        if self.fault(node, FaultKind::LostReboot).is_some() {
            return;
        }
        let kexec = request.reboot_mode() == machine::upgrade_request::RebootMode::Default;
        let kind = if request.stage {
            self.nodes[node.0].staged_upgrade = Some(request.image);
            Kind::StageUpgrade { kexec }
        } else {
            let wipes = !request.preserve && self.nodes[node.0].minor() < KEEPS_DATA;
            Kind::Upgrade { image: request.image, kexec, wipes }
        };
        self.start_sequence(node, kind, &actor_id, false);
    }

    fn check_legacy_upgrade(
        &self,
        node: NodeIndex,
        request: &machine::UpgradeRequest,
    ) -> Result<(), Status> {
        let image = &request.image;
        if self.installer_of(image).is_none() {
            return Err(Status::unknown(format!(
                "error validating installer image {image:?}: installer help returned non-zero \
                 exit. assuming invalid installer"
            )));
        }
        let here = &self.nodes[node.0];
        let skipped = request.force || (request.preserve && preserve_skips_checks(here.version()));
        if here.is_control_plane() && !skipped {
            let wipes = !request.preserve && here.minor() < KEEPS_DATA;
            self.validate_etcd_for_upgrade(node, wipes)?;
        }
        Ok(())
    }
}

impl World {
    /// Wipes the node's EPHEMERAL partition; the node has left etcd.
    pub(super) fn wipe(&mut self, node: NodeIndex) {
        let here = &mut self.nodes[node.0];
        here.wiped += 1;
        here.images.clear();
        if let Some(member) = self.etcd.member_of(node).map(|member| member.id) {
            self.remove_member(member);
        }
    }
}

/// The answer of Talos in a container to every call that needs a machine.
pub(super) fn not_in_container() -> Reply {
    Status::failed_precondition("method is not supported in container mode").into()
}

/// The first minor of Talos 1 whose upgrade keeps the EPHEMERAL partition, whatever `preserve`
/// says.
const KEEPS_DATA: u64 = 8;

/// Whether `preserve` skips the etcd checks: since 1.12.9 and 1.13.4.
fn preserve_skips_checks(version: &Version) -> bool {
    let line = version.minor();
    let since = if line == Version::new(1, 12, 0).minor() {
        Version::new(1, 12, 9)
    } else {
        Version::new(1, 13, 4)
    };
    version.release() >= since
}

/// Whether the new version accepts the running one (rule 13).
fn host_rule(host: &Version, new: &Version) -> Result<(), String> {
    let row = MATRIX
        .row(new.minor())
        .ok_or_else(|| format!("upgrades to version {new} are not supported"))?;
    if row.accepts_host(host) {
        return Ok(());
    }
    Err(if host.release() < row.host_min {
        format!("host version {host} is too old to upgrade to Talos {new}")
    } else {
        format!("host version {host} is too new to downgrade to Talos {new}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preserve_skips_checks_on_newer_patches_only() {
        for (version, skips) in [
            ("1.11.6", false),
            ("1.12.8", false),
            ("1.12.9", true),
            ("1.13.3", false),
            ("1.13.4", true),
            ("1.14.0", true),
        ] {
            assert_eq!(preserve_skips_checks(&version.parse().unwrap()), skips, "{version}");
        }
    }
}
