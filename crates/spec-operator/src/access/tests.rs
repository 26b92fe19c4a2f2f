//! Credentials from every source, checked with the library that a server would use, and nothing
//! of a source in any text.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, PKCS_ED25519};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use serde_json::json;
use talos_client::Talosconfig;
use talos_client::address::EndpointAddress;
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::X509Certificate;

use super::*;
use crate::test_objects::control_plane;

/// The test's present.
fn now() -> Timestamp {
    "2026-05-01T12:00:00Z".parse().expect("a time")
}

/// An authority as Talos makes it: Ed25519, and a key with Talos's own label.
struct Pki {
    certificate: String,
    key: String,
}

impl Pki {
    fn new() -> Self {
        Self::with(|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained))
    }

    fn with(change: impl FnOnce(&mut CertificateParams)) -> Self {
        let key = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "talos");
        params.not_before = date("2026-01-01T00:00:00Z");
        params.not_after = date("2036-01-01T00:00:00Z");
        change(&mut params);
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        Self { certificate, key: talos_key(&key) }
    }

    fn encoded(&self) -> (String, String) {
        (STANDARD.encode(&self.certificate), STANDARD.encode(&self.key))
    }

    /// As `talosctl gen secrets` writes it, as far as it counts.
    fn bundle(&self) -> String {
        let (crt, key) = self.encoded();
        format!(
            "cluster:\n  id: aWQ=\n  secret: {MARK}\nsecrets:\n  bootstraptoken: {MARK}\n\
             certs:\n  etcd:\n    crt: {MARK}\n    key: {MARK}\n  os:\n    crt: {crt}\n    key: {key}\n"
        )
    }

    fn machine_config(&self) -> String {
        let (crt, key) = self.encoded();
        format!(
            "version: v1alpha1\nmachine:\n  type: controlplane\n  token: {MARK}\n  ca:\n    \
             crt: {crt}\n    key: {key}\ncluster:\n  secret: {MARK}\n---\napiVersion: v1alpha1\n\
             kind: HostnameConfig\nhostname: cp-1\n"
        )
    }
}

/// A secret, to be found in texts that may not have it.
const MARK: &str = "aHVudGVyMg==";

/// PKCS #8 without the public key, as Go writes it.
fn talos_key(key: &KeyPair) -> String {
    const HEADER: [u8; 16] =
        [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    let seed = &key.serialize_der()[16..48];
    let body = STANDARD.encode([&HEADER, seed].concat());
    format!("-----BEGIN ED25519 PRIVATE KEY-----\n{body}\n-----END ED25519 PRIVATE KEY-----\n")
}

fn date(text: &str) -> time::OffsetDateTime {
    let time: Timestamp = text.parse().expect("a time");
    time::OffsetDateTime::from_unix_timestamp(time.as_second()).expect("a time")
}

fn state() -> Source {
    Source::StateSecret { name: "prod-state".to_owned() }
}

fn config() -> Source {
    Source::MachineConfig { config_map: "import".to_owned(), key: "cp.yaml".to_owned() }
}

fn stored() -> Source {
    Source::Talosconfig { name: "prod-talosconfig".to_owned(), key: "x".to_owned() }
}

fn endpoints() -> [IpAddr; 2] {
    ["10.0.0.1", "fd00::1"].map(|text| text.parse().expect("an address"))
}

fn request(endpoints: &[IpAddr]) -> Request<'_> {
    Request { cluster: "prod", endpoints, now: now() }
}

fn made(source: &Source, content: &str) -> Result<Credentials, Defect> {
    request(&endpoints()).credentials(source, content.as_bytes())
}

fn field(credentials: &Credentials, field: &str) -> Vec<u8> {
    let file: serde_json::Value = serde_json::from_slice(credentials.talosconfig()).expect("JSON");
    let pem = STANDARD.decode(file["contexts"]["prod"][field].as_str().expect(field));
    let (_, block) = parse_x509_pem(&pem.expect("base64")).expect("PEM");
    block.contents
}

fn parsed(der: &[u8]) -> X509Certificate<'_> {
    x509_parser::parse_x509_certificate(der).expect("a certificate").1
}

/// Whether a server with this authority accepts the certificate at a time.
fn accepted(pki: &Pki, certificate: &[u8], at: Timestamp) -> bool {
    let mut roots = RootCertStore::empty();
    let (_, authority) = parse_x509_pem(pki.certificate.as_bytes()).expect("PEM");
    roots.add(CertificateDer::from(authority.contents)).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .expect("one");
    let seconds = u64::try_from(at.as_second()).expect("after 1970");
    let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
    verifier.verify_client_cert(&CertificateDer::from(certificate), &[], at).is_ok()
}

#[test]
fn an_administrators_certificate_for_a_day_is_made() {
    let pki = Pki::new();
    for (source, content) in [
        (state(), pki.bundle()),
        (Source::Status, pki.bundle()),
        (config(), pki.machine_config()),
        (config(), STANDARD.encode(pki.machine_config())),
    ] {
        let credentials = made(&source, &content).expect("credentials");
        let certificate = field(&credentials, "crt");
        for (seconds, valid) in
            [(0, true), (-299, true), (-301, false), (86_399, true), (86_401, false)]
        {
            let at = now() + SignedDuration::from_secs(seconds);
            assert_eq!(accepted(&pki, &certificate, at), valid, "{source}: {seconds}");
        }
        assert!(!accepted(&Pki::new(), &certificate, now()), "another cluster's authority");
        let certificate = parsed(&certificate);
        let subject = certificate.subject().to_string();
        assert_eq!(subject, "O=os:admin");
        let usage = certificate.extended_key_usage().expect("valid").expect("one").value;
        assert!(usage.client_auth && !usage.server_auth && !usage.any);
        assert!(!certificate.is_ca());
    }
}

#[test]
fn no_certificate_outlives_its_authority() {
    let ending = Pki::with(|params| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_after = date("2026-05-01T13:00:00Z");
    });
    let credentials = made(&state(), &ending.bundle()).expect("credentials");
    let end = parsed(&field(&credentials, "crt")).validity().not_after.timestamp();
    assert_eq!(end, (now() + SignedDuration::from_hours(1)).as_second());
    let ended = Pki::with(|params| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_after = date("2026-05-01T11:00:00Z");
    });
    let expected = Defect::NotValidNow { field: "certs.os.crt" };
    assert_eq!(made(&state(), &ended.bundle()).unwrap_err(), expected);
}

#[test]
fn the_client_reads_the_talosconfig() {
    let credentials = made(&state(), &Pki::new().bundle()).expect("credentials");
    let file = Talosconfig::parse(credentials.talosconfig(), "memory").expect("a talosconfig");
    let context = file.context(None).expect("usable credentials");
    assert_eq!(context.name, "prod");
    let hosts: Vec<_> = context.endpoints.iter().map(|it| (it.host(), it.port())).collect();
    assert_eq!(hosts, [("10.0.0.1".to_owned(), 50_000), ("fd00::1".to_owned(), 50_000)]);
}

#[test]
fn a_stored_talosconfig_gets_the_endpoints_that_it_lacks() {
    let pki = Pki::new();
    let made_here = made(&state(), &pki.bundle()).expect("credentials");
    let mut file: serde_json::Value =
        serde_json::from_slice(made_here.talosconfig()).expect("JSON");
    for (endpoints, expected) in [
        (json!([]), ["10.0.0.1", "fd00::1"].as_slice()),
        (json!(null), &["10.0.0.1", "fd00::1"]),
        (json!(["10.9.9.9"]), &["10.9.9.9"]),
    ] {
        file["contexts"]["prod"]["endpoints"] = endpoints;
        let credentials = made(&stored(), &file.to_string()).expect("credentials");
        let read = Talosconfig::parse(credentials.talosconfig(), "memory").expect("readable");
        let context = read.context(None).expect("usable credentials");
        let hosts: Vec<_> = context.endpoints.iter().map(EndpointAddress::host).collect();
        assert_eq!(hosts, expected);
        assert!(credentials.serves(
            &request(&super::tests::endpoints()).origin(file.to_string().as_bytes()),
            now() + SignedDuration::from_hours(1_000)
        ));
    }
    file["context"] = json!("");
    assert!(made(&stored(), &file.to_string()).is_ok(), "the only context is meant");
    file["contexts"]["other"] = json!({});
    assert_eq!(made(&stored(), &file.to_string()), Err(Defect::NoContext));
    file["context"] = json!("other");
    assert_eq!(made(&stored(), &file.to_string()), Err(Defect::NoField { field: "ca" }));
}

#[test]
fn what_is_wrong_is_said_without_showing_it() {
    // Rule 14.
    let pki = Pki::new();
    let (crt, key) = pki.encoded();
    let other = Pki::new().encoded().1;
    let leaf = Pki::with(|_| {}).encoded();
    let os = |crt: &str, key: &str| format!("certs:\n  os:\n    crt: {crt}\n    key: {key}\n");
    let machine = |key: &str| format!("machine:\n  ca:\n    crt: {crt}\n    key: '{key}'\n");
    let certificate = || ("certs.os.crt", "certificate");
    let not_pem = |(field, expected)| Defect::NotPem { field, expected };
    for (source, content, expected) in [
        (state(), String::new(), Defect::Absent),
        (state(), format!("secret: {MARK}"), Defect::NoField { field: "certs.os.crt" }),
        (state(), os(&crt, "''"), Defect::NoField { field: "certs.os.key" }),
        (state(), os("'%'", &key), not_pem(certificate())),
        (state(), os(MARK, &key), not_pem(certificate())),
        (state(), os(&crt, MARK), not_pem(("certs.os.key", "private key"))),
        (state(), os(&key, &key), not_pem(certificate())),
        (state(), os(&crt, &crt), not_pem(("certs.os.key", "private key"))),
        (state(), os(&leaf.0, &leaf.1), Defect::NotAnAuthority { field: "certs.os.crt" }),
        (
            state(),
            os(&crt, &other),
            Defect::NotAPair { certificate: "certs.os.crt", key: "certs.os.key" },
        ),
        (config(), machine(""), Defect::OfWorker),
        (
            config(),
            format!("cluster: {{secret: {MARK}}}"),
            Defect::NoField { field: "machine.ca.crt" },
        ),
    ] {
        let found = made(&source, &content).unwrap_err();
        assert_eq!(found, expected);
        quotes_nothing(&format!("{found} {found:?}"), &[&crt, &key, &other, MARK]);
    }
    for (source, content) in [
        (state(), format!("certs: [{MARK}")),
        (state(), format!("certs: {key}")),
        (config(), format!("machine:\n  ca: {key}")),
        (stored(), format!("contexts: {key}")),
    ] {
        let found = made(&source, &content).unwrap_err();
        assert!(matches!(found, Defect::NotYaml { .. }), "{found}");
        quotes_nothing(&format!("{found} {found:?}"), &[&crt, &key, MARK]);
    }
    let binary = request(&endpoints()).credentials(&state(), &[0xff, 0xfe]);
    assert_eq!(binary, Err(Defect::NotText));
    let nowhere = request(&[]).credentials(&state(), pki.bundle().as_bytes());
    assert_eq!(nowhere, Err(Defect::NoEndpoints));
}

#[track_caller]
fn quotes_nothing(text: &str, secrets: &[&str]) {
    for secret in secrets {
        // Parts of it are secret, too.
        let part = &secret[..secret.len().min(12)];
        assert!(!text.contains(part), "{text}");
    }
}

#[test]
fn credentials_show_nothing_of_themselves() {
    // Rule 14.
    let pki = Pki::new();
    let credentials = made(&state(), &pki.bundle()).expect("credentials");
    let origin = request(&endpoints()).origin(pki.bundle().as_bytes());
    let shown = format!("{credentials:?} {credentials:#?} {origin:?}");
    let (crt, key) = pki.encoded();
    quotes_nothing(&shown, &[&crt, &key, "BEGIN", "endpoints", "10.0.0.1"]);
}

#[test]
fn a_certificate_serves_until_something_changes() {
    let pki = Pki::new();
    let credentials = made(&state(), &pki.bundle()).expect("credentials");
    let origin = request(&endpoints()).origin(pki.bundle().as_bytes());
    let after = |hours| now() + SignedDuration::from_hours(hours);
    assert!(credentials.serves(&origin, after(15)));
    assert!(!credentials.serves(&origin, after(16)), "hours before its end");
    let rotated = request(&endpoints()).origin(Pki::new().bundle().as_bytes());
    assert!(!credentials.serves(&rotated, now()));
    let moved = request(&endpoints()[..1]).origin(pki.bundle().as_bytes());
    assert!(!credentials.serves(&moved, now()));
}

#[test]
fn sources_are_tried_in_order_and_named() {
    let mut object =
        control_plane("prod", json!({"configRef": {"name": "import", "key": "cp.yaml"}}));
    let named = |object: &TalosControlPlane| {
        let sources = Source::all(object);
        sources.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let all = [
        "Secret prod-state, secretBundle",
        "status.secretBundle",
        "ConfigMap import, cp.yaml",
        "Secret prod-talosconfig, prod.talosconfig",
    ];
    assert_eq!(named(&object), all);
    object.spec.config_ref = None;
    assert_eq!(named(&object), [all[0], all[1], all[3]]);
    let tried = vec![
        (state(), Defect::Absent),
        (Source::Status, Defect::NoField { field: "certs.os.key" }),
    ];
    assert_eq!(
        NoCredentials { tried }.to_string(),
        "there are no credentials: Secret prod-state, secretBundle: it is not there; \
         status.secretBundle: it has no certs.os.key"
    );
}
