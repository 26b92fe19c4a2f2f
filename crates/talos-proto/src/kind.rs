//! The kinds of resources we use: their types, namespaces and definitions.
//!
//! A node describes its kinds in resources of type `ResourceDefinitions.meta.cosi.dev`; talosctl
//! reads those first, to map `get links` to a type and to know the columns of the table. So the
//! table below has everything a definition needs, and [`Kind::definition`] builds one.

use crate::cosi::resource::meta::{
    ResourceDefinitionSpec,
    resource_definition_spec::{PrintColumn, Sensitivity},
};

/// A kind of resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    /// `Members.cluster.talos.dev`.
    pub resource_type: &'static str,
    /// The display name of one resource: `Member`.
    pub display_type: &'static str,
    /// The default namespace of its resources.
    pub namespace: &'static str,
    /// The ID of the only resource, or of the relevant one.
    pub id: Option<&'static str>,
    /// The short names in the node's definition.
    pub aliases: &'static [&'static str],
    /// Columns of a table: name, and JSON path in the YAML of the spec.
    pub columns: &'static [(&'static str, &'static str)],
    /// Whether reading it requires the role `os:admin`, according to the newest versions; in
    /// 1.12.6, `os:reader` may read [`KUBELET_SPEC`] and [`API_SERVER_CONFIG`].
    pub sensitive: bool,
    /// The minor version of Talos 1 that introduced it; 0 if every supported version has it.
    pub since_minor: u64,
}

impl Kind {
    const fn new(
        resource_type: &'static str,
        display_type: &'static str,
        namespace: &'static str,
        aliases: &'static [&'static str],
    ) -> Self {
        Self {
            resource_type,
            display_type,
            namespace,
            id: None,
            aliases,
            columns: &[],
            sensitive: false,
            since_minor: 0,
        }
    }

    const fn id(self, id: &'static str) -> Self {
        Self { id: Some(id), ..self }
    }

    const fn columns(self, columns: &'static [(&'static str, &'static str)]) -> Self {
        Self { columns, ..self }
    }

    const fn sensitive(self) -> Self {
        Self { sensitive: true, ..self }
    }

    const fn since_minor(self, since_minor: u64) -> Self {
        Self { since_minor, ..self }
    }

    /// The ID of the resource that defines this kind, in namespace `meta`.
    pub fn definition_id(&self) -> String {
        self.resource_type.to_lowercase()
    }

    /// The definition of this kind. Besides the explicit aliases it lists the automatic ones: the
    /// type in lower case, truncated at each of its dots.
    pub fn definition(&self) -> ResourceDefinitionSpec {
        let Self {
            resource_type,
            display_type,
            namespace,
            id: _,
            aliases,
            columns,
            sensitive,
            since_minor: _,
        } = *self;
        let lower = self.definition_id();
        let aliases: Vec<String> = aliases.iter().map(|&alias| alias.to_owned()).collect();
        let mut all_aliases: Vec<String> =
            lower.match_indices('.').map(|(dot, _)| lower[..dot].to_owned()).collect();
        all_aliases.extend(aliases.iter().cloned());
        let sensitivity =
            if sensitive { Sensitivity::Sensitive } else { Sensitivity::NonSensitive };
        ResourceDefinitionSpec {
            resource_type: resource_type.to_owned(),
            display_type: display_type.to_owned(),
            default_namespace: namespace.to_owned(),
            aliases,
            all_aliases,
            print_columns: columns
                .iter()
                .map(|&(name, json_path)| PrintColumn {
                    name: name.to_owned(),
                    json_path: json_path.to_owned(),
                })
                .collect(),
            sensitivity: sensitivity.into(),
        }
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])+ $name:ident = $kind:expr;)+) => {
        $($(#[$doc])+ pub const $name: Kind = $kind;)+

        /// Every kind of this module.
        pub const ALL: &[Kind] = &[$($name),+];
    };
}

kinds! {
    /// Payload: [`ResourceDefinitionSpec`]. The ID is the type in lower case.
    RESOURCE_DEFINITION = Kind::new(
        "ResourceDefinitions.meta.cosi.dev",
        "ResourceDefinition",
        "meta",
        &["api-resources", "resourcedefinition", "rd", "rds"],
    )
    .columns(&[("Aliases", "{.aliases[:]}")]);

    /// Payload: [`NamespaceSpec`](crate::cosi::resource::meta::NamespaceSpec).
    NAMESPACE =
        Kind::new("Namespaces.meta.cosi.dev", "Namespace", "meta", &["ns", "namespace"]);

    /// Payload: [`MachineStatusSpec`](crate::resource::runtime::MachineStatusSpec).
    MACHINE_STATUS = Kind::new(
        "MachineStatuses.runtime.talos.dev",
        "MachineStatus",
        "runtime",
        &["machinestatus", "ms"],
    )
    .id("machine")
    .columns(&[("Stage", "{.stage}"), ("Ready", "{.status.ready}")]);

    /// Payload: [`Layer`](crate::resource::extensions::Layer). The IDs are numbers.
    EXTENSION_STATUS = Kind::new(
        "ExtensionStatuses.runtime.talos.dev",
        "ExtensionStatus",
        "runtime",
        &["extensions", "extensionstatus", "es"],
    )
    .columns(&[("Name", "{.metadata.name}"), ("Version", "{.metadata.version}")]);

    /// Payload: [`ImageFactorySchematicSpec`](crate::resource::runtime::ImageFactorySchematicSpec).
    IMAGE_FACTORY_SCHEMATIC = Kind::new(
        "ImageFactorySchematics.runtime.talos.dev",
        "ImageFactorySchematic",
        "runtime",
        &["imagefactoryschematic", "ifs"],
    )
    .id("image-factory-schematic")
    .columns(&[
        ("Schematic ID", "{.schematicId}"),
        ("Flavor", "{.flavor}"),
        ("API URL", "{.apiUrl}"),
    ])
    .since_minor(14);

    /// Payload: [`BootIdSpec`](crate::resource::runtime::BootIdSpec).
    BOOT_ID =
        Kind::new("BootIDs.runtime.talos.dev", "BootID", "runtime", &["bootid", "bid", "bids"])
            .id("boot-id")
            .columns(&[("Boot ID", "{.bootID}")])
            .since_minor(14);

    /// Payload: [`VersionSpec`](crate::resource::runtime::VersionSpec).
    VERSION = Kind::new("Versions.runtime.talos.dev", "Version", "runtime", &["version"])
        .id("version")
        .columns(&[("Name", "{.name}"), ("Version", "{.version}")]);

    /// Payload: [`DiagnosticSpec`](crate::resource::runtime::DiagnosticSpec).
    DIAGNOSTIC =
        Kind::new("Diagnostics.runtime.talos.dev", "Diagnostic", "runtime", &["diagnostic"])
            .columns(&[("Message", "{.message}")]);

    /// Payload: [`SecurityStateSpec`](crate::resource::runtime::SecurityStateSpec).
    SECURITY_STATE =
        Kind::new("SecurityStates.talos.dev", "SecurityState", "runtime", &["securitystate", "ss"])
            .id("securitystate")
            .columns(&[
                ("SecureBoot", "{.secureBoot}"),
                ("UKISigningKeyFingerprint", "{.ukiSigningKeyFingerprint}"),
                ("PCRSigningKeyFingerprint", "{.pcrSigningKeyFingerprint}"),
                ("SELinuxState", "{.selinuxState}"),
            ]);

    /// Payload: [`BootedEntrySpec`](crate::resource::runtime::BootedEntrySpec).
    BOOTED_ENTRY =
        Kind::new("BootedEntries.talos.dev", "BootedEntry", "runtime", &["bootedentry", "be", "bes"])
            .id("bootedentry")
            .columns(&[("Booted Entry", "{.bootedEntry}")]);

    /// Payload: [`ServicePidSpec`](crate::resource::runtime::ServicePidSpec). The ID is the
    /// service's; `installer` exists while an installer runs.
    SERVICE_PID =
        Kind::new("ServicePIDs.runtime.talos.dev", "ServicePID", "runtime", &["servicepid"])
            .columns(&[("PID", "{.pid}")])
            .since_minor(13);

    /// Payload: [`ServiceSpec`](crate::resource::v1alpha1::ServiceSpec). The ID is the service's.
    SERVICE =
        Kind::new("Services.v1alpha1.talos.dev", "Service", "runtime", &["svc", "service"])
            .columns(&[
                ("Running", "{.running}"),
                ("Healthy", "{.healthy}"),
                ("Health Unknown", "{.unknown}"),
            ]);

    /// Payload: [`VolumeStatusSpec`](crate::resource::block::VolumeStatusSpec). The ID is the
    /// volume's name.
    VOLUME_STATUS = Kind::new(
        "VolumeStatuses.block.talos.dev",
        "VolumeStatus",
        "runtime",
        &["volumestatus", "vs"],
    )
    .columns(&[
        ("Type", "{.type}"),
        ("Phase", "{.phase}"),
        ("Location", "{.location}"),
        ("Size", "{.prettySize}"),
    ]);

    /// Payload: [`MachineConfigSpec`](crate::resource::config::MachineConfigSpec).
    MACHINE_CONFIG = Kind::new(
        "MachineConfigs.config.talos.dev",
        "MachineConfig",
        "config",
        &["machineconfig", "mc", "mcs"],
    )
    .id("v1alpha1")
    .sensitive();

    /// Payload: [`MachineTypeSpec`](crate::resource::config::MachineTypeSpec).
    MACHINE_TYPE = Kind::new(
        "MachineTypes.config.talos.dev",
        "MachineType",
        "config",
        &["machinetype", "mt", "mts"],
    )
    .id("machine-type")
    .columns(&[("Type", "{@}")]);

    /// Payload: [`ConfigSpec`](crate::resource::kubeaccess::ConfigSpec).
    KUBERNETES_ACCESS_CONFIG = Kind::new(
        "KubernetesAccessConfigs.cluster.talos.dev",
        "KubernetesAccessConfig",
        "config",
        &["kubernetesaccessconfig", "kac", "kacs"],
    )
    .id("config");

    /// Payload: [`NodenameSpec`](crate::resource::k8s::NodenameSpec).
    NODENAME = Kind::new("Nodenames.kubernetes.talos.dev", "Nodename", "k8s", &["nodename"])
        .id("nodename")
        .columns(&[("Nodename", "{.nodename}")]);

    /// Payload: [`NodeStatusSpec`](crate::resource::k8s::NodeStatusSpec). The ID is the node's
    /// name.
    NODE_STATUS = Kind::new(
        "NodeStatuses.kubernetes.talos.dev",
        "NodeStatus",
        "k8s",
        &["nodestatus", "ns"],
    )
    .columns(&[("Ready", "{.nodeReady}"), ("Unschedulable", "{.unschedulable}")]);

    /// Payload: [`KubeletSpecSpec`](crate::resource::k8s::KubeletSpecSpec).
    KUBELET_SPEC = Kind::new(
        "KubeletSpecs.kubernetes.talos.dev",
        "KubeletSpec",
        "k8s",
        &["kubeletspec", "ks"],
    )
    .id("kubelet")
    .sensitive();

    /// Payload: [`StaticPodSpec`](crate::resource::k8s::StaticPodSpec). The ID is the pod's name.
    STATIC_POD = Kind::new(
        "StaticPods.kubernetes.talos.dev",
        "StaticPod",
        "k8s",
        &["staticpod", "sp", "sps"],
    );

    /// Payload: [`StaticPodStatusSpec`](crate::resource::k8s::StaticPodStatusSpec). The ID is
    /// `kube-system/` and the pod's name with that of the node.
    STATIC_POD_STATUS = Kind::new(
        "StaticPodStatuses.kubernetes.talos.dev",
        "StaticPodStatus",
        "k8s",
        &["podstatus", "staticpodstatus", "sps"],
    )
    .columns(&[("Ready", r#"{.conditions[?(@.type=="Ready")].status}"#)]);

    /// Payload: [`ApiServerConfigSpec`](crate::resource::k8s::ApiServerConfigSpec).
    API_SERVER_CONFIG = Kind::new(
        "APIServerConfigs.kubernetes.talos.dev",
        "APIServerConfig",
        "controlplane",
        &["apiserverconfig", "apisc", "apiscs"],
    )
    .id("kube-apiserver")
    .sensitive();

    /// Payload: [`ControllerManagerConfigSpec`](crate::resource::k8s::ControllerManagerConfigSpec).
    CONTROLLER_MANAGER_CONFIG = Kind::new(
        "ControllerManagerConfigs.kubernetes.talos.dev",
        "ControllerManagerConfig",
        "controlplane",
        &["controllermanagerconfig", "cmc", "cmcs"],
    )
    .id("kube-controller-manager");

    /// Payload: [`SchedulerConfigSpec`](crate::resource::k8s::SchedulerConfigSpec).
    SCHEDULER_CONFIG = Kind::new(
        "SchedulerConfigs.kubernetes.talos.dev",
        "SchedulerConfig",
        "controlplane",
        &["schedulerconfig", "sc", "scs"],
    )
    .id("kube-scheduler");

    /// Payload: [`ManifestSpec`](crate::resource::k8s::ManifestSpec). The ID is the file's name.
    MANIFEST =
        Kind::new("Manifests.kubernetes.talos.dev", "Manifest", "controlplane", &["manifest"]);

    /// Payload: [`BootstrapManifestsConfigSpec`](crate::resource::k8s::BootstrapManifestsConfigSpec).
    BOOTSTRAP_MANIFESTS_CONFIG = Kind::new(
        "BootstrapManifestsConfigs.kubernetes.talos.dev",
        "BootstrapManifestsConfig",
        "controlplane",
        &["bootstrapmanifestsconfig", "bmc", "bmcs"],
    )
    .id("manifests");

    /// Payload: [`ExtraManifestsConfigSpec`](crate::resource::k8s::ExtraManifestsConfigSpec). It
    /// may contain Secrets, and `os:reader` may read it.
    EXTRA_MANIFESTS_CONFIG = Kind::new(
        "ExtraManifestsConfigs.kubernetes.talos.dev",
        "ExtraManifestsConfig",
        "controlplane",
        &["extramanifestsconfig", "emc", "emcs"],
    )
    .id("extra-manifests");

    /// Payload: [`MemberSpec`](crate::resource::cluster::MemberSpec). The ID is the node's name.
    MEMBER = Kind::new("Members.cluster.talos.dev", "Member", "cluster", &["member"]).columns(&[
        ("Hostname", "{.hostname}"),
        ("Machine Type", "{.machineType}"),
        ("OS", "{.operatingSystem}"),
        ("Addresses", "{.addresses}"),
    ]);

    /// Payload: [`InfoSpec`](crate::resource::cluster::InfoSpec).
    CLUSTER_INFO = Kind::new("Infos.cluster.talos.dev", "Info", "cluster", &["info"])
        .id("current")
        .columns(&[("Cluster ID", "{.clusterId}"), ("Cluster Name", "{.clusterName}")]);

    /// Payload: [`MemberSpec`](crate::resource::etcd::MemberSpec).
    ETCD_MEMBER = Kind::new(
        "EtcdMembers.etcd.talos.dev",
        "EtcdMember",
        "etcd",
        &["etcdmember", "em", "ems"],
    )
    .id("local")
    .columns(&[("Member ID", "{.memberID}")]);

    /// Payload: [`LinkStatusSpec`](crate::resource::network::LinkStatusSpec). The ID is the link's
    /// name.
    LINK_STATUS = Kind::new(
        "LinkStatuses.net.talos.dev",
        "LinkStatus",
        "network",
        &["link", "links", "linkstatus", "ls"],
    )
    .columns(&[
        ("Alias", "{.alias}"),
        ("Type", "{.type}"),
        ("Kind", "{.kind}"),
        ("Hw Addr", "{.hardwareAddr}"),
        ("Oper State", "{.operationalState}"),
        ("Link State", "{.linkState}"),
    ]);

    /// Payload: [`HostnameStatusSpec`](crate::resource::network::HostnameStatusSpec).
    HOSTNAME_STATUS = Kind::new(
        "HostnameStatuses.net.talos.dev",
        "HostnameStatus",
        "network",
        &["hostname", "hostnamestatus", "hs"],
    )
    .id("hostname")
    .columns(&[("Hostname", "{.hostname}"), ("Domainname", "{.domainname}")]);

    /// Payload: [`NodeAddressSpec`](crate::resource::network::NodeAddressSpec).
    NODE_ADDRESS = Kind::new(
        "NodeAddresses.net.talos.dev",
        "NodeAddress",
        "network",
        &["nodeaddress", "na", "nas"],
    )
    .columns(&[("Addresses", "{.addresses}"), ("SortAlgorithm", "{.sortAlgorithm}")]);
}
