//! The store on a real S3 server.

#[path = "../../../upgrade-engine/tests/engine/snapshots/contract.rs"]
mod contract;
mod refusals;
mod uploads;

use s3_snapshots::{Config, Environment, S3Snapshots};
use testkit::S3Server;

/// The bucket of every test.
const BUCKET: &str = "backups";

fn server() -> S3Server {
    let server = S3Server::start();
    server.bucket(BUCKET);
    server
}

/// A store with other credentials or another address than the right ones.
fn store_with(address: &str, key_id: &str, secret_key: &str) -> S3Snapshots {
    let environment = Environment::read(|name| match name {
        "AWS_ACCESS_KEY_ID" => Some(key_id.to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some(secret_key.to_owned()),
        _ => None,
    });
    let address = address.parse().expect("an address");
    let config = Config::from_environment(address, &environment).expect("a configuration");
    S3Snapshots::new(&config).expect("a store")
}

fn store_at(address: &str) -> S3Snapshots {
    store_with(address, S3Server::KEY_ID, S3Server::SECRET_KEY)
}

fn store(server: &S3Server) -> S3Snapshots {
    store_at(&format!("s3://{BUCKET}/prod/east?endpoint={}", server.endpoint()))
}
