//! Authorization by the roles in the caller's certificate.

use serde::{Deserialize, Serialize};

use super::api::Request;

/// A role of the Talos API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Role {
    /// Full access.
    Admin,
    /// Read access, and daily operations.
    Operator,
    /// Read access.
    Reader,
    /// Reading etcd and taking its snapshots.
    EtcdBackup,
    /// apid itself: it impersonates other callers.
    Impersonator,
}

impl Role {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Admin, "os:admin"),
        (Self::Operator, "os:operator"),
        (Self::Reader, "os:reader"),
        (Self::EtcdBackup, "os:etcd:backup"),
        (Self::Impersonator, "os:impersonator"),
    ];

    /// The name in a certificate's organisation.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(role, _)| *role == self).map_or("", |(_, name)| name)
    }

    /// The role with that name; `None` for one that the model does not know, which grants nothing.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(role, _)| *role)
    }
}

/// A caller, as far as the node knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    roles: Vec<Role>,
}

impl Caller {
    /// A caller with these roles. Names come from the organisations of the
    /// client certificate or, if apid forwards, from the metadata `talos-role`.
    pub fn with_roles<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let roles = names.into_iter().filter_map(Role::from_name).collect();
        Self { roles }
    }

    /// A caller with full access.
    pub fn admin() -> Self {
        Self { roles: vec![Role::Admin] }
    }

    /// Whether the caller has the role.
    pub fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// Whether the caller has one of the roles.
    pub(super) fn has_any(&self, roles: &[Role]) -> bool {
        roles.iter().any(|role| self.has(*role))
    }
}

/// Whether a request only reads: readers may send it.
pub(super) fn is_read(request: &Request) -> bool {
    allowed(request).contains(&Role::Reader)
}

/// The roles that may send a request. Requests that are not listed need the highest role. Resources
/// are open to readers; the sensitive ones are checked where they are served.
pub(super) fn allowed(request: &Request) -> &'static [Role] {
    const READ: &[Role] = &[Role::Admin, Role::Operator, Role::Reader];
    const OPERATE: &[Role] = &[Role::Admin, Role::Operator];
    const SNAPSHOT: &[Role] = &[Role::Admin, Role::Operator, Role::EtcdBackup];
    const READ_ETCD: &[Role] = &[Role::Admin, Role::Operator, Role::Reader, Role::EtcdBackup];
    const ADMIN: &[Role] = &[Role::Admin];
    match request {
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
        | Request::ServiceList
        | Request::ImageList(_)
        | Request::ImageServiceList(_)
        | Request::HealthCheck(_)
        | Request::CosiGet(_)
        | Request::CosiList(_)
        | Request::CosiWatch(_)
        | Request::CosiCreate(_)
        | Request::CosiUpdate(_)
        | Request::CosiDestroy(_)
        | Request::CosiTeardown(_)
        | Request::CosiTeardownAndDestroy(_) => READ,
        Request::Reboot(_)
        | Request::Shutdown(_)
        | Request::ServiceStart(_)
        | Request::ServiceStop(_)
        | Request::ServiceRestart(_)
        | Request::ImagePull(_)
        | Request::ImageServicePull(_)
        | Request::EtcdAlarmDisarm
        | Request::EtcdDefragment => OPERATE,
        Request::EtcdSnapshot(_) => SNAPSHOT,
        Request::EtcdMemberList(_) | Request::EtcdStatus | Request::EtcdAlarmList => READ_ETCD,
        Request::Read(_)
        | Request::Copy(_)
        | Request::Bootstrap(_)
        | Request::Rollback(_)
        | Request::Reset(_)
        | Request::Upgrade(_)
        | Request::ApplyConfiguration(_)
        | Request::Kubeconfig
        | Request::EtcdForfeitLeadership(_)
        | Request::EtcdLeaveCluster(_)
        | Request::EtcdRemoveMemberById(_)
        | Request::EtcdDowngradeValidate(_)
        | Request::EtcdDowngradeEnable(_)
        | Request::EtcdDowngradeCancel
        | Request::ImageServiceRemove(_)
        | Request::LifecycleInstall(_)
        | Request::LifecycleUpgrade(_) => ADMIN,
    }
}
