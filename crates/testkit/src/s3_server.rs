//! A real S3 server on loopback: versitygw, which keeps objects as files in a folder.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::{PATIENCE, now, tool};

/// A port that is free may be taken before the server has it.
const ATTEMPTS: usize = 5;

/// It is ready after less than 0.1 s.
const PAUSE: Duration = Duration::from_millis(10);

/// A running server. It ends when this is dropped.
#[derive(Debug)]
pub struct S3Server {
    process: Child,
    folder: TempDir,
    port: u16,
    tls: bool,
}

impl S3Server {
    /// The access key of its only account.
    pub const KEY_ID: &str = "AKIATESTKITONE";
    /// The secret access key of it.
    pub const SECRET_KEY: &str = "hunter2-hunter2-hunter2";

    /// Starts one that speaks plain HTTP.
    pub fn start() -> Self {
        Self::launch(false)
    }

    /// Starts one that speaks HTTPS, with an authority of its own: see [`authority`](Self::authority).
    pub fn start_with_tls() -> Self {
        Self::launch(true)
    }

    fn launch(tls: bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for part in ["buckets", "metadata"] {
            fs::create_dir(folder.path().join(part)).expect("a folder");
        }
        if tls {
            write_certificates(folder.path());
        }
        for _ in 0..ATTEMPTS {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
            let port = free.local_addr().expect("an address").port();
            drop(free);
            let mut process = command(folder.path(), port, tls).spawn().expect("versitygw starts");
            if ready(&mut process, port) {
                return Self { process, folder, port, tls };
            }
        }
        let log = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        panic!("versitygw does not start: {log}");
    }

    /// Its URL.
    pub fn endpoint(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// The certificate of the authority that signed its own.
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Makes a bucket.
    pub fn bucket(&self, name: &str) {
        fs::create_dir(self.buckets().join(name)).expect("a new bucket");
    }

    /// The content of an object, from its URL `s3://bucket/key`.
    pub fn read(&self, url: &str) -> Vec<u8> {
        let key = url.strip_prefix("s3://").expect("an S3 URL");
        fs::read(self.buckets().join(key)).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    /// All files of a bucket with their sizes, those of unfinished uploads included.
    pub fn files(&self, bucket: &str) -> Vec<(String, u64)> {
        let root = self.buckets().join(bucket);
        let (mut found, mut folders) = (Vec::new(), vec![root.clone()]);
        while let Some(folder) = folders.pop() {
            // An upload may end meanwhile.
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                match entry.metadata() {
                    Ok(data) if data.is_dir() => folders.push(path),
                    Ok(data) => {
                        let name = path.strip_prefix(&root).expect("it is below").display();
                        found.push((name.to_string(), data.len()));
                    }
                    Err(_) => {}
                }
            }
        }
        found.sort();
        found
    }

    fn buckets(&self) -> PathBuf {
        self.folder.path().join("buckets")
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn command(folder: &Path, port: u16, tls: bool) -> Command {
    let log = File::create(folder.join("log")).expect("a log");
    let mut command = Command::new(tool("versitygw"));
    command
        // Its flags have variables too.
        .env_clear()
        .env("ROOT_ACCESS_KEY", S3Server::KEY_ID)
        .env("ROOT_SECRET_KEY", S3Server::SECRET_KEY)
        .args(["--quiet", "--port", &format!("127.0.0.1:{port}")]);
    if tls {
        command.arg("--cert").arg(folder.join("server.pem"));
        command.arg("--key").arg(folder.join("server.key"));
    }
    command
        .arg("posix")
        // Not every file system has attributes for it.
        .arg("--sidecar")
        .arg(folder.join("metadata"))
        .arg(folder.join("buckets"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a log"))
        .stderr(log);
    command
}

/// Waits until it listens; `false` if it ended instead.
fn ready(process: &mut Child, port: u16) -> bool {
    let begun = now();
    while begun.elapsed() < PATIENCE {
        if process.try_wait().expect("a child").is_some() {
            return false;
        }
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return true;
        }
        thread::sleep(PAUSE);
    }
    panic!("versitygw is not ready");
}

fn write_certificates(folder: &Path) {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    let key = KeyPair::generate().expect("a key");
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = authority.self_signed(&key).expect("an authority");
    fs::write(folder.join("ca.pem"), certificate.pem()).expect("a file");
    let issuer = Issuer::from_params(&authority, &key);
    let server_key = KeyPair::generate().expect("a key");
    let server = CertificateParams::new(["127.0.0.1".to_owned()]).expect("an address");
    let server = server.signed_by(&server_key, &issuer).expect("a certificate");
    fs::write(folder.join("server.pem"), server.pem()).expect("a file");
    fs::write(folder.join("server.key"), server_key.serialize_pem()).expect("a file");
}
