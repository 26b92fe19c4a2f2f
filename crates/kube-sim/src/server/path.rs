//! Resource paths.

/// A parsed resource path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) namespace: String,
    pub(super) plural: String,
    pub(super) name: String,
    pub(super) subresource: String,
}

impl Target {
    /// The resource that a path names; `None` for all other paths.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let parts: Vec<String> =
            path.trim_matches('/').split('/').map(super::query::decode).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let target = |namespace: &str, plural: &str, name: &str, subresource: &str| {
            Some(Self {
                group: group.to_owned(),
                version: version.to_owned(),
                namespace: namespace.to_owned(),
                plural: plural.to_owned(),
                name: name.to_owned(),
                subresource: subresource.to_owned(),
            })
        };
        match rest {
            // Namespaces have two subresources of their own; anything else after a namespace's name
            // is a resource in it.
            ["namespaces", name, sub @ ("status" | "finalize")] if group.is_empty() => {
                target("", "namespaces", name, sub)
            }
            ["namespaces", namespace, plural] => target(namespace, plural, "", ""),
            ["namespaces", namespace, plural, name] => target(namespace, plural, name, ""),
            ["namespaces", namespace, plural, name, sub] => target(namespace, plural, name, sub),
            [plural] => target("", plural, "", ""),
            [plural, name] => target("", plural, name, ""),
            [plural, name, sub] => target("", plural, name, sub),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_parsed() {
        let parts = |path: &str| {
            let target = Target::parse(path)?;
            Some([target.group, target.namespace, target.plural, target.name, target.subresource])
        };
        let is = |path: &str, wanted: [&str; 5]| {
            assert_eq!(parts(path), Some(wanted.map(str::to_owned)), "{path}");
        };
        is("/api/v1/nodes", ["", "", "nodes", "", ""]);
        is("/api/v1/namespaces", ["", "", "namespaces", "", ""]);
        is("/api/v1/namespaces/a", ["", "", "namespaces", "a", ""]);
        is("/api/v1/namespaces/a/finalize", ["", "", "namespaces", "a", "finalize"]);
        is("/api/v1/namespaces/a/pods/b/eviction", ["", "a", "pods", "b", "eviction"]);
        is("/apis/apps/v1/namespaces/a/deployments", ["apps", "a", "deployments", "", ""]);
        is("/apis/x.io/v1/things/a%3Ab", ["x.io", "", "things", "a:b", ""]);
        assert_eq!(parts("/version"), None);
        assert_eq!(parts("/apis/apps/v1"), None);
    }
}
