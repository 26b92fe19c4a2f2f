use super::*;

/// A kubeconfig with these contexts, each with a cluster of its name.
fn kubeconfig(contexts: &[&str], current: &str) -> String {
    let context =
        |name: &&str| format!("- {{name: {name}, context: {{cluster: {name}, user: u}}}}");
    let cluster = |name: &&str| {
        format!("- {{name: {name}, cluster: {{server: \"https://{name}.test:6443\"}}}}")
    };
    let lines =
        |each: &dyn Fn(&&str) -> String| contexts.iter().map(each).collect::<Vec<_>>().join("\n");
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: \"{current}\"\ncontexts:\n{}\n\
         clusters:\n{}\nusers:\n- {{name: u, user: {{token: hunter2}}}}\n",
        lines(&context),
        lines(&cluster),
    )
}

struct Files(tempfile::TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join(".kube")).expect("a folder");
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).expect("a file");
        }
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// What a user with this home says; a variable of several files.
    fn given(&self, flag: Option<&str>, variable: &[&str]) -> HubOptions {
        let named = variable.iter().map(|name| self.path(name));
        let variable = (!variable.is_empty()).then(|| std::env::join_paths(named).expect("a list"));
        HubOptions {
            kubeconfig: flag.map(|name| self.path(name)),
            context: None,
            variable,
            home: Some(self.0.path().to_owned()),
        }
    }
}

/// Which hub is found, and where its name comes from.
async fn found(given: &HubOptions) -> Result<(Origin, String), HubConfigError> {
    let access = find(given).await?;
    Ok((access.origin, access.config.cluster_url.host().expect("a host").to_owned()))
}

#[tokio::test]
async fn the_order_is_that_of_kubectl() {
    let files = Files::new(&[
        ("flag", &kubeconfig(&["flag"], "flag")),
        ("one", &kubeconfig(&["one"], "")),
        ("two", &kubeconfig(&["two", "one"], "two")),
        (".kube/config", &kubeconfig(&["home"], "home")),
        ("empty", ""),
    ]);
    let hub = |origin, host: &str| (origin, format!("{host}.test"));
    let found_by = async |flag, variable: &[&str]| found(&files.given(flag, variable)).await;
    assert_eq!(found_by(Some("flag"), &["one"]).await.unwrap(), hub(Origin::Flag, "flag"));
    assert_eq!(found_by(None, &["one", "two"]).await.unwrap(), hub(Origin::Variable, "two"));
    assert_eq!(found_by(None, &["gone", "two"]).await.unwrap(), hub(Origin::Variable, "two"));
    assert_eq!(found_by(None, &[]).await.unwrap(), hub(Origin::Home, "home"));
    // The variable is set, so the home folder does not count; and this is no pod. What was
    // looked for is named.
    for (variable, said) in [(&["gone"][..], "gone does not exist"), (&["empty"], "empty is empty")]
    {
        let nothing = found_by(None, variable).await.unwrap_err();
        assert!(
            matches!(&nothing, HubConfigError::Nothing(kubeconfig) if kubeconfig.contains(said)),
            "{nothing}"
        );
    }
    let unset = HubOptions { variable: Some(OsString::new()), ..files.given(None, &[]) };
    assert_eq!(found(&unset).await.unwrap(), hub(Origin::Home, "home"));
    let nothing = found(&HubOptions::default()).await.unwrap_err();
    assert!(matches!(nothing, HubConfigError::Nothing(_)), "{nothing}");
}

#[tokio::test]
async fn of_several_files_the_first_value_counts_and_absent_ones_are_reported() {
    let files = Files::new(&[
        ("one", &kubeconfig(&["both"], "both")),
        ("two", &kubeconfig(&["both", "other"], "other").replace("both.test", "wrong.test")),
    ]);
    let given = files.given(None, &["one", "gone", "two"]);
    let access = find(&given).await.expect("a hub");
    assert_eq!(access.config.cluster_url.host(), Some("both.test"));
    assert_eq!(access.context.as_deref(), Some("both"));
    assert_eq!(access.files, [files.path("one"), files.path("two")]);
    assert_eq!(access.absent, [files.path("gone")]);
    let other = HubOptions { context: Some("other".to_owned()), ..given };
    assert_eq!(found(&other).await.unwrap(), (Origin::Variable, "other.test".to_owned()));
}

/// What an error has to be.
type Is = fn(&HubConfigError) -> bool;

#[tokio::test]
async fn what_cannot_be_used_is_an_error_and_not_another_hub() {
    let files = Files::new(&[
        ("odd", "nonsense: [hunter2"),
        ("unchosen", &kubeconfig(&["a", "b"], "")),
        ("dangling", &kubeconfig(&["a"], "a").replace("cluster: a", "cluster: b")),
        ("bad-ca", &kubeconfig(&["a"], "a").replace(":6443\"", "\", certificate-authority: gone")),
        (".kube/config", &kubeconfig(&["home"], "home")),
    ]);
    let unreadable: Is =
        |it| matches!(it, HubConfigError::Unreadable { path, .. } if path.ends_with("gone"));
    let odd: Is = |it| matches!(it, HubConfigError::Unusable(path) if path.ends_with("odd"));
    let unchosen: Is = |it| matches!(it, HubConfigError::NoContext(_));
    let dangling: Is = |it| matches!(it, HubConfigError::Context { name, why, .. } if name == "a" && why.contains("`b`"));
    let authority: Is =
        |it| matches!(it, HubConfigError::Context { why, .. } if why.contains("authority"));
    for (flag, variable, is) in [
        (Some("gone"), &[][..], unreadable),
        (Some("odd"), &[], odd),
        (None, &["odd"], odd),
        (Some("unchosen"), &[], unchosen),
        (Some("dangling"), &[], dangling),
        (Some("bad-ca"), &[], authority),
    ] {
        let error = found(&files.given(flag, variable)).await.unwrap_err();
        assert!(is(&error), "{error}");
        // Rule 14.
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
    let unknown =
        HubOptions { context: Some("c".to_owned()), ..files.given(Some("unchosen"), &[]) };
    let error = found(&unknown).await.unwrap_err();
    let HubConfigError::UnknownContext { name, known, .. } = &error else { panic!("{error}") };
    assert_eq!((name.as_str(), known.as_str()), ("c", "a, b"));
}
