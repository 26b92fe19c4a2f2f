//! Dispatches a request to the part of the node that answers it.

use super::World;
use super::api::{NodeIndex, Reply, Request, Status};
use super::roles::{Caller, allowed};
use super::time::Time;

/// The first minor of Talos 1 with the lifecycle and image services.
const LIFECYCLE_SINCE: u64 = 13;

/// The first minor of Talos 1 with etcd's downgrade calls.
const DOWNGRADE_SINCE: u64 = 11;

impl World {
    /// A call that has reached a node. The adapter has checked that the node [is
    /// reachable](Self::is_reachable).
    pub fn request(
        &mut self,
        now: Time,
        node: NodeIndex,
        caller: &Caller,
        request: Request,
    ) -> Reply {
        self.advance(now);
        if !self.is_reachable(node) {
            return Status::unavailable("connection error: the node does not answer").into();
        }
        let minor = self.nodes[node.0].minor();
        if let Some(service) = service_since(&request)
            && minor < LIFECYCLE_SINCE
        {
            return Status::unimplemented(format!("unknown service {service}")).into();
        }
        if let Some(method) = downgrades(&request)
            && minor < DOWNGRADE_SINCE
        {
            let text = format!("unknown method {method} for service machine.MachineService");
            return Status::unimplemented(text).into();
        }
        if !caller.has_any(allowed(&request)) {
            return Status::permission_denied("not authorized").into();
        }
        let reads = is_reading(&request);
        let reply = self.answer(node, caller, request);
        if !reads {
            self.settle();
        }
        reply
    }

    fn answer(&mut self, node: NodeIndex, caller: &Caller, request: Request) -> Reply {
        if uses_images(&request) {
            self.collect_images(node);
        }
        match request {
            Request::Version => Reply::Unary(self.version(node).into()),
            Request::Hostname => Reply::Unary(self.hostname(node).into()),
            Request::SystemStat => Reply::Unary(self.system_stat(node).into()),
            Request::LoadAvg => Reply::Unary(Self::load_average().into()),
            Request::Time => Reply::Unary(self.time(node, None).into()),
            Request::TimeCheck(request) => {
                Reply::Unary(self.time(node, Some(request.server)).into())
            }
            Request::Memory => Reply::Unary(Self::memory().into()),
            Request::Mounts => Reply::Unary(Self::mounts().into()),
            Request::DiskStats => Reply::Unary(Self::disk_stats().into()),
            Request::Events(request) => self.events(node, &request),
            Request::Dmesg(request) => self.dmesg(node, request),
            Request::Logs(request) => self.logs(node, &request),
            Request::LogsContainers => Reply::Unary(self.logs_containers(node).into()),
            Request::Containers(request) => Reply::Unary(self.containers(node, &request).into()),
            Request::Read(request) => self.read(node, &request.path),
            Request::ServiceList => Reply::Unary(self.service_list(node).into()),
            Request::ServiceStart(request) => self.change_service(node, &request.id, "start"),
            Request::ServiceStop(request) => self.change_service(node, &request.id, "stop"),
            Request::ServiceRestart(request) => self.change_service(node, &request.id, "restart"),
            Request::Bootstrap(_) => self.bootstrap(node),
            Request::Reboot(request) => self.reboot(node, request),
            Request::Rollback(_) => self.rollback(node),
            Request::Shutdown(request) => self.shutdown(node, request),
            Request::Upgrade(request) => self.upgrade(node, request),
            Request::ApplyConfiguration(request) => self.apply_configuration(node, &request),
            Request::Kubeconfig => self.kubeconfig(node),
            Request::ImageList(request) => self.image_list(node, request),
            Request::ImagePull(request) => self.image_pull(node, request),
            Request::EtcdMemberList(request) => self.etcd_member_list(node, request),
            Request::EtcdStatus => self.etcd_status(node),
            Request::EtcdAlarmList => self.etcd_alarm_list(node),
            Request::EtcdAlarmDisarm => self.etcd_alarm_disarm(node),
            Request::EtcdDefragment => self.etcd_defragment(node),
            Request::EtcdForfeitLeadership(_) => self.etcd_forfeit_leadership(node),
            Request::EtcdLeaveCluster(_) => self.etcd_leave_cluster(node),
            Request::EtcdRemoveMemberById(request) => {
                self.etcd_remove_member(node, request.member_id)
            }
            Request::EtcdSnapshot(_) => self.etcd_snapshot(node),
            Request::EtcdDowngradeValidate(request) => {
                self.etcd_downgrade_validate(node, &request.version)
            }
            Request::EtcdDowngradeEnable(request) => {
                self.etcd_downgrade_enable(node, &request.version)
            }
            Request::EtcdDowngradeCancel => self.etcd_downgrade_cancel(node),
            Request::ImageServiceList(request) => self.image_service_list(node, request),
            Request::ImageServicePull(request) => self.image_service_pull(node, request),
            Request::ImageServiceRemove(request) => self.image_service_remove(node, &request),
            Request::LifecycleInstall(_) => Status {
                code: super::Code::AlreadyExists,
                message: "machine is already installed".to_owned(),
            }
            .into(),
            Request::LifecycleUpgrade(request) => self.lifecycle_upgrade(node, &request),
            Request::HealthCheck(request) => self.health_check(node, &request),
            Request::CosiGet(request) => self.cosi_get(node, caller, &request),
            Request::CosiList(request) => self.cosi_list(node, caller, &request),
            Request::CosiWatch(request) => self.cosi_watch(node, caller, request),
            Request::CosiCreate(_)
            | Request::CosiUpdate(_)
            | Request::CosiDestroy(_)
            | Request::CosiTeardown(_)
            | Request::CosiTeardownAndDestroy(_) => {
                Status::permission_denied("write access is not allowed").into()
            }
            Request::Copy(_) | Request::Reset(_) => {
                Status::unimplemented("the simulator does not model this method").into()
            }
        }
    }

    fn bootstrap(&self, node: NodeIndex) -> Reply {
        if !self.nodes[node.0].is_control_plane() {
            return Status::failed_precondition(
                "bootstrap can only be performed on a control plane node",
            )
            .into();
        }
        Status {
            code: super::Code::AlreadyExists,
            message: "etcd data directory is not empty".to_owned(),
        }
        .into()
    }
}

/// Whether a request changes nothing on any node.
fn is_reading(request: &Request) -> bool {
    matches!(
        request,
        Request::Version
            | Request::Hostname
            | Request::SystemStat
            | Request::LoadAvg
            | Request::Time
            | Request::TimeCheck(_)
            | Request::Memory
            | Request::Mounts
            | Request::DiskStats
            | Request::Events(_)
            | Request::Dmesg(_)
            | Request::Logs(_)
            | Request::LogsContainers
            | Request::Containers(_)
            | Request::Read(_)
            | Request::ServiceList
            | Request::Kubeconfig
            | Request::ImageList(_)
            | Request::ImageServiceList(_)
            | Request::EtcdMemberList(_)
            | Request::EtcdStatus
            | Request::EtcdAlarmList
            | Request::EtcdDowngradeValidate(_)
            | Request::CosiGet(_)
            | Request::CosiList(_)
            | Request::CosiWatch(_)
    )
}

/// Whether a request depends on the images of a node.
fn uses_images(request: &Request) -> bool {
    matches!(
        request,
        Request::ImageList(_)
            | Request::ImagePull(_)
            | Request::ImageServiceList(_)
            | Request::ImageServicePull(_)
            | Request::ImageServiceRemove(_)
            | Request::LifecycleUpgrade(_)
            | Request::Upgrade(_)
    )
}

/// The method's name, if it is one of etcd's downgrade calls.
fn downgrades(request: &Request) -> Option<&'static str> {
    match request {
        Request::EtcdDowngradeValidate(_) => Some("EtcdDowngradeValidate"),
        Request::EtcdDowngradeEnable(_) => Some("EtcdDowngradeEnable"),
        Request::EtcdDowngradeCancel => Some("EtcdDowngradeCancel"),
        _ => None,
    }
}

/// The service of a request, if older nodes lack it.
fn service_since(request: &Request) -> Option<&'static str> {
    match request {
        Request::ImageServiceList(_)
        | Request::ImageServicePull(_)
        | Request::ImageServiceRemove(_) => Some("machine.ImageService"),
        Request::LifecycleInstall(_) | Request::LifecycleUpgrade(_) => {
            Some("machine.LifecycleService")
        }
        _ => None,
    }
}
