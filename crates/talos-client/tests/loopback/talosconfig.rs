//! The talosconfig parser: what it accepts, and that every error names a place and the next step.

use std::error::Error as _;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::LazyLock;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::prelude::*;
use talos_client::Talosconfig;
use talos_client::talosconfig::{ConfigError, Context};

use crate::pki::{Authority, Pair, Valid};

struct Known {
    authority: Authority,
    admin: Pair,
    other: Pair,
}

static KNOWN: LazyLock<Known> = LazyLock::new(|| {
    let authority = Authority::new();
    Known {
        admin: authority.client("os:admin", Valid::Now),
        other: authority.client("os:admin", Valid::Now),
        authority,
    }
});

fn base64(text: &str) -> String {
    STANDARD.encode(text)
}

fn field(name: &str) -> String {
    let Known { authority, admin, .. } = &*KNOWN;
    match name {
        "ca" => base64(&authority.pem),
        "crt" => base64(&admin.certificate),
        "key" => base64(&admin.key),
        _ => unreachable!("there are three"),
    }
}

/// A talosconfig with one context, in which one field is replaced.
fn with(name: &str, value: &str) -> String {
    let mut text = "context: prod\ncontexts:\n  prod:\n".to_owned();
    let mut fields = vec![("endpoints", "[10.5.0.2]".to_owned())];
    fields.extend(["ca", "crt", "key"].map(|name| (name, field(name))));
    for (known, usual) in &fields {
        let value = if *known == name { value } else { usual };
        writeln!(text, "    {known}: {value}").expect("a string takes everything");
    }
    if !fields.iter().any(|(known, _)| *known == name) {
        writeln!(text, "    {name}: {value}").expect("a string takes everything");
    }
    text
}

fn read(text: &str, context: Option<&str>) -> Result<Context, ConfigError> {
    Talosconfig::parse(text.as_bytes(), "/home/user/.talos/config")?.context(context)
}

/// The error with its sources, as it is printed.
fn chain(error: &ConfigError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

#[track_caller]
fn fails(text: &str, context: Option<&str>, expected: &str) {
    let error = chain(&read(text, context).expect_err("it has a mistake"));
    assert_eq!(error, expected);
}

#[test]
fn a_complete_talosconfig() {
    let mut text = with("endpoints", r#"[10.5.0.2, "10.5.0.3:50001", "[fd00::4]", fd00::5, cp-6]"#);
    text.push_str("    nodes: [10.5.0.2, fd00::5]\n    cluster: prod-1\n    unknown: {a: 1}\n");
    text.push_str("  empty:\n  other: {endpoints: []}\n");
    let config = Talosconfig::parse(text.as_bytes(), "x").unwrap();
    assert_eq!(config.current(), Some("prod"));
    assert_eq!(config.names().collect::<Vec<_>>(), ["empty", "other", "prod"]);
    let context = config.context(None).unwrap();
    let endpoints: Vec<_> = context.endpoints.iter().map(ToString::to_string).collect();
    assert_eq!(
        endpoints,
        ["10.5.0.2:50000", "10.5.0.3:50001", "[fd00::4]:50000", "[fd00::5]:50000", "cp-6:50000"]
    );
    let nodes: Vec<_> = context.nodes.iter().map(ToString::to_string).collect();
    assert_eq!(nodes, ["10.5.0.2", "fd00::5"]);
    assert_eq!(context.cluster.as_deref(), Some("prod-1"));
    assert_eq!(context.name, "prod");
}

#[test]
fn a_context_is_chosen_by_name() {
    let text = with("key", &field("key")).replace("context: prod", "context: ''");
    assert_eq!(read(&text, Some("prod")).unwrap().name, "prod");
    fails(
        &text,
        None,
        "cannot use the talosconfig /home/user/.talos/config: field `context` is empty; choose \
         one of `prod` with --context",
    );
    fails(
        &text,
        Some("dev"),
        "cannot use context `dev` of the talosconfig /home/user/.talos/config: there is no such \
         context; the file has `prod`",
    );
}

#[test]
fn long_values_may_be_broken_into_lines() {
    let key = field("key");
    let (start, end) = key.split_at(40);
    read(&with("key", &format!("|\n      {start}\n      {end}\n")), None).unwrap();
}

#[test]
fn other_key_formats_are_accepted() {
    let key = &KNOWN.admin.key;
    let plain = key.replace("ED25519 PRIVATE KEY", "PRIVATE KEY");
    read(&with("key", &base64(&plain)), None).unwrap();
}

#[test]
fn every_invalid_field_is_named() {
    let place = "cannot use context `prod` of the talosconfig /home/user/.talos/config: ";
    let not_pem = base64("hello");
    let certificate = field("crt");
    let cut = base64("-----BEGIN CERTIFICATE-----\nAAAA\n");
    let strange = base64("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    for (name, value, expected) in [
        (
            "endpoints",
            "[]",
            "field `endpoints` is missing; list the control plane nodes with `talosctl config \
             endpoint`",
        ),
        (
            "endpoints",
            "[10.5.0.2, 'https://10.5.0.3']",
            "field `endpoints`, entry 2: `https://10.5.0.3` is not an address: it is a URL; write \
             only the host and perhaps a port, like 10.5.0.2:50000",
        ),
        (
            "nodes",
            "['10.5.0.2:50000']",
            "field `nodes`, entry 1: `10.5.0.2:50000` is not an address: a node has no port; \
             ports belong to endpoints",
        ),
        (
            "ca",
            "''",
            "field `ca` is missing; take a talosconfig that has it, such as `talosctl config \
             new` writes",
        ),
        (
            "crt",
            "'%%%'",
            "field `crt` is not base64; copy the whole value again, it has no spaces inside",
        ),
        ("crt", &not_pem, "field `crt` holds no certificate in PEM; copy the whole value again"),
        ("crt", &cut, "field `crt` holds no certificate in PEM; copy the whole value again"),
        (
            "key",
            &certificate,
            "field `key` holds no private key in PEM; copy the whole value again",
        ),
        (
            "proxy-url",
            "http://proxy:3128",
            "field `proxy-url` is not supported: use endpoints that can be \
             reached without a proxy",
        ),
        (
            "auth",
            "{siderov1: {identity: me@example.org}}",
            "field `auth.siderov1` is not supported: it signs requests \
             with a user's key; use a talosconfig with a client certificate, such as `talosctl \
             config new` writes",
        ),
        (
            "auth",
            "{basic: {username: a, password: b}}",
            "field `auth.basic` is not supported: use a talosconfig with a \
             client certificate",
        ),
    ] {
        fails(&with(name, value), None, &format!("{place}{expected}"));
    }
    for (name, value, expected) in [
        ("ca", &strange, "field `ca` holds no usable certificate ("),
        ("key", &base64(&KNOWN.other.key), "fields `crt` and `key` cannot be used together ("),
    ] {
        let error = chain(&read(&with(name, value), None).unwrap_err());
        assert!(error.starts_with(&format!("{place}{expected}")), "{error}");
    }
}

#[test]
fn files_that_are_not_a_talosconfig_are_rejected() {
    let place = "cannot use the talosconfig /home/user/.talos/config: ";
    let none = format!("{place}it has no contexts; merge one with `talosctl config merge`");
    for text in ["", "\n", "{}", "contexts:", "context: x"] {
        fails(text, Some("x"), &none);
    }
    let error = Talosconfig::parse(b"\xff\xfe", "x").unwrap_err();
    assert!(chain(&error).ends_with("it is not text; is it another file?"));
    let error = Talosconfig::parse(&vec![b' '; 2 << 20], "x").unwrap_err();
    assert!(chain(&error).contains("more than 1048576 bytes"));
    for (text, at) in [
        ("contexts: [a, b]", "line 1, column 11: "),
        ("context: a\ncontexts:\n  a: {endpoints: 5}\n", "line 3, column 18: "),
        ("contexts: {", "line 1, "),
        ("a: b: c", "line 1, "),
    ] {
        let error = chain(&read(text, None).unwrap_err());
        assert!(error.starts_with(&format!("{place}{at}")), "{text}: {error}");
        assert!(error.ends_with("; compare it with what `talosctl config` writes"), "{error}");
    }
}

#[test]
fn errors_never_quote_a_key() {
    // Rule 14.
    let key = field("key");
    for text in [
        with("key", &format!("[{key}]")),
        with("key", &format!("{{{key}: 1}}")),
        with("endpoints", &key),
        format!("contexts: {key}"),
        format!("contexts:\n  prod: {key}"),
        key.clone(),
        with("key", &format!("{key}\n  - x: [")),
        with("key", &format!("'{key}")),
    ] {
        let error = read(&text, None).expect_err("it has a mistake");
        let shown = format!("{} {error:?}", chain(&error));
        assert!(!shown.contains(&key[..32]), "{shown}");
    }
}

#[test]
fn missing_and_unreadable_files_are_named() {
    let folder = std::env::temp_dir().join(format!("talos-client-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("config");
    let error = chain(&Talosconfig::load(Some(&path)).unwrap_err());
    assert_eq!(
        error,
        format!(
            "cannot use the talosconfig {}: no such file; name one with --talosconfig or \
             $TALOSCONFIG, or write one with `talosctl config merge`",
            path.display()
        )
    );
    let error = chain(&Talosconfig::load(Some(&folder)).unwrap_err());
    assert!(error.contains("cannot read it; check that it is a file"), "{error}");
    std::fs::write(&path, with("key", &field("key"))).unwrap();
    Talosconfig::load(Some(&path)).unwrap().context(None).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(Talosconfig::load(Some(Path::new("/dev/null"))).is_err());
}

proptest! {
    #[test]
    fn any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        if let Ok(config) = Talosconfig::parse(&bytes, "x") {
            let _ = config.context(None);
        }
    }

    #[test]
    fn any_change_never_panics(
        at in any::<prop::sample::Index>(),
        length in 0..6_usize,
        patch in "[\\x00-\\x7f]{0,6}",
    ) {
        let mut text = with("nodes", "[10.5.0.2]").into_bytes();
        let at = at.index(text.len());
        let end = (at + length).min(text.len());
        text.splice(at..end, patch.into_bytes());
        if let Ok(config) = Talosconfig::parse(&text, "x") {
            for name in config.names().map(str::to_owned).collect::<Vec<_>>() {
                let _ = config.context(Some(&name));
            }
        }
    }

    #[test]
    fn any_structure_never_panics(text in "([ \\-:{}\\[\\]'\"&*!|>#,a-c0-9\n]|contexts|endpoints|key){0,60}") {
        if let Ok(config) = Talosconfig::parse(text.as_bytes(), "x") {
            let _ = config.context(None);
        }
    }
}
