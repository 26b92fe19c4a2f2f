//! Configurations as Talos 1.12, 1.13 and 1.14 make them (secrets made up), and
//! ones as people write them: one image changes, and nothing beside it.

use talos_machine_config::{ConfigError, image, images, proxy_is_off, set_image};
use upgrade_core::image::ImageRef;
use upgrade_core::snapshot::Component;

const CONTROL_PLANES: [(&str, &str); 3] = [
    ("1.12", include_str!("../configs/1.12-controlplane.yaml")),
    ("1.13", include_str!("../configs/1.13-controlplane.yaml")),
    ("1.14", include_str!("../configs/1.14-controlplane.yaml")),
];

const WORKERS: [(&str, &str); 3] = [
    ("1.12", include_str!("../configs/1.12-worker.yaml")),
    ("1.13", include_str!("../configs/1.13-worker.yaml")),
    ("1.14", include_str!("../configs/1.14-worker.yaml")),
];

const ALL: [Component; 5] = [
    Component::KubeApiserver,
    Component::KubeControllerManager,
    Component::KubeScheduler,
    Component::KubeProxy,
    Component::Kubelet,
];

fn reference(component: Component, tag: &str) -> ImageRef {
    let text = match component {
        Component::Kubelet => format!("ghcr.io/siderolabs/kubelet:{tag}"),
        other => format!("registry.k8s.io/{other}:{tag}"),
    };
    text.parse().unwrap()
}

fn set(text: &str, component: Component, image: &ImageRef) -> String {
    set_image(text, component, image).unwrap().expect("the image is another one")
}

/// The lines that differ, as pairs; both texts have the same number.
fn differences<'a>(before: &'a str, after: &'a str) -> Vec<(&'a str, &'a str)> {
    assert_eq!(before.matches('\n').count(), after.matches('\n').count());
    let pairs = before.split('\n').zip(after.split('\n'));
    pairs.filter(|(before, after)| before != after).collect()
}

#[test]
fn generated_configurations_change_in_one_line() {
    for (version, text) in CONTROL_PLANES {
        assert_eq!(images(text).unwrap().len(), 5, "{version}");
        for component in ALL {
            let old = reference(component, "v1.34.2");
            assert_eq!(image(text, component).unwrap(), Some(old.clone()), "{version} {component}");
            let new = reference(component, "v1.35.4");
            let changed = set(text, component, &new);
            let lines = differences(text, &changed);
            let [(before, after)] = lines[..] else { panic!("{version} {component}: {lines:?}") };
            assert_eq!(before.replace(&old.to_string(), &new.to_string()), after);
            assert_eq!(set_image(&changed, component, &new).unwrap(), None, "twice is once");
            assert_eq!(set(&changed, component, &old), text, "and back again");
        }
    }
}

#[test]
fn a_worker_has_no_image_but_the_kubelet() {
    for (version, text) in WORKERS {
        let old = reference(Component::Kubelet, "v1.34.2");
        let all: Vec<_> = images(text).unwrap().into_values().collect();
        assert_eq!(all, [old], "{version}");
        let new = "mirror.lan:5000/kubelet:v1.35.4-slim@sha256:abcd".parse().unwrap();
        let changed = set(text, Component::Kubelet, &new);
        assert_eq!(differences(text, &changed).len(), 1);
        assert_eq!(image(&changed, Component::Kubelet).unwrap(), Some(new));
    }
}

/// Each text, and the same with kube-scheduler at `s:v2`.
#[test]
fn the_style_of_the_author_is_kept() {
    for (before, after) in [
        (
            "cluster:\n  scheduler:\n    image: s:v1 # pinned\n",
            "cluster:\n  scheduler:\n    image: s:v2 # pinned\n",
        ),
        ("cluster: {scheduler: {image: s:v1}}\n", "cluster: {scheduler: {image: s:v2}}\n"),
        ("cluster: {scheduler: {image: 's:v1' }}", "cluster: {scheduler: {image: 's:v2' }}"),
        (
            "cluster:\n  scheduler:\n    image: \"s:v1\"\n",
            "cluster:\n  scheduler:\n    image: \"s:v2\"\n",
        ),
        (
            "cluster:\r\n  scheduler:\r\n    image: s:v1\r\n",
            "cluster:\r\n  scheduler:\r\n    image: s:v2\r\n",
        ),
        (
            "cluster:\n  scheduler:\n    image: !!str s:v1\n",
            "cluster:\n  scheduler:\n    image: !!str s:v2\n",
        ),
        (
            "# ä\ncluster:\n  scheduler:\n    image:   s:v1   \n",
            "# ä\ncluster:\n  scheduler:\n    image:   s:v2   \n",
        ),
        // Missing, more and more of it.
        ("cluster:\n  scheduler:\n    image:\n", "cluster:\n  scheduler:\n    image: s:v2\n"),
        (
            "cluster:\n  scheduler:\n    image: null # why\n",
            "cluster:\n  scheduler:\n    image: s:v2 # why\n",
        ),
        (
            "cluster:\n  scheduler:\n    image: \"\"\n",
            "cluster:\n  scheduler:\n    image: \"s:v2\"\n",
        ),
        (
            "cluster:\n  scheduler: # mine\n    # note\n    extraArgs: {}\n",
            "cluster:\n  scheduler: # mine\n    image: s:v2\n    # note\n    extraArgs: {}\n",
        ),
        ("cluster:\n  scheduler: {}\n", "cluster:\n  scheduler: {image: s:v2}\n"),
        (
            "cluster:\n  scheduler: {config: {}}\n",
            "cluster:\n  scheduler: {image: s:v2, config: {}}\n",
        ),
        ("cluster:\n  scheduler: ~\n", "cluster:\n  scheduler: {image: s:v2}\n"),
        (
            "cluster:\n  scheduler:\n  token: x\n",
            "cluster:\n  scheduler:\n    image: s:v2\n  token: x\n",
        ),
        ("cluster:\n  scheduler:", "cluster:\n  scheduler:\n    image: s:v2"),
        ("cluster: {scheduler: , a: b}\n", "cluster: {scheduler: {image: s:v2} , a: b}\n"),
        ("cluster: {scheduler}\n", "cluster: {scheduler: {image: s:v2}}\n"),
        (
            "cluster:\n      # note\n      token: x\n",
            "cluster:\n      scheduler:\n            image: s:v2\n      # note\n      token: x\n",
        ),
        ("cluster: {}\n", "cluster: {scheduler: {image: s:v2}}\n"),
        (
            "# mine\nversion: v1alpha1\r\nmachine:\r\n  type: worker\r\n",
            "# mine\nversion: v1alpha1\r\ncluster:\r\n  scheduler:\r\n    image: s:v2\r\nmachine:\r\n  type: worker\r\n",
        ),
        (
            "---\nmachine: {}\n...\n",
            "---\ncluster:\n    scheduler:\n        image: s:v2\nmachine: {}\n...\n",
        ),
        // A document of its own is the one that counts, wherever it stands.
        (
            "kind: KubeSchedulerConfig\nimage: s:v1\n---\nversion: v1alpha1\n",
            "kind: KubeSchedulerConfig\nimage: s:v2\n---\nversion: v1alpha1\n",
        ),
        (
            "version: v1alpha1\n---\napiVersion: v1alpha1\nkind: KubeSchedulerConfig # 1.14\nconfig: {}\n---\nkind: Other\nimage: s:v1\n",
            "version: v1alpha1\n---\napiVersion: v1alpha1\nkind: KubeSchedulerConfig # 1.14\nimage: s:v2\nconfig: {}\n---\nkind: Other\nimage: s:v1\n",
        ),
        // An alias that stands for the image is written out; the anchor stays.
        (
            "a: &i s:v1\ncluster: {scheduler: {image: *i }, proxy: {image: *i }}\n",
            "a: &i s:v1\ncluster: {scheduler: {image: s:v2 }, proxy: {image: *i }}\n",
        ),
    ] {
        let image: ImageRef = "s:v2".parse().unwrap();
        let changed = set_image(before, Component::KubeScheduler, &image);
        assert_eq!(changed, Ok(Some(after.to_owned())), "{before}");
        assert_eq!(set_image(after, Component::KubeScheduler, &image), Ok(None), "{after}");
    }
}

#[test]
fn a_shared_value_is_refused_with_its_line() {
    let image: ImageRef = "s:v2".parse().unwrap();
    let path = || "cluster.scheduler".to_owned();
    for (text, error) in [
        ("a: [", ConfigError::Unreadable { line: 1 }),
        ("kind: KubeletConfig\n", ConfigError::NoPlace { path: "cluster.scheduler.image" }),
        ("", ConfigError::NoPlace { path: "cluster.scheduler.image" }),
        ("a: 1\n---\nb: 2\n", ConfigError::Twice { what: "the v1alpha1 document".into(), line: 3 }),
        ("cluster: {}\ncluster: {}\n", ConfigError::Twice { what: "cluster".into(), line: 2 }),
        ("cluster:\n  scheduler: 3\n", ConfigError::NotASection { path: path(), line: 2 }),
        ("cluster:\n  scheduler: [a]\n", ConfigError::NotASection { path: path(), line: 2 }),
        (
            "cluster:\n  scheduler:\n    image: |\n      s:v1\n",
            ConfigError::NotAnImage { path: "cluster.scheduler.image".into(), line: 3 },
        ),
        (
            "cluster:\n  scheduler:\n    image: [s]\n",
            ConfigError::NotAnImage { path: "cluster.scheduler.image".into(), line: 3 },
        ),
        (
            "x: &s {image: s:v1}\ncluster:\n  scheduler: *s\n",
            ConfigError::Shared { path: path(), line: 3 },
        ),
        (
            "cluster:\n  scheduler: &s {image: s:v1}\n  x: *s\n",
            ConfigError::Shared { path: path(), line: 2 },
        ),
        (
            "x: &s {image: s:v1}\ncluster:\n  scheduler:\n    <<: *s\n",
            ConfigError::Shared { path: path(), line: 4 },
        ),
        (
            "cluster: {scheduler: {image: &i s:v1}, x: *i}\n",
            ConfigError::Shared { path: "cluster.scheduler.image".into(), line: 1 },
        ),
    ] {
        assert_eq!(set_image(text, Component::KubeScheduler, &image), Err(error), "{text}");
    }
}

#[test]
fn errors_never_quote_the_text() {
    // Rule 14.
    let image: ImageRef = "s:v2".parse().unwrap();
    for text in [
        "machine:\n  token: s3cr3t\n ca: s3cr3t\n",
        "machine: {ca: \"s3cr3t\ncluster: *s3cr3t\n",
        "cluster:\n  scheduler:\n    image: S3CR3T s3cr3t\n    s3cr3t\n",
    ] {
        let error = set_image(text, Component::KubeScheduler, &image).unwrap_err();
        let words = format!("{error} {error:?}").to_lowercase();
        assert!(!words.contains("s3cr3t"), "{words}");
    }
}

#[test]
fn a_disabled_proxy_is_recognised() {
    for (text, off) in [
        ("cluster: {proxy: {disabled: true}}", true),
        ("cluster: {proxy: {disabled: false}}", false),
        ("cluster: {proxy: {image: p:v1}}", false),
        ("cluster: {}", false),
        ("a: b\n---\nkind: KubeProxyConfig\nenabled: false\n", true),
        ("a: b\n---\nkind: KubeProxyConfig\nimage: p:v1\n", false),
        ("cluster: {proxy: {disabled: true}}\n---\nkind: KubeProxyConfig\n", false),
    ] {
        assert_eq!(proxy_is_off(text), Ok(off), "{text}");
    }
}
