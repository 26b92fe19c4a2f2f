//! The store.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{
    Attributes, BackoffConfig, MultipartUpload, ObjectStore, ObjectStoreExt as _,
    PutMultipartOptions, RetryConfig,
};
use tokio::time::timeout;
use upgrade_core::jiff::Timestamp;
use upgrade_engine::snapshots::{SnapshotStore, StoreError, names};

use crate::address::{self, Encryption};
use crate::config::Config;
use crate::error::{Problem, S3Error};
use crate::transport::Connector;
use crate::upload::S3Writer;
use crate::{tls, verify};

/// The deadline of a request with its retries, other than of a part.
const LIMIT: Duration = Duration::from_mins(3);

/// The retries of a request. The engine and its user retry the whole.
const RETRIES: usize = 4;

/// No retry begins later than this.
const RETRY_LIMIT: Duration = Duration::from_mins(1);

/// How often another name is tried: more than there are writers of one cluster in one second.
const NAMES: usize = 10;

/// Snapshots in a bucket. Clusters may share it, also with the same prefix: names begin with the
/// name of their cluster. Clones share its connections.
#[derive(Clone)]
pub struct S3Snapshots {
    store: Arc<dyn ObjectStore>,
    bucket: Arc<str>,
    prefix: Arc<str>,
    /// Bucket and server, for errors.
    target: Arc<str>,
}

impl fmt::Debug for S3Snapshots {
    // Not the client: it has the credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("S3Snapshots").field(&self.target).finish()
    }
}

impl S3Snapshots {
    /// With this configuration. No request is sent yet.
    pub fn new(config: &Config) -> Result<Self, S3Error> {
        let address = &config.address;
        let mut target = format!("s3://{}", address.bucket);
        if let Some(endpoint) = &address.endpoint {
            target = format!("{target} at {endpoint}");
        }
        let doing = "the store cannot be used";
        let tls = tls::client_config(config.authorities.as_deref());
        let tls = tls.map_err(|why| S3Error::new(Problem::Tls, &target, doing, why))?;
        let client = client(config, Connector::new(tls));
        let client = client.map_err(|cause| S3Error::of(&target, doing, &cause))?;
        Ok(Self::over(Arc::new(client), &address.bucket, &address.prefix, &target))
    }

    /// The same with another segment below its prefix.
    #[must_use]
    pub fn join(&self, segment: &str) -> Self {
        let prefix = address::join(&self.prefix, segment).into();
        Self { prefix, ..self.clone() }
    }

    fn over(store: Arc<dyn ObjectStore>, bucket: &str, prefix: &str, target: &str) -> Self {
        Self { store, bucket: bucket.into(), prefix: prefix.into(), target: target.into() }
    }

    fn path(&self, name: &str) -> Path {
        let suffix = names::SUFFIX;
        match &*self.prefix {
            "" => Path::from(format!("{name}{suffix}")),
            prefix => Path::from(format!("{prefix}/{name}{suffix}")),
        }
    }

    fn location(&self, path: &Path) -> String {
        format!("s3://{}/{path}", self.bucket)
    }

    /// A request with a deadline (rule 11).
    async fn ask<T>(
        &self,
        doing: &'static str,
        request: impl Future<Output = Result<T, object_store::Error>>,
    ) -> Result<T, S3Error> {
        let Ok(answer) = timeout(LIMIT, request).await else {
            let limit = format!("within {LIMIT:?}");
            return Err(S3Error::new(Problem::TimedOut, &self.target, doing, limit));
        };
        answer.map_err(|cause| S3Error::of(&self.target, doing, &cause))
    }

    /// The objects directly below the prefix.
    async fn objects(&self) -> Result<Vec<Path>, S3Error> {
        let prefix = (!self.prefix.is_empty()).then(|| Path::from(&*self.prefix));
        let request = self.store.list_with_delimiter(prefix.as_ref());
        let listed = self.ask("the snapshots cannot be listed", request).await?;
        Ok(listed.objects.into_iter().map(|object| object.location).collect())
    }

    /// An unused name. Another writer may take it before this one is complete.
    async fn free(&self, stem: &str) -> Result<String, S3Error> {
        let taken = self.objects().await?;
        Ok(names::free(stem, |name| taken.contains(&self.path(name))))
    }

    async fn upload(&self, name: &str, marker: &str) -> Result<Box<dyn MultipartUpload>, S3Error> {
        let attributes = Attributes::from_iter([(verify::marker_attribute(), marker.to_owned())]);
        let options = PutMultipartOptions { attributes, ..PutMultipartOptions::default() };
        let path = self.path(name);
        let request = self.store.put_multipart_opts(&path, options);
        self.ask("the snapshot cannot be uploaded", request).await
    }

    /// Makes the parts an object. On a name that another writer took meanwhile, a snapshot that is
    /// still here as a whole gets the next name; of a larger one another has to be taken.
    async fn complete(&self, writer: &mut S3Writer) -> Result<Path, S3Error> {
        let all = writer.small();
        for _ in 0..NAMES {
            writer.finish_parts().await?;
            let path = self.path(&writer.name);
            let completed = self.ask("the upload cannot be completed", writer.complete()).await;
            let Err(error) = completed else { return Ok(path) };
            // The request may have arrived although its reply did not, and is then refused when it
            // is repeated.
            if self.is_ours(&path, &writer.marker).await {
                writer.is_complete();
                return Ok(path);
            }
            let Some(all) = all.as_ref().filter(|_| error.problem == Problem::Exists) else {
                return Err(error);
            };
            writer.abort().await;
            let name = self.free(&writer.stem).await?;
            let upload = self.upload(&name, &writer.marker).await?;
            writer.restart(upload, name, all);
        }
        Err(S3Error::new(Problem::Exists, &self.target, "the upload cannot be completed", ""))
    }

    async fn is_ours(&self, path: &Path, marker: &str) -> bool {
        let request = verify::head(&*self.store, path);
        let head = self.ask("the snapshot cannot be looked up", request).await;
        head.is_ok_and(|stored| stored.marker.as_deref() == Some(marker))
    }

    /// Compares size and content with what was sent.
    async fn verify(&self, path: &Path, sum: (u64, [u8; 32])) -> Result<(), S3Error> {
        let doing = "the snapshot cannot be read back";
        let stored = self.ask(doing, verify::head(&*self.store, path)).await?;
        if stored.bytes != sum.0 {
            let detail = format!("{} bytes of {}", stored.bytes, sum.0);
            return Err(S3Error::new(Problem::Damaged, &self.target, doing, detail));
        }
        verify::read_back(&*self.store, &self.target, path, sum).await
    }

    async fn kept(&self, mut writer: S3Writer) -> Result<String, S3Error> {
        let sum = writer.sum();
        let path = match self.complete(&mut writer).await {
            Ok(path) => path,
            Err(error) => {
                writer.abort().await;
                return Err(error);
            }
        };
        if let Err(error) = self.verify(&path, sum).await {
            self.remove_ours(&path, &writer.marker).await;
            return Err(error);
        }
        Ok(self.location(&path))
    }

    /// An unverified snapshot must not stay: a user may restore from it.
    async fn remove_ours(&self, path: &Path, marker: &str) {
        if !self.is_ours(path, marker).await {
            return;
        }
        let doing = "an unverified snapshot cannot be deleted";
        if let Err(error) = self.ask(doing, self.store.delete(path)).await {
            tracing::warn!("{}: {error}", self.location(path));
        }
    }
}

/// The client of the protocol.
fn client(config: &Config, connector: Connector) -> Result<AmazonS3, object_store::Error> {
    let (address, credentials) = (&config.address, &config.credentials);
    let retry = RetryConfig {
        backoff: BackoffConfig { max_backoff: Duration::from_secs(5), ..BackoffConfig::default() },
        max_retries: RETRIES,
        retry_timeout: RETRY_LIMIT,
    };
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(&address.bucket)
        .with_region(&config.region)
        .with_access_key_id(credentials.key_id.expose())
        .with_secret_access_key(credentials.secret_key.expose())
        // For loopback, see the address.
        .with_allow_http(true)
        // Servers do not have to know how to delete several objects at once.
        .with_disable_bulk_delete(true)
        .with_retry(retry)
        .with_http_connector(connector);
    if let Some(token) = &credentials.session_token {
        builder = builder.with_token(token.expose());
    }
    if let Some(endpoint) = &address.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    match &address.encryption {
        None => {}
        Some(Encryption::Aes256) => {
            let key: AmazonS3ConfigKey = "aws_server_side_encryption".parse()?;
            builder = builder.with_config(key, "AES256");
        }
        Some(Encryption::Kms(key)) => builder = builder.with_sse_kms_encryption(key),
    }
    builder.build()
}

/// A text that no other writer has.
fn marker() -> String {
    let mut bytes = [0; 16];
    let random = rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes);
    random.expect("the system has random numbers");
    format!("{:032x}", u128::from_be_bytes(bytes))
}

impl SnapshotStore for S3Snapshots {
    type Writer = S3Writer;

    /// Lists and writes, so that wrong settings are found before a control plane sends anything.
    async fn begin(&self, cluster: &str, at: Timestamp) -> Result<S3Writer, StoreError> {
        let stem = names::stem(cluster, at);
        let name = self.free(&stem).await?;
        let marker = marker();
        let upload = self.upload(&name, &marker).await?;
        Ok(S3Writer::new(Arc::clone(&self.target), upload, (stem, name), marker))
    }

    async fn commit(&self, writer: S3Writer) -> Result<String, StoreError> {
        Ok(self.kept(writer).await?)
    }

    async fn discard(&self, mut writer: S3Writer) {
        writer.abort().await;
    }

    async fn list(&self, cluster: &str) -> Result<Vec<String>, StoreError> {
        let mut own = self.objects().await?;
        own.retain(|path| path.filename().is_some_and(|name| names::is_of(cluster, name)));
        own.sort();
        Ok(own.iter().map(|path| self.location(path)).collect())
    }

    async fn prune(&self, cluster: &str, keep: usize, newest: &str) -> Result<(), StoreError> {
        let mut first = None;
        let root = format!("s3://{}/", self.bucket);
        for location in names::surplus(self.list(cluster).await?, keep, newest) {
            let Some(key) = location.strip_prefix(&root) else { continue };
            let path = Path::from(key);
            // One that cannot be deleted does not prevent deleting the others.
            let deleted = self.ask("an old snapshot cannot be deleted", self.store.delete(&path));
            if let Err(error) = deleted.await {
                first.get_or_insert(error);
            }
        }
        first.map_or(Ok(()), |error| Err(error.into()))
    }
}

#[cfg(test)]
mod tests;
