//! The methods that a node serves: how a request is decoded, and whether the answer is a stream.
//!
//! Requests stay bytes until they have reached their node, as in apid: routing and merging never
//! need to decode a message.

use std::collections::HashMap;
use std::sync::LazyLock;

use bytes::Bytes;
use prost::{DecodeError, Message as _};

use crate::model::Request;

/// One method of one service.
#[derive(Debug)]
pub struct Method {
    /// As HTTP/2 names it: `/machine.MachineService/Version`.
    pub path: &'static str,
    /// Whether apid merges the answers of several nodes as a stream.
    pub streaming: bool,
    /// Reads the one message of a request.
    pub decode: fn(Bytes) -> Result<Request, DecodeError>,
}

impl Method {
    /// The method at this path, if the simulator knows it.
    pub fn find(path: &str) -> Option<&'static Self> {
        BY_PATH.get(path).copied()
    }

    /// `Version` of `/machine.MachineService/Version`.
    pub fn name(&self) -> &'static str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }
}

static BY_PATH: LazyLock<HashMap<&'static str, &'static Method>> =
    LazyLock::new(|| METHODS.iter().map(|method| (method.path, method)).collect());

/// A real node's error text for a method that it lacks.
pub(super) fn unknown(path: &str) -> String {
    let mut parts = path.trim_start_matches('/').splitn(2, '/');
    let service = parts.next().unwrap_or_default();
    let method = parts.next().unwrap_or_default();
    let known = METHODS.iter().any(|known| {
        known
            .path
            .trim_start_matches('/')
            .strip_prefix(service)
            .is_some_and(|rest| rest.starts_with('/'))
    });
    if known {
        format!("unknown method {method} for service {service}")
    } else {
        format!("unknown service {service}")
    }
}

macro_rules! streaming {
    (unary) => {
        false
    };
    (stream) => {
        true
    };
}

macro_rules! methods {
    ($($service:literal {
        $($kind:ident $method:ident => $variant:ident $(= $marker:tt)?;)+
    })+) => {
        /// Every method that the simulator knows.
        pub const METHODS: &[Method] = &[$($(
            Method {
                path: concat!("/", $service, "/", stringify!($method)),
                streaming: streaming!($kind),
                decode: methods!(@decode $variant $($marker)?),
            },
        )+)+];
    };
    (@decode $variant:ident empty) => {
        |bytes| <()>::decode(bytes).map(|()| Request::$variant)
    };
    (@decode $variant:ident) => {
        |bytes| prost::Message::decode(bytes).map(Request::$variant)
    };
}

methods! {
    "machine.MachineService" {
        unary Version => Version = empty;
        unary Hostname => Hostname = empty;
        unary SystemStat => SystemStat = empty;
        unary LoadAvg => LoadAvg = empty;
        unary Memory => Memory = empty;
        unary Mounts => Mounts = empty;
        unary DiskStats => DiskStats = empty;
        stream Events => Events;
        stream Dmesg => Dmesg;
        stream Logs => Logs;
        unary LogsContainers => LogsContainers = empty;
        unary Containers => Containers;
        stream Read => Read;
        stream Copy => Copy;
        unary ServiceList => ServiceList = empty;
        unary ServiceStart => ServiceStart;
        unary ServiceStop => ServiceStop;
        unary ServiceRestart => ServiceRestart;
        unary Bootstrap => Bootstrap;
        unary Reboot => Reboot;
        unary Rollback => Rollback;
        unary Shutdown => Shutdown;
        unary Reset => Reset;
        unary Upgrade => Upgrade;
        unary ApplyConfiguration => ApplyConfiguration;
        stream Kubeconfig => Kubeconfig = empty;
        stream ImageList => ImageList;
        unary ImagePull => ImagePull;
        unary EtcdMemberList => EtcdMemberList;
        unary EtcdStatus => EtcdStatus = empty;
        unary EtcdAlarmList => EtcdAlarmList = empty;
        unary EtcdAlarmDisarm => EtcdAlarmDisarm = empty;
        unary EtcdDefragment => EtcdDefragment = empty;
        unary EtcdForfeitLeadership => EtcdForfeitLeadership;
        unary EtcdLeaveCluster => EtcdLeaveCluster;
        unary EtcdRemoveMemberByID => EtcdRemoveMemberById;
        stream EtcdSnapshot => EtcdSnapshot;
        unary EtcdDowngradeValidate => EtcdDowngradeValidate;
        unary EtcdDowngradeEnable => EtcdDowngradeEnable;
        unary EtcdDowngradeCancel => EtcdDowngradeCancel = empty;
    }
    "machine.ImageService" {
        stream List => ImageServiceList;
        stream Pull => ImageServicePull;
        unary Remove => ImageServiceRemove;
    }
    "machine.LifecycleService" {
        stream Install => LifecycleInstall;
        stream Upgrade => LifecycleUpgrade;
    }
    "time.TimeService" {
        unary Time => Time = empty;
        unary TimeCheck => TimeCheck;
    }
    "cluster.ClusterService" {
        stream HealthCheck => HealthCheck;
    }
    "cosi.resource.State" {
        unary Get => CosiGet;
        stream List => CosiList;
        stream Watch => CosiWatch;
        unary Create => CosiCreate;
        unary Update => CosiUpdate;
        unary Destroy => CosiDestroy;
        unary Teardown => CosiTeardown;
        unary TeardownAndDestroy => CosiTeardownAndDestroy;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_defined_method_is_served() {
        let set = prost_types::FileDescriptorSet::decode(talos_proto::FILE_DESCRIPTOR_SET).unwrap();
        let mut defined = 0;
        for file in &set.file {
            for service in &file.service {
                for method in &service.method {
                    let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                    let known = Method::find(&path).unwrap_or_else(|| panic!("{path}"));
                    assert_eq!(known.streaming, method.server_streaming(), "{path}");
                    assert_eq!(known.name(), method.name());
                    defined += 1;
                }
            }
        }
        // Our client does not use the time service, so it is not in `proto/`.
        let time = METHODS.iter().filter(|method| method.path.starts_with("/time.")).count();
        assert_eq!(defined + time, METHODS.len());
    }

    #[test]
    fn unknown_methods_get_the_error_of_a_real_node() {
        assert_eq!(
            unknown("/machine.MachineService/Fly"),
            "unknown method Fly for service machine.MachineService"
        );
        assert_eq!(
            unknown("/storage.StorageService/Disks"),
            "unknown service storage.StorageService"
        );
        assert_eq!(unknown("/machine.Machine/x"), "unknown service machine.Machine");
    }
}
