//! The calls that read from a node or change its state: reboot, shutdown, rollback, services.

use std::time::Duration;

use bytes::Bytes;
use talos_proto::machine::reboot_request::Mode;
use talos_proto::{common, machine};

use super::World;
use super::api::{NodeIndex, Reply, Response, Status};
use super::fault::FaultKind;
use super::installer::not_in_container;
use super::schedule::Due;
use super::sequence::Kind;
use super::streams::Stream;

/// In KiB.
const MEMORY: u64 = 8 * 1024 * 1024;

/// The EFI variable of systemd-boot that names the entry to boot next.
const DEFAULT_ENTRY: &str =
    "/sys/firmware/efi/efivars/LoaderEntryDefault-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

/// A variable as Linux shows it: attributes (non-volatile, boot and runtime access), then the text
/// in UTF-16, terminated by a zero.
fn variable(text: &str) -> Response {
    let units = text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes);
    data([7, 0, 0, 0].into_iter().chain(units).collect::<Vec<u8>>())
}

fn data(text: impl Into<Bytes>) -> Response {
    Response::Data(common::Data { metadata: None, bytes: text.into() })
}

impl World {
    pub(super) fn version(&self, node: NodeIndex) -> machine::VersionResponse {
        let here = &self.nodes[node.0];
        machine::VersionResponse {
            messages: vec![machine::Version {
                metadata: None,
                version: Some(machine::VersionInfo {
                    tag: here.version().tag(),
                    sha: "51a1a7ed".to_owned(),
                    built: String::new(),
                    go_version: "go1.26.7".to_owned(),
                    os: "linux".to_owned(),
                    arch: "amd64".to_owned(),
                }),
                platform: Some(machine::PlatformInfo {
                    name: here.runs_as().to_owned(),
                    mode: here.mode().to_owned(),
                }),
                features: Some(machine::FeaturesInfo { rbac: true }),
            }],
        }
    }

    pub(super) fn hostname(&self, node: NodeIndex) -> machine::HostnameResponse {
        machine::HostnameResponse {
            messages: vec![machine::Hostname {
                metadata: None,
                hostname: self.nodes[node.0].hostname.clone(),
            }],
        }
    }

    pub(super) fn system_stat(&self, node: NodeIndex) -> machine::SystemStatResponse {
        machine::SystemStatResponse {
            messages: vec![machine::SystemStat {
                boot_time: self.nodes[node.0].booted.as_secs(),
                process_created: 4_000,
                process_running: 2,
                ..Default::default()
            }],
        }
    }

    pub(super) fn load_average() -> machine::LoadAvgResponse {
        machine::LoadAvgResponse {
            messages: vec![machine::LoadAvg {
                metadata: None,
                load1: 0.21,
                load5: 0.18,
                load15: 0.15,
            }],
        }
    }

    pub(super) fn memory() -> machine::MemoryResponse {
        machine::MemoryResponse {
            messages: vec![machine::Memory {
                metadata: None,
                meminfo: Some(machine::MemInfo {
                    memtotal: MEMORY,
                    memfree: MEMORY / 4,
                    memavailable: MEMORY / 2,
                    buffers: MEMORY / 64,
                    cached: MEMORY / 4,
                }),
            }],
        }
    }

    pub(super) fn mounts() -> machine::MountsResponse {
        let mount = |filesystem: &str, size: u64, mounted_on: &str| machine::MountStat {
            filesystem: filesystem.to_owned(),
            size,
            available: size / 2,
            mounted_on: mounted_on.to_owned(),
        };
        machine::MountsResponse {
            messages: vec![machine::Mounts {
                metadata: None,
                stats: vec![
                    mount("/dev/loop0", 80 << 20, "/"),
                    mount("/dev/sda5", 100 << 20, "/system/state"),
                    mount("/dev/sda6", 20 << 30, "/var"),
                ],
            }],
        }
    }

    pub(super) fn disk_stats() -> machine::DiskStatsResponse {
        let disk = machine::DiskStat {
            name: "sda".to_owned(),
            read_completed: 20_000,
            read_sectors: 1_600_000,
            write_completed: 90_000,
            write_sectors: 4_000_000,
            io_in_progress: 0,
        };
        machine::DiskStatsResponse {
            messages: vec![machine::DiskStats {
                metadata: None,
                total: Some(disk.clone()),
                devices: vec![disk],
            }],
        }
    }

    /// `Read`: the few files that tools read.
    pub(super) fn read(&self, node: NodeIndex, path: &str) -> Reply {
        let here = &self.nodes[node.0];
        let version = here.version();
        let text = match path {
            "/proc/sys/kernel/random/boot_id" => format!("{}\n", here.boot_id),
            "/etc/os-release" => format!(
                "NAME=\"Talos\"\nID=talos\nVERSION_ID={tag}\nPRETTY_NAME=\"Talos ({tag})\"\n\
                 HOME_URL=\"https://www.talos.dev/\"\nVENDOR_NAME=\"Sidero Labs\"\n",
                tag = version.tag()
            ),
            "/etc/hostname" | "/proc/sys/kernel/hostname" => format!("{}\n", here.hostname),
            "/proc/version" => "Linux version 6.18.0-talos (simulated)\n".to_owned(),
            "/proc/cmdline" => format!("talos.platform={} console=tty0\n", here.runs_as()),
            DEFAULT_ENTRY if !here.grub => {
                return Reply::Items(vec![variable(here.slots.default_entry())]);
            }
            "/proc/uptime" => {
                let up = self.now.since(here.booted).as_secs();
                format!("{up}.00 {up}.00\n")
            }
            "/etc" | "/proc" | "/" | "/var" | "/etc/kubernetes" => {
                return Status::unknown("path must be a regular file").into();
            }
            _ => {
                return Status::not_found(format!("stat {path}: no such file or directory")).into();
            }
        };
        Reply::Items(vec![data(text)])
    }

    pub(super) fn dmesg(&mut self, node: NodeIndex, request: machine::DmesgRequest) -> Reply {
        let here = &self.nodes[node.0];
        let at = here.booted.to_jiff();
        let line = |text: &str| format!("kern:    info: [{at}]: {text}\n");
        let mut lines = vec![
            line("Linux version 6.18.0-talos (simulated)"),
            line(&format!("[talos] booting Talos {}", here.version().tag())),
        ];
        if here.service_runs("kubelet") {
            lines.push(line("[talos] service[kubelet](Running): Health check successful"));
        }
        if request.tail {
            lines.clear();
        }
        self.text(node, lines, request.follow)
    }

    /// A stream of lines that ends, or stays open to follow.
    fn text(&mut self, node: NodeIndex, lines: Vec<String>, follow: bool) -> Reply {
        let items: Vec<Response> = lines.into_iter().map(data).collect();
        if !follow {
            return Reply::Items(items);
        }
        let stream = self.open(node, Stream::Follow);
        for item in items {
            self.send(stream, item);
        }
        Reply::Stream(stream)
    }

    pub(super) fn logs(&mut self, node: NodeIndex, request: &machine::LogsRequest) -> Reply {
        let here = &self.nodes[node.0];
        let known = request.id == "machined" || here.service(&request.id).is_some();
        if !known && (request.namespace == "system" || request.namespace.is_empty()) {
            return Status::unknown(format!("log {:?} was not registered", request.id)).into();
        }
        if !known {
            return Status::unknown(format!("container {:?} not found", request.id)).into();
        }
        let at = here.booted.to_jiff();
        let mut lines = vec![
            format!("{at} {}: starting\n", request.id),
            format!("{at} {}: running on {}\n", request.id, here.hostname),
        ];
        if let Ok(tail) = usize::try_from(request.tail_lines) {
            let skip = lines.len().saturating_sub(tail);
            lines.drain(..skip);
        }
        self.text(node, lines, request.follow)
    }

    pub(super) fn logs_containers(&self, node: NodeIndex) -> machine::LogsContainersResponse {
        machine::LogsContainersResponse {
            messages: vec![machine::LogsContainer {
                metadata: None,
                ids: self.nodes[node.0]
                    .services
                    .iter()
                    .map(|service| service.id.to_string())
                    .collect(),
            }],
        }
    }

    pub(super) fn containers(
        &self,
        node: NodeIndex,
        request: &machine::ContainersRequest,
    ) -> machine::ContainersResponse {
        let here = &self.nodes[node.0];
        let mut containers = Vec::new();
        if request.namespace == "k8s.io" {
            for pod in &here.kubernetes.pods {
                let name = pod.component.name();
                containers.push(machine::ContainerInfo {
                    namespace: request.namespace.clone(),
                    id: format!("kube-system/{name}-{}:{name}", here.hostname),
                    image: pod.image.clone(),
                    pid: 2000,
                    status: "CONTAINER_RUNNING".to_owned(),
                    pod_id: format!("kube-system/{name}-{}", here.hostname),
                    name: name.to_owned(),
                    ..Default::default()
                });
            }
        } else {
            for id in ["apid", "etcd", "kubelet", "trustd"] {
                if here.service_runs(id) {
                    containers.push(machine::ContainerInfo {
                        namespace: "system".to_owned(),
                        id: id.to_owned(),
                        pid: 1000,
                        status: "RUNNING".to_owned(),
                        name: id.to_owned(),
                        ..Default::default()
                    });
                }
            }
        }
        machine::ContainersResponse {
            messages: vec![machine::Container { metadata: None, containers }],
        }
    }

    pub(super) fn reboot(&mut self, node: NodeIndex, request: machine::RebootRequest) -> Reply {
        if self.nodes[node.0].in_container() {
            return not_in_container();
        }
        let actor_id = self.random.uuid();
        if self.fault(node, FaultKind::LostReboot).is_none() {
            let kind = Kind::Reboot {
                force: request.mode() == Mode::Force,
                kexec: request.mode() == Mode::Default,
            };
            self.start_sequence(node, kind, &actor_id, false);
        }
        Reply::Unary(
            machine::RebootResponse {
                messages: vec![machine::Reboot { metadata: None, actor_id }],
            }
            .into(),
        )
    }

    /// `Rollback`: the other slot becomes the default, and the machine reboots.
    /// Nothing is checked (rule 12: a revert is never blocked).
    pub(super) fn rollback(&mut self, node: NodeIndex) -> Reply {
        if self.nodes[node.0].in_container() {
            return not_in_container();
        }
        if !self.nodes[node.0].slots.revert() {
            return Status::unknown("cannot rollback to \"\", label does not exist").into();
        }
        if self.fault(node, FaultKind::LostReboot).is_none() {
            let kind = Kind::Reboot { force: false, kexec: true };
            self.start_sequence(node, kind, "", true);
        }
        Reply::Unary(
            machine::RollbackResponse { messages: vec![machine::Rollback::default()] }.into(),
        )
    }

    pub(super) fn shutdown(&mut self, node: NodeIndex, request: machine::ShutdownRequest) -> Reply {
        if self.nodes[node.0].in_container() {
            return not_in_container();
        }
        let actor_id = self.random.uuid();
        let kind = Kind::Shutdown { force: request.force };
        self.start_sequence(node, kind, &actor_id, false);
        Reply::Unary(
            machine::ShutdownResponse {
                messages: vec![machine::Shutdown { metadata: None, actor_id }],
            }
            .into(),
        )
    }

    /// `ServiceRestart`, `ServiceStart` and `ServiceStop`: only services that the node can run
    /// without may be changed.
    pub(super) fn change_service(&mut self, node: NodeIndex, id: &str, what: &str) -> Reply {
        if self.nodes[node.0].service(id).is_none() {
            return Status::unknown(format!("service {id:?} not defined")).into();
        }
        let allowed: &[&str] = match what {
            "restart" => &["cri", "etcd", "kubelet", "trustd", "udevd", "dashboard"],
            _ => &[],
        };
        if !allowed.contains(&id) {
            return Status::unknown(format!(
                "service {id:?} doesn't support {what} operation via API"
            ))
            .into();
        }
        self.stop_service(node, id);
        if id == "etcd" {
            self.etcd_changed();
        }
        if id == "kubelet" {
            self.nodes[node.0].kubernetes.pods_asked_for = false;
        }
        let boot = self.nodes[node.0].boot;
        let due = Due::Service { node, boot, service: id.to_owned() };
        self.schedule.put(self.now.plus(Duration::from_secs(3)), due);
        Reply::Unary(
            machine::ServiceRestartResponse {
                messages: vec![machine::ServiceRestart {
                    metadata: None,
                    resp: format!("Service {id:?} restarted"),
                }],
            }
            .into(),
        )
    }

    pub(super) fn service_is_back(&mut self, node: NodeIndex, id: &str) {
        if self.nodes[node.0].sequence.is_some() {
            return;
        }
        if id == "kubelet" && !self.kubelet_returns(node) {
            return;
        }
        self.start_service(node, id);
        self.set_health(node, id, id != "etcd");
        if id == "kubelet" {
            self.kubelet_has_started(node);
        }
        if id == "etcd" {
            self.member_is_ready(node);
            self.etcd_changed();
        }
    }

    pub(super) fn kubeconfig(&self, node: NodeIndex) -> Reply {
        if !self.nodes[node.0].is_control_plane() {
            return Status::unimplemented("kubeconfig is only available on control plane nodes")
                .into();
        }
        if self.kubeconfig.is_empty() {
            return Status::unavailable("this simulation has no Kubernetes API").into();
        }
        Reply::Items(vec![data(self.kubeconfig.clone())])
    }
}
