//! The input and output of a world: requests of the node's API, and their replies, in the messages
//! of the wire.

use serde::{Deserialize, Serialize};
use talos_proto::{cluster, common, cosi::resource as cosi, machine};

pub(super) use super::time_calls::{TimeRequest, TimeResponse};

/// A node of the cluster: its index in [`ClusterSpec::nodes`](super::ClusterSpec::nodes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeIndex(pub usize);

/// An open stream, or a call whose answer is still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StreamId(pub u64);

macro_rules! requests {
    ($($(#[$doc:meta])* $variant:ident $(($message:ty))?),+ $(,)?) => {
        /// A call of one of the node's methods, with its message. Each variant
        /// is named after its method; those of other services than
        /// `machine.MachineService` carry the service's name in front.
        #[derive(Clone, Debug)]
        pub enum Request {
            $($(#[$doc])* $variant $(($message))?,)+
        }
    };
}

requests! {
    /// Unary.
    Version,
    /// Unary.
    Hostname,
    /// Unary.
    SystemStat,
    /// Unary.
    LoadAvg,
    /// Unary, of `time.TimeService`.
    Time,
    /// Unary, of `time.TimeService`.
    TimeCheck(TimeRequest),
    /// Unary.
    Memory,
    /// Unary.
    Mounts,
    /// Unary.
    DiskStats,
    /// Stream of [`machine::Event`]; the first one is empty.
    Events(machine::EventsRequest),
    /// Stream of [`common::Data`].
    Dmesg(machine::DmesgRequest),
    /// Stream of [`common::Data`].
    Logs(machine::LogsRequest),
    /// Unary.
    LogsContainers,
    /// Unary.
    Containers(machine::ContainersRequest),
    /// Stream of [`common::Data`].
    Read(machine::ReadRequest),
    /// Stream of [`common::Data`].
    Copy(machine::CopyRequest),
    /// Unary.
    ServiceList,
    /// Unary.
    ServiceStart(machine::ServiceStartRequest),
    /// Unary.
    ServiceStop(machine::ServiceStopRequest),
    /// Unary.
    ServiceRestart(machine::ServiceRestartRequest),
    /// Unary.
    Bootstrap(machine::BootstrapRequest),
    /// Unary.
    Reboot(machine::RebootRequest),
    /// Unary.
    Rollback(machine::RollbackRequest),
    /// Unary.
    Shutdown(machine::ShutdownRequest),
    /// Unary.
    Reset(machine::ResetRequest),
    /// Unary, and slow: the installer is pulled before the answer.
    Upgrade(machine::UpgradeRequest),
    /// Unary.
    ApplyConfiguration(machine::ApplyConfigurationRequest),
    /// Stream of [`common::Data`].
    Kubeconfig,
    /// Stream of [`machine::ImageListResponse`].
    ImageList(machine::ImageListRequest),
    /// Unary, and slow.
    ImagePull(machine::ImagePullRequest),
    /// Unary.
    EtcdMemberList(machine::EtcdMemberListRequest),
    /// Unary.
    EtcdStatus,
    /// Unary.
    EtcdAlarmList,
    /// Unary.
    EtcdAlarmDisarm,
    /// Unary.
    EtcdDefragment,
    /// Unary.
    EtcdForfeitLeadership(machine::EtcdForfeitLeadershipRequest),
    /// Unary.
    EtcdLeaveCluster(machine::EtcdLeaveClusterRequest),
    /// Unary.
    EtcdRemoveMemberById(machine::EtcdRemoveMemberByIdRequest),
    /// Stream of [`common::Data`].
    EtcdSnapshot(machine::EtcdSnapshotRequest),
    /// Unary; since Talos 1.11.
    EtcdDowngradeValidate(machine::EtcdDowngradeValidateRequest),
    /// Unary; since Talos 1.11.
    EtcdDowngradeEnable(machine::EtcdDowngradeEnableRequest),
    /// Unary; since Talos 1.11.
    EtcdDowngradeCancel,
    /// Stream of [`machine::ImageServiceListResponse`].
    ImageServiceList(machine::ImageServiceListRequest),
    /// Stream of [`machine::ImageServicePullResponse`].
    ImageServicePull(machine::ImageServicePullRequest),
    /// Unary.
    ImageServiceRemove(machine::ImageServiceRemoveRequest),
    /// Stream of [`machine::LifecycleServiceInstallResponse`].
    LifecycleInstall(machine::LifecycleServiceInstallRequest),
    /// Stream of [`machine::LifecycleServiceUpgradeResponse`].
    LifecycleUpgrade(machine::LifecycleServiceUpgradeRequest),
    /// Stream of [`cluster::HealthCheckProgress`].
    HealthCheck(cluster::HealthCheckRequest),
    /// Unary.
    CosiGet(cosi::GetRequest),
    /// Stream of [`cosi::ListResponse`].
    CosiList(cosi::ListRequest),
    /// Stream of [`cosi::WatchResponse`]; the first one is empty.
    CosiWatch(cosi::WatchRequest),
    /// Unary, always refused.
    CosiCreate(cosi::CreateRequest),
    /// Unary, always refused.
    CosiUpdate(cosi::UpdateRequest),
    /// Unary, always refused.
    CosiDestroy(cosi::DestroyRequest),
    /// Unary, always refused.
    CosiTeardown(cosi::TeardownRequest),
    /// Unary, always refused.
    CosiTeardownAndDestroy(cosi::TeardownAndDestroyRequest),
}

macro_rules! responses {
    ($($variant:ident($message:ty)),+ $(,)?) => {
        /// One message from a node: the whole answer of a unary method, or an
        /// item of a stream. [`TryFrom`] unwraps the expected one.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "each variant holds the message it is named after")]
        pub enum Response {
            $($variant($message),)+
        }

        $(
            impl From<$message> for Response {
                fn from(message: $message) -> Self {
                    Self::$variant(message)
                }
            }

            impl TryFrom<Response> for $message {
                type Error = Status;

                fn try_from(response: Response) -> Result<Self, Status> {
                    match response {
                        Response::$variant(message) => Ok(message),
                        _ => Err(Status::internal("the model answered with another message")),
                    }
                }
            }
        )+
    };
}

responses! {
    Version(machine::VersionResponse),
    Hostname(machine::HostnameResponse),
    SystemStat(machine::SystemStatResponse),
    LoadAvg(machine::LoadAvgResponse),
    Time(TimeResponse),
    Memory(machine::MemoryResponse),
    Mounts(machine::MountsResponse),
    DiskStats(machine::DiskStatsResponse),
    Event(machine::Event),
    Data(common::Data),
    LogsContainers(machine::LogsContainersResponse),
    Containers(machine::ContainersResponse),
    ServiceList(machine::ServiceListResponse),
    ServiceStart(machine::ServiceStartResponse),
    ServiceStop(machine::ServiceStopResponse),
    ServiceRestart(machine::ServiceRestartResponse),
    Bootstrap(machine::BootstrapResponse),
    Reboot(machine::RebootResponse),
    Rollback(machine::RollbackResponse),
    Shutdown(machine::ShutdownResponse),
    Reset(machine::ResetResponse),
    Upgrade(machine::UpgradeResponse),
    ApplyConfiguration(machine::ApplyConfigurationResponse),
    ImageList(machine::ImageListResponse),
    ImagePull(machine::ImagePullResponse),
    EtcdMemberList(machine::EtcdMemberListResponse),
    EtcdStatus(machine::EtcdStatusResponse),
    EtcdAlarmList(machine::EtcdAlarmListResponse),
    EtcdAlarmDisarm(machine::EtcdAlarmDisarmResponse),
    EtcdDefragment(machine::EtcdDefragmentResponse),
    EtcdForfeitLeadership(machine::EtcdForfeitLeadershipResponse),
    EtcdLeaveCluster(machine::EtcdLeaveClusterResponse),
    EtcdRemoveMemberById(machine::EtcdRemoveMemberByIdResponse),
    EtcdDowngradeValidate(machine::EtcdDowngradeValidateResponse),
    EtcdDowngradeEnable(machine::EtcdDowngradeEnableResponse),
    EtcdDowngradeCancel(machine::EtcdDowngradeCancelResponse),
    ImageServiceList(machine::ImageServiceListResponse),
    ImageServicePull(machine::ImageServicePullResponse),
    Empty(()),
    LifecycleInstall(machine::LifecycleServiceInstallResponse),
    LifecycleUpgrade(machine::LifecycleServiceUpgradeResponse),
    HealthCheck(cluster::HealthCheckProgress),
    CosiGet(cosi::GetResponse),
    CosiList(cosi::ListResponse),
    CosiWatch(cosi::WatchResponse),
}

/// The outcome of a request.
#[expect(clippy::large_enum_variant, reason = "both are passed on at once, never kept")]
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum Reply {
    /// The answer of a unary method.
    Unary(Response),
    /// All items of a stream that has ended successfully.
    Items(Vec<Response>),
    /// A stream: its items follow in [`World::outputs`](super::World::outputs). A slow unary method
    /// answers this too: one item follows, or a failure.
    Stream(StreamId),
    /// The call failed.
    Error(Status),
}

/// Output for an open stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Which stream.
    pub stream: StreamId,
    /// The content.
    pub content: Content,
}

/// The content of one output.
#[expect(clippy::large_enum_variant, reason = "both are passed on at once, never kept")]
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A message.
    Item(Response),
    /// The end: `Ok` on success. Nothing follows.
    End(Result<(), Status>),
    /// The connection breaks, as when the machine goes down.
    Drop,
}

/// A gRPC status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code:?}: {message}")]
pub struct Status {
    /// The code.
    pub code: Code,
    /// The message, for people.
    pub message: String,
}

/// The codes of gRPC that nodes use, with their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "gRPC documents its codes")]
pub enum Code {
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    FailedPrecondition = 9,
    Aborted = 10,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
}

macro_rules! statuses {
    ($($function:ident = $code:ident),+ $(,)?) => {
        $(
            pub(super) fn $function(message: impl Into<String>) -> Self {
                Self { code: Code::$code, message: message.into() }
            }
        )+
    };
}

impl Status {
    statuses! {
        unknown = Unknown,
        invalid_argument = InvalidArgument,
        deadline_exceeded = DeadlineExceeded,
        not_found = NotFound,
        permission_denied = PermissionDenied,
        failed_precondition = FailedPrecondition,
        unimplemented = Unimplemented,
        internal = Internal,
        unavailable = Unavailable,
    }
}

impl From<Status> for Reply {
    fn from(status: Status) -> Self {
        Self::Error(status)
    }
}
