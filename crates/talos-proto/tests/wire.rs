//! What must never change: method names and field numbers. The bytes come from Talos 1.14.1's own
//! encoder.

use std::{collections::BTreeSet, fmt::Write as _};

use prost::Message;
use prost_types::{FileDescriptorSet, Struct, Value, value};
use talos_proto::{
    FILE_DESCRIPTOR_SET, Kind,
    common::{self, NetIp, NetIpPrefix},
    cosi,
    event::{Payload, TYPE_URL_PREFIX},
    kind,
    machine::{
        ApplyConfigurationRequest, MachineStatusEvent, SequenceEvent,
        machine_status_event::{MachineStage, MachineStatus},
        sequence_event,
    },
    resource::{block, cluster, config, enums, extensions, k8s, network, runtime, v1alpha1},
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}

#[track_caller]
fn encodes<M: Message>(message: &M, expected: &str) {
    assert_eq!(hex(&message.encode_to_vec()), expected);
}

fn text(text: &str) -> Value {
    Value { kind: Some(value::Kind::StringValue(text.to_owned())) }
}

#[test]
fn method_names_and_types_are_fixed() {
    let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("our own descriptors");
    let mut lines = BTreeSet::new();
    for file in &set.file {
        for service in &file.service {
            for method in &service.method {
                let stream = if method.server_streaming() { " stream" } else { "" };
                assert!(!method.client_streaming());
                let line =
                    format!("{}.{}/{}{stream}", file.package(), service.name(), method.name());
                assert!(lines.insert(line), "a method is defined twice");
            }
        }
    }
    let expected = include_str!("methods.txt").lines().map(str::to_owned).collect();
    assert_eq!(lines, expected);
}

#[test]
fn a_member_has_talos_encoding() {
    let member = cluster::MemberSpec {
        node_id: "n1".to_owned(),
        addresses: vec![
            NetIp { ip: vec![10, 5, 0, 2] },
            NetIp { ip: vec![0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2] },
        ],
        hostname: "cp-1".to_owned(),
        machine_type: enums::MachineType::TypeControlPlane.into(),
        operating_system: "Talos (v1.14.1)".to_owned(),
        control_plane: Some(cluster::ControlPlane { api_server_port: 6443 }),
    };
    encodes(
        &member,
        "0a026e3112060a040a05000212120a10fd0000000000000000000000000000021a0463702d3120022a0f54616c6f73202876312e31342e3129320308ab32",
    );
}

#[test]
fn machine_resources_have_talos_encoding() {
    let status = runtime::MachineStatusSpec {
        stage: enums::RuntimeMachineStage::MachineStageRunning.into(),
        status: Some(runtime::MachineStatusStatus {
            ready: false,
            unmet_conditions: vec![runtime::UnmetCondition {
                name: "nodeReady".to_owned(),
                reason: "node is not ready".to_owned(),
            }],
        }),
    };
    encodes(&status, "08041220121e0a096e6f6465526561647912116e6f6465206973206e6f74207265616479");

    let machine_type = config::MachineTypeSpec { machine_type: config::MachineType::Worker.into() };
    encodes(&machine_type, "0803");

    let service = v1alpha1::ServiceSpec { running: true, healthy: true, unknown: false };
    encodes(&service, "08011001");

    let extension = extensions::Layer {
        image: "000.x.sqsh".to_owned(),
        metadata: Some(extensions::Metadata {
            name: "schematic".to_owned(),
            version: "376567".to_owned(),
            author: "Image Factory".to_owned(),
            extra_info: "customization: {}".to_owned(),
            ..Default::default()
        }),
    };
    encodes(
        &extension,
        "0a0a3030302e782e7371736812350a09736368656d6174696312063337363536371a0d496d61676520466163746f72793211637573746f6d697a6174696f6e3a207b7d",
    );

    let volume = block::VolumeStatusSpec {
        phase: enums::BlockVolumePhase::VolumePhaseReady.into(),
        location: "/dev/sda6".to_owned(),
        size: 10 << 30,
        filesystem: enums::BlockFilesystemType::FilesystemTypeXfs.into(),
        ..Default::default()
    };
    encodes(&volume, "080612092f6465762f736461364880808080285001");

    let link = network::LinkStatusSpec {
        index: 2,
        r#type: enums::NethelpersLinkType::LinkEther.into(),
        hardware_addr: vec![2, 0, 0, 0, 0, 1],
        mtu: 1500,
        operational_state: enums::NethelpersOperationalState::OperStateUp.into(),
        link_state: true,
        ..Default::default()
    };
    encodes(&link, "080210012a0602000000000138dc0b5006b00101");
}

#[test]
fn kubernetes_resources_have_talos_encoding() {
    let node = k8s::NodeStatusSpec {
        nodename: "cp-1".to_owned(),
        node_ready: true,
        unschedulable: true,
        labels: [("a".to_owned(), "b".to_owned())].into(),
        pod_cid_rs: vec![NetIpPrefix { ip: vec![10, 244, 0, 0], prefix_length: 24 }],
        ..Default::default()
    };
    encodes(&node, "0a0463702d311001180122060a016112016232080a040af400001018");

    let kubelet = k8s::KubeletSpecSpec {
        image: "img:v1".to_owned(),
        args: vec!["--a=b".to_owned()],
        expected_nodename: "cp-1".to_owned(),
        config: Some(Struct { fields: [("x".to_owned(), text("y"))].into() }),
    };
    encodes(&kubelet, "0a06696d673a763112052d2d613d62220463702d312a0a0a080a017812031a0179");

    let api_server = k8s::ApiServerConfigSpec {
        image: "img:v1".to_owned(),
        local_port: 6443,
        ..Default::default()
    };
    encodes(&api_server, "0a06696d673a763128ab32");

    let scheduler = k8s::SchedulerConfigSpec {
        enabled: true,
        image: "img:v1".to_owned(),
        ..Default::default()
    };
    encodes(&scheduler, "08011206696d673a7631");

    let manifest = k8s::ManifestSpec {
        items: vec![k8s::SingleManifest {
            object: Some(Struct { fields: [("kind".to_owned(), text("ConfigMap"))].into() }),
        }],
    };
    encodes(&manifest, "0a170a150a130a046b696e64120b1a09436f6e6669674d6170");
}

#[test]
fn resource_definitions_are_complete() {
    encodes(
        &kind::MEMBER.definition(),
        "0a194d656d626572732e636c75737465722e74616c6f732e64657612064d656d6265721a07636c757374657222066d656d6265722a076d656d626572732a0f6d656d626572732e636c75737465722a156d656d626572732e636c75737465722e74616c6f732a066d656d62657232170a08486f73746e616d65120b7b2e686f73746e616d657d321e0a0c4d616368696e652054797065120e7b2e6d616368696e65547970657d32180a024f5312127b2e6f7065726174696e6753797374656d7d32190a09416464726573736573120c7b2e6164647265737365737d",
    );
    encodes(
        &kind::MACHINE_CONFIG.definition(),
        "0a1f4d616368696e65436f6e666967732e636f6e6669672e74616c6f732e646576120d4d616368696e65436f6e6669671a06636f6e666967220d6d616368696e65636f6e66696722026d6322036d63732a0e6d616368696e65636f6e666967732a156d616368696e65636f6e666967732e636f6e6669672a1b6d616368696e65636f6e666967732e636f6e6669672e74616c6f732a0d6d616368696e65636f6e6669672a026d632a036d63733801",
    );
}

#[test]
fn kinds_are_distinct() {
    let types: BTreeSet<_> = kind::ALL.iter().map(Kind::definition_id).collect();
    assert_eq!(types.len(), kind::ALL.len());
}

#[test]
fn events_survive_packing() {
    let payloads: [Payload; 2] = [
        SequenceEvent {
            sequence: "upgrade".to_owned(),
            action: sequence_event::Action::Start.into(),
            error: None,
        }
        .into(),
        MachineStatusEvent {
            stage: MachineStage::Running.into(),
            status: Some(MachineStatus { ready: true, unmet_conditions: Vec::new() }),
        }
        .into(),
    ];
    for payload in payloads {
        let packed = payload.pack();
        assert!(packed.type_url.starts_with(TYPE_URL_PREFIX));
        assert_eq!(Payload::unpack(&packed), Ok(Some(payload)));
    }
}

#[test]
fn an_unknown_event_is_no_error() {
    let unknown = prost_types::Any {
        type_url: "talos/runtime/machine.LunchEvent".to_owned(),
        value: vec![0xff],
    };
    assert_eq!(Payload::unpack(&unknown), Ok(None));
}

#[test]
fn a_broken_event_is_an_error() {
    let broken = prost_types::Any {
        type_url: "talos/runtime/machine.TaskEvent".to_owned(),
        value: vec![0xff],
    };
    assert!(Payload::unpack(&broken).is_err());
}

#[test]
fn debug_output_holds_no_keys() {
    let secret = "the key of the cluster";
    let shown = [
        format!("{:?}", common::Data { metadata: None, bytes: secret.into() }),
        format!(
            "{:?}",
            cosi::resource::Resource {
                metadata: None,
                spec: Some(cosi::resource::Spec {
                    proto_spec: secret.into(),
                    yaml_spec: secret.into(),
                }),
            }
        ),
        format!("{:?}", ApplyConfigurationRequest { data: secret.into(), ..Default::default() }),
        format!("{:?}", config::MachineConfigSpec { yaml_marshalled: secret.into() }),
    ];
    let as_numbers = format!("{:?}", secret.as_bytes());
    for text in shown {
        assert!(text.contains("<22 bytes>"), "{text}");
        assert!(!text.contains(secret) && !text.contains(as_numbers.trim_matches(['[', ']'])));
    }
}
