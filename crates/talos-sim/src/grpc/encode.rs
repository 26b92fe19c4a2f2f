//! Replies of the model as bytes of the wire.

use bytes::Bytes;
use prost::Message as _;

use crate::model::{Response, Status};

macro_rules! encode {
    ($response:expr, $($variant:ident)+) => {
        match $response {
            $(Response::$variant(message) => message.encode_to_vec(),)+
        }
    };
}

/// The message, encoded.
pub(super) fn encode(response: &Response) -> Bytes {
    let bytes = encode!(
        response,
        Version Hostname SystemStat LoadAvg Time Memory Mounts DiskStats Event Data LogsContainers
        Containers ServiceList ServiceStart ServiceStop ServiceRestart Bootstrap Reboot Rollback
        Shutdown Reset Upgrade ApplyConfiguration ImageList ImagePull EtcdMemberList EtcdStatus
        EtcdAlarmList EtcdAlarmDisarm EtcdDefragment EtcdForfeitLeadership EtcdLeaveCluster
        EtcdRemoveMemberById EtcdDowngradeValidate EtcdDowngradeEnable EtcdDowngradeCancel
        ImageServiceList ImageServicePull Empty LifecycleInstall
        LifecycleUpgrade HealthCheck CosiGet CosiList CosiWatch
    );
    bytes.into()
}

/// The failure, as tonic has it.
pub(super) fn status(status: Status) -> tonic::Status {
    let Status { code, message } = status;
    tonic::Status::new(tonic::Code::from_i32(code as i32), message)
}
