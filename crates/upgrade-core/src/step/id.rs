//! How steps are named. A lane may have several steps of one action, told apart by labels.

use std::fmt::{self, Display};
use std::str::FromStr;

use thiserror::Error;

use super::Action;
use crate::snapshot::NodeName;
use crate::text::serde_as_text;

/// As for every DNS label.
const LONGEST: usize = 63;

/// What tells steps of one action in a lane apart: a lower-case DNS label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepLabel(String);

impl Display for StepLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A text that cannot be the label of a step.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{0}` is not a label: it has 1 to 63 characters of a-z, 0-9 and `-`, and no `-` at either end"
)]
pub struct LabelError(String);

impl FromStr for StepLabel {
    type Err = LabelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_label = (1..=LONGEST).contains(&text.len())
            && text.bytes().all(allowed)
            && !text.starts_with('-')
            && !text.ends_with('-');
        if is_label { Ok(Self(text.to_owned())) } else { Err(LabelError(text.to_owned())) }
    }
}

/// The name of a step within its lane: `drain`, or `drain:label`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepName {
    /// What is done.
    pub action: Action,
    /// What tells it apart from other steps of this action in its lane.
    pub label: Option<StepLabel>,
}

impl From<Action> for StepName {
    fn from(action: Action) -> Self {
        Self { action, label: None }
    }
}

/// A step without a label is the only one of its action.
impl PartialEq<Action> for StepName {
    fn eq(&self, action: &Action) -> bool {
        self.action == *action && self.label.is_none()
    }
}

impl Display for StepName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_name(f, self.action, self.label.as_ref())
    }
}

impl FromStr for StepName {
    type Err = ParseStepError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let not_a_step = || ParseStepError::NotAStep(text.to_owned());
        let (action, label) =
            text.split_once(':').map_or((text, None), |(action, label)| (action, Some(label)));
        let mut known = Action::ALL.into_iter();
        let action = known.find(|known| known.name() == action).ok_or_else(not_a_step)?;
        let label = label.map(str::parse).transpose();
        let label = label.map_err(|why| ParseStepError::Label { step: text.to_owned(), why })?;
        Ok(Self { action, label })
    }
}

/// The name of a step within its plan: hop, node (or the cluster) and its name within the
/// lane, written `2/worker-3/drain`, `2/*/snapshot-etcd` or `2/worker-3/drain:label`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId {
    /// The hop's number, from 1.
    pub hop: u32,
    /// The node; `None` for a step of the whole cluster.
    pub node: Option<NodeName>,
    /// What is done.
    pub action: Action,
    /// What tells it apart from other steps of this action in its lane.
    pub label: Option<StepLabel>,
}

impl StepId {
    /// The step of this name in a lane of this node.
    pub fn new(hop: u32, node: Option<NodeName>, name: impl Into<StepName>) -> Self {
        let StepName { action, label } = name.into();
        Self { hop, node, action, label }
    }

    /// Whether this is its name within its lane.
    pub fn is(&self, name: &StepName) -> bool {
        self.action == name.action && self.label == name.label
    }
}

impl Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hop, node, action, label } = self;
        let node = node.as_ref().map_or("*", |node| node.0.as_str());
        write!(f, "{hop}/{node}/")?;
        write_name(f, *action, label.as_ref())
    }
}

fn write_name(
    f: &mut fmt::Formatter<'_>,
    action: Action,
    label: Option<&StepLabel>,
) -> fmt::Result {
    match label {
        Some(label) => write!(f, "{}:{label}", action.name()),
        None => f.write_str(action.name()),
    }
}

/// A text that is not the name of a step.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseStepError {
    /// It is not written like one.
    #[error("`{0}` is not a step: it is written like 2/worker-3/drain")]
    NotAStep(String),
    /// Its label is not one.
    #[error("`{step}` is not a step: {why}")]
    Label {
        /// The text.
        step: String,
        /// What is wrong with the label.
        why: LabelError,
    },
}

impl FromStr for StepId {
    type Err = ParseStepError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let not_a_step = || ParseStepError::NotAStep(text.to_owned());
        let mut parts = text.split('/');
        let (Some(hop), Some(node), Some(name), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(not_a_step());
        };
        let hop = hop.parse().map_err(|_| not_a_step())?;
        let node = match node {
            "" => return Err(not_a_step()),
            "*" => None,
            name => Some(name.into()),
        };
        let name: StepName = name.parse().map_err(|error| match error {
            ParseStepError::NotAStep(_) => not_a_step(),
            ParseStepError::Label { why, .. } => {
                ParseStepError::Label { step: text.to_owned(), why }
            }
        })?;
        Ok(Self::new(hop, node, name))
    }
}

serde_as_text!(StepId);
serde_as_text!(StepName);

#[cfg(test)]
mod tests {
    use proptest::option;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    proptest! {
        // The same cases in every run.
        #![proptest_config(ProptestConfig {
            rng_seed: RngSeed::Fixed(20_261_119),
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn every_step_is_read_back(
            hop in any::<u32>(),
            node in option::of("[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?"),
            action in prop::sample::select(Action::ALL.to_vec()),
            label in option::of("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"),
        ) {
            let label = label.map(|label| label.parse().unwrap());
            let name = StepName { action, label };
            prop_assert_eq!(name.to_string().parse::<StepName>().unwrap(), name.clone());
            let step = StepId::new(hop, node.map(|node| node.as_str().into()), name.clone());
            prop_assert!(step.is(&name));
            prop_assert_eq!(step.to_string().parse::<StepId>().unwrap(), step);
        }

        #[test]
        fn what_is_read_is_written_as_it_was(
            text in "[1-9]/([a-z-]{0,3}|[*])/(drain|soak|fly)(:[a-zA-Z0-9:-]{0,4})?",
        ) {
            if let Ok(step) = text.parse::<StepId>() {
                prop_assert_eq!(step.to_string(), text);
            }
        }
    }

    #[test]
    fn names_are_read_back() {
        for action in Action::ALL {
            for node in [None, Some("worker-3".into())] {
                let step = StepId::new(2, node, action);
                assert_eq!(step.to_string().parse::<StepId>().unwrap(), step);
            }
            assert_eq!(serde_json::to_string(&action).unwrap(), format!("\"{action}\""));
            let name = StepName::from(action);
            assert_eq!(serde_json::to_string(&name).unwrap(), format!("\"{action}\""));
        }
        for text in ["", "2/worker-3", "2//drain", "x/worker-3/drain", "2/a/fly", "2/a/drain/x"] {
            let wrong = ParseStepError::NotAStep(text.to_owned());
            assert_eq!(text.parse::<StepId>(), Err(wrong));
        }
    }

    #[test]
    fn labels_tell_steps_of_one_action_apart() {
        let label = |text: &str| -> StepLabel { text.parse().unwrap() };
        let name = StepName { action: Action::Soak, label: Some(label("before-2")) };
        assert_eq!(serde_json::to_string(&name).unwrap(), "\"soak:before-2\"");
        assert_eq!("soak:before-2".parse::<StepName>().unwrap(), name);
        let step = StepId::new(1, Some("worker-1".into()), name.clone());
        assert_eq!(step.to_string(), "1/worker-1/soak:before-2");
        assert_eq!(step.to_string().parse::<StepId>().unwrap(), step);
        assert!(step.is(&name) && !step.is(&Action::Soak.into()));
        assert_eq!(step.action, Action::Soak);
        assert_ne!(step, StepId::new(1, Some("worker-1".into()), Action::Soak));
        let unlabelled: StepName = Action::Soak.into();
        assert!(name != Action::Soak && unlabelled == Action::Soak);
    }

    #[test]
    fn a_label_is_a_dns_label() {
        let longest = "a".repeat(63);
        for text in ["a", "0", "a-b", longest.as_str()] {
            assert_eq!(text.parse::<StepLabel>().unwrap().to_string(), text);
        }
        let too_long = "a".repeat(64);
        for text in ["", "-a", "a-", "A", "a_b", "a.b", "a:b", "a b", "ä", too_long.as_str()] {
            let error = format!("2/a/drain:{text}").parse::<StepId>().unwrap_err().to_string();
            let quoted = format!("`{text}` is not a label");
            assert!(error.contains(&quoted) && error.contains("a-z, 0-9"), "{error}");
        }
    }
}
