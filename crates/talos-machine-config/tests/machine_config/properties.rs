//! Configurations made up in many shapes: an edit changes the one value that
//! was meant, and the bytes of nothing else.

use proptest::prelude::*;
use serde_json::{Value, json};
use talos_machine_config::{image, set_image};
use upgrade_core::image::ImageRef;
use upgrade_core::snapshot::Component;

/// How a section with an image is written.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Absent,
    Empty,
    Null,
    Flow,
    FlowWithMore,
    Block,
    BlockWithMore,
    BlockWithoutImage,
}

#[derive(Clone, Copy, Debug)]
enum Quote {
    Plain,
    Single,
    Double,
}

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a coin that is thrown")]
struct Config {
    sections: Vec<(&'static str, Shape, Quote)>,
    kubelet: (Shape, Quote),
    own: Vec<(&'static str, Shape, Quote)>,
    step: usize,
    crlf: bool,
    comments: bool,
    machine_last: bool,
    end: bool,
}

fn shape() -> impl Strategy<Value = Shape> {
    prop_oneof![
        Just(Shape::Absent),
        Just(Shape::Empty),
        Just(Shape::Null),
        Just(Shape::Flow),
        Just(Shape::FlowWithMore),
        Just(Shape::Block),
        Just(Shape::BlockWithMore),
        Just(Shape::BlockWithoutImage),
    ]
}

fn quote() -> impl Strategy<Value = Quote> {
    prop_oneof![Just(Quote::Plain), Just(Quote::Single), Just(Quote::Double)]
}

fn config() -> impl Strategy<Value = Config> {
    let sections = prop::collection::vec((shape(), quote()), 4);
    let own = prop::collection::vec((any::<bool>(), shape(), quote()), 5);
    (
        (sections, (shape(), quote()), own),
        (1_usize..7, any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
    )
        .prop_map(|((sections, kubelet, own), (step, crlf, comments, machine_last, end))| {
            let names = ["apiServer", "controllerManager", "scheduler", "proxy"];
            let kinds = [
                "KubeAPIServerConfig",
                "KubeControllerManagerConfig",
                "KubeSchedulerConfig",
                "KubeProxyConfig",
                "KubeletConfig",
            ];
            let whole = |(name, (shape, quote))| (name, shape, quote);
            Config {
                sections: names.into_iter().zip(sections).map(whole).collect(),
                kubelet,
                own: kinds
                    .into_iter()
                    .zip(own)
                    .filter(|(_, (there, ..))| *there)
                    .map(|(kind, (_, shape, quote))| (kind, shape, quote))
                    .collect(),
                step,
                crlf,
                comments,
                machine_last,
                end,
            }
        })
}

impl Config {
    fn text(&self) -> String {
        let mut lines: Vec<String> = vec!["version: v1alpha1".to_owned()];
        let machine = self.machine();
        let cluster = self.cluster();
        if self.machine_last {
            lines.extend(cluster.into_iter().chain(machine));
        } else {
            lines.extend(machine.into_iter().chain(cluster));
        }
        for (kind, shape, quote) in &self.own {
            lines.push("---".to_owned());
            let written = written("ghcr.io/own/image:v1.0.0", *quote);
            match shape {
                Shape::Flow | Shape::FlowWithMore | Shape::Empty => {
                    lines.push(format!("{{kind: {kind}, image: {written}}}"));
                }
                Shape::Null => lines.push(format!("{{kind: {kind}}}")),
                Shape::Absent | Shape::BlockWithoutImage => lines.push(format!("kind: {kind}")),
                Shape::Block | Shape::BlockWithMore => {
                    lines.push(format!("image: {written}{}", self.note()));
                    lines.push(format!("kind: {kind}"));
                }
            }
        }
        let end = if self.crlf { "\r\n" } else { "\n" };
        let mut text = lines.join(end);
        if self.end {
            text.push_str(end);
        }
        text
    }

    fn note(&self) -> &'static str {
        if self.comments { " # it's: {a note" } else { "" }
    }

    fn machine(&self) -> Vec<String> {
        let indent = " ".repeat(self.step);
        let mut lines = vec![format!("machine:{}", self.note())];
        if self.comments {
            lines.push(format!("{indent}# image: commented/out:v1"));
        }
        lines.push(format!("{indent}token: \"a: b # c\""));
        lines.push(format!("{indent}key: |"));
        lines.push(format!("{indent}  image: in/a/text:v1"));
        lines.extend(self.section("kubelet", self.kubelet.0, self.kubelet.1));
        lines
    }

    fn cluster(&self) -> Vec<String> {
        let indent = " ".repeat(self.step);
        let mut lines = vec!["cluster:".to_owned()];
        for (name, shape, quote) in &self.sections {
            lines.extend(self.section(name, *shape, *quote));
        }
        lines.push(format!("{indent}ids: [1, 'two', {{image: x}}]"));
        lines
    }

    fn section(&self, name: &str, shape: Shape, quote: Quote) -> Vec<String> {
        let indent = " ".repeat(self.step);
        let deeper = " ".repeat(self.step * 2);
        let written = written(&format!("registry.k8s.io/{}:v1.34.2", name.to_lowercase()), quote);
        let note = self.note();
        match shape {
            Shape::Absent => vec![],
            Shape::Empty => vec![format!("{indent}{name}:{note}")],
            Shape::Null => vec![format!("{indent}{name}: null{note}")],
            Shape::Flow => vec![format!("{indent}{name}: {{image: {written}}}{note}")],
            Shape::FlowWithMore => {
                vec![format!("{indent}{name}: {{ env: {{A: 'b'}}, image: {written} }}")]
            }
            Shape::Block => {
                vec![format!("{indent}{name}:{note}"), format!("{deeper}image: {written}{note}")]
            }
            Shape::BlockWithMore => vec![
                format!("{indent}{name}:"),
                format!("{deeper}extraArgs: {{image: other}}"),
                format!("{deeper}image:   {written}  {note}"),
                format!("{deeper}certSANs:"),
                format!("{deeper}- a"),
            ],
            Shape::BlockWithoutImage => {
                vec![format!("{indent}{name}:{note}"), format!("{deeper}extraArgs: {{}}")]
            }
        }
    }
}

fn written(image: &str, quote: Quote) -> String {
    match quote {
        Quote::Plain => image.to_owned(),
        Quote::Single => format!("'{image}'"),
        Quote::Double => format!("\"{image}\""),
    }
}

fn parse(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap()
}

fn places(component: Component) -> (&'static str, [&'static str; 2]) {
    match component {
        Component::KubeApiserver => ("KubeAPIServerConfig", ["cluster", "apiServer"]),
        Component::KubeControllerManager => {
            ("KubeControllerManagerConfig", ["cluster", "controllerManager"])
        }
        Component::KubeScheduler => ("KubeSchedulerConfig", ["cluster", "scheduler"]),
        Component::KubeProxy => ("KubeProxyConfig", ["cluster", "proxy"]),
        Component::Kubelet => ("KubeletConfig", ["machine", "kubelet"]),
    }
}

/// What the documents should say afterwards, made without the code at test.
fn expected(mut documents: Vec<Value>, component: Component, image: &str) -> Vec<Value> {
    let (kind, [outer, inner]) = places(component);
    if let Some(own) = documents.iter_mut().find(|document| document["kind"] == kind) {
        own["image"] = json!(image);
        return documents;
    }
    let section = &mut documents[0][outer][inner];
    if section.is_null() {
        *section = json!({});
    }
    section["image"] = json!(image);
    documents
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn an_edit_changes_one_value_and_no_other_byte(
        config in config(),
        component in prop::sample::select(vec![
            Component::KubeApiserver,
            Component::KubeControllerManager,
            Component::KubeScheduler,
            Component::KubeProxy,
            Component::Kubelet,
        ]),
    ) {
        let text = config.text();
        let new = "mirror.lan:5000/k8s/part:v1.35.4-fat";
        let reference: ImageRef = new.parse().unwrap();
        let changed = set_image(&text, component, &reference).unwrap().unwrap();
        prop_assert_eq!(parse(&changed), expected(parse(&text), component, new), "{}", changed);
        prop_assert_eq!(image(&changed, component).unwrap(), Some(reference.clone()));
        prop_assert_eq!(set_image(&changed, component, &reference).unwrap(), None);

        // What was taken out is at most the old image, on one line; the rest of
        // the text stands on both sides of it.
        let (before, after) = (text.as_bytes(), changed.as_bytes());
        let same = before.iter().zip(after).take_while(|(a, b)| a == b).count();
        let rest = before[same..].iter().rev().zip(after[same..].iter().rev());
        let same_end = rest.take_while(|(a, b)| a == b).count();
        let taken = &text[same..text.len() - same_end];
        let old = image(&text, component).unwrap().map(|old| old.to_string()).unwrap_or_default();
        prop_assert!(old.contains(taken) || taken == "null", "took out {:?}", taken);
        if config.crlf {
            prop_assert_eq!(changed.matches('\n').count(), changed.matches("\r\n").count());
        }
    }
}
