//! The commands that bring what is missing. Pure, and each is one line for a shell.

use super::rights::{Right, Role};

/// Where the shipped manifests put the operator, and its account there.
const SHIPPED: &str = "vitistack-system";
const ACCOUNT: &str = "talos-operator";

/// Who asks, as the hub names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The hub does not say.
    Unknown,
    /// A service account.
    Account {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A user.
    User(String),
}

impl Subject {
    /// From a user's name.
    pub(super) fn of(user: &str) -> Self {
        let account = user.strip_prefix("system:serviceaccount:").and_then(|it| it.split_once(':'));
        match account {
            _ if user.is_empty() => Self::Unknown,
            Some((namespace, name)) => {
                Self::Account { namespace: namespace.to_owned(), name: name.to_owned() }
            }
            None => Self::User(user.to_owned()),
        }
    }

    /// For people.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Unknown => "the operator".to_owned(),
            Self::Account { namespace, name } => {
                format!("the service account {namespace}/{name}")
            }
            Self::User(user) => format!("the user {user}"),
        }
    }

    /// The account that the shipped manifests give these rights to.
    fn is_shipped(&self) -> bool {
        match self {
            // A hub that does not say is most likely asked by a pod of ours.
            Self::Unknown => true,
            Self::Account { namespace, name } => namespace == SHIPPED && name == ACCOUNT,
            Self::User(_) => false,
        }
    }

    /// What kubectl calls it, and a name for its bindings.
    fn words(&self) -> (String, String) {
        let plain = |text: &str| -> String {
            text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
        };
        match self {
            Self::Unknown => (format!("--serviceaccount={SHIPPED}:{ACCOUNT}"), String::new()),
            Self::Account { namespace, name } => (
                format!("--serviceaccount={namespace}:{name}"),
                format!("-{}-{}", plain(namespace), plain(name)),
            ),
            Self::User(user) => {
                (format!("--user={}", quoted(user)), format!("-{}", plain(user).to_lowercase()))
            }
        }
    }
}

/// Quotes any text as one word of a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:@/=+".contains(c);
    if text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Makes a namespace.
pub(super) fn namespace(name: &str) -> String {
    format!("kubectl create namespace {}", quoted(name))
}

/// Creates a namespace again that is being deleted.
pub(super) fn deleted_namespace(name: &str) -> String {
    let quoted = quoted(name);
    format!("kubectl wait --for=delete namespace/{quoted} --timeout=5m && {}", namespace(name))
}

/// Brings a kind. Where the platform has others of them, only those that are missing:
/// its own definitions are not ours to replace.
pub(super) fn kind(definition: &str, all: bool) -> String {
    if all {
        return "kubectl apply -f deploy/10-crds.yaml".to_owned();
    }
    format!("talos-operator crds {definition} | kubectl apply -f -")
}

/// Grants a right: in a namespace, or everywhere.
pub(super) fn right(right: &Right, subject: &Subject, own: &str, inside: Option<&str>) -> String {
    const APPLY: &str = "kubectl apply -f deploy/20-rbac.yaml";
    let (flag, suffix) = subject.words();
    if right.role == Role::Own && own != SHIPPED {
        return own_role(right, &flag, &suffix, own);
    }
    if subject.is_shipped() && own == SHIPPED {
        return APPLY.to_owned();
    }
    // The roles are in the shipped manifest; it binds them to its own account.
    let roles = "kubectl apply -f deploy/00-namespace.yaml -f deploy/20-rbac.yaml";
    let role = right.role.name();
    let bind = match (right.role, inside) {
        (Role::Own, _) => {
            format!("kubectl create rolebinding {role}{suffix} -n {SHIPPED} --role={role} {flag}")
        }
        (_, Some(namespace)) => {
            let namespace = quoted(namespace);
            format!(
                "kubectl create rolebinding {role}{suffix} -n {namespace} --clusterrole={role} {flag}"
            )
        }
        (_, None) => {
            format!("kubectl create clusterrolebinding {role}{suffix} --clusterrole={role} {flag}")
        }
    };
    format!("{roles} && {bind}")
}

/// The shipped Role is for the shipped namespace: another one gets a Role of its own.
fn own_role(right: &Right, flag: &str, suffix: &str, own: &str) -> String {
    let (own, resource) = (quoted(own), right.full_name());
    let name = format!("{ACCOUNT}-{}", right.resource);
    let verbs = right.verbs.join(",");
    format!(
        "kubectl create role {name} -n {own} --verb={verbs} --resource={resource} \
         --dry-run=client -o yaml | kubectl apply -f - && \
         kubectl create rolebinding {name}{suffix} -n {own} --role={name} {flag}"
    )
}

#[cfg(test)]
mod tests {
    use super::super::Weight;
    use super::super::rights::{LEASES, Scope};
    use super::*;

    const CLUSTERS: (Scope, Role) = (Scope::Watched, Role::Operator);
    const MACHINES: Right =
        Right::new(("example.org", "machines"), &["list"], CLUSTERS, Weight::Needed);
    const SECRETS: Right = Right::new(
        ("", "secrets"),
        &["get"],
        (Scope::Clusters, Role::ClusterAccess),
        Weight::Needed,
    );

    #[test]
    fn the_shipped_account_gets_the_shipped_manifest() {
        let shipped = Subject::of("system:serviceaccount:vitistack-system:talos-operator");
        let expected = "kubectl apply -f deploy/20-rbac.yaml";
        assert_eq!(right(&MACHINES, &shipped, SHIPPED, None), expected);
        assert_eq!(right(&LEASES, &shipped, SHIPPED, None), expected);
        assert_eq!(right(&LEASES, &Subject::of(""), SHIPPED, None), expected);
    }

    #[test]
    fn anybody_else_gets_bindings() {
        let anna = Subject::of("anna o'neill");
        let fix = right(&SECRETS, &anna, SHIPPED, None);
        assert!(
            fix.ends_with(
                r"&& kubectl create clusterrolebinding talos-operator-cluster-access-anna-o-neill --clusterrole=talos-operator-cluster-access --user='anna o'\''neill'"
            ),
            "{fix}"
        );
        let bot = Subject::of("system:serviceaccount:ci:bot");
        let fix = right(&MACHINES, &bot, SHIPPED, Some("east"));
        assert!(
            fix.ends_with(
                "&& kubectl create rolebinding talos-operator-ci-bot -n east --clusterrole=talos-operator --serviceaccount=ci:bot"
            ),
            "{fix}"
        );
        let fix = right(&LEASES, &bot, SHIPPED, None);
        assert!(fix.contains("-n vitistack-system --role=talos-operator "), "{fix}");
        let fix = right(&LEASES, &bot, "other", None);
        assert!(fix.starts_with("kubectl create role talos-operator-leases -n other"), "{fix}");
        assert!(fix.contains("--resource=leases.coordination.k8s.io"), "{fix}");
    }

    #[test]
    fn only_missing_kinds_are_brought() {
        assert_eq!(kind("machines.vitistack.io", true), "kubectl apply -f deploy/10-crds.yaml");
        let one = kind("machines.vitistack.io", false);
        assert_eq!(one, "talos-operator crds machines.vitistack.io | kubectl apply -f -");
    }
}
