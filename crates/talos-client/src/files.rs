//! Files of a node: its kubeconfig and any other readable file.

use talos_proto::machine as wire;

use crate::Hidden;
use crate::archive;
use crate::client::Node;
use crate::error::{Error, Failure};
use crate::resources::BootId;
use crate::stream::{ByteStream, Incoming};

/// The largest accepted kubeconfig archive.
const MAX_KUBECONFIG: usize = 1 << 20;

/// Where the kernel keeps the boot ID.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

impl Node {
    /// An admin kubeconfig; every call generates a new one.
    pub async fn kubeconfig(&self) -> Result<Hidden<String>, Error> {
        const METHOD: &str = "Kubeconfig";
        let answer = self
            .read_within(METHOD, self.read_limit(), |line| async move {
                line.machine().kubeconfig(line.request(())).await
            })
            .await?;
        let (idle, total) = (self.deadlines().data_idle, self.deadlines().act);
        let incoming = Incoming::new(self, METHOD, answer, idle, Some(total));
        let bytes = ByteStream::new(incoming).collect(MAX_KUBECONFIG).await?;
        let failed = |what: String| self.call(METHOD, None).failed(Failure::Malformed(what));
        let file = archive::only_file(&bytes)
            .map_err(|error| failed(format!("the kubeconfig's archive: {error}")))?;
        String::from_utf8(file)
            .map(Hidden::new)
            .map_err(|_| failed("the kubeconfig is not text".to_owned()))
    }

    /// Reads a file in chunks.
    pub async fn read_file(&self, path: &str) -> Result<ByteStream, Error> {
        const METHOD: &str = "Read";
        let answer = self
            .read_within(METHOD, self.read_limit(), |line| async move {
                let request = line.request(wire::ReadRequest { path: path.to_owned() });
                line.machine().read(request).await
            })
            .await?;
        let idle = self.deadlines().data_idle;
        Ok(ByteStream::new(Incoming::new(self, METHOD, answer, idle, None)))
    }

    /// An ID that changes with every boot. Talos 1.14 has a resource for it, which `os:reader` may
    /// read; older versions need the file, and with it `os:admin`.
    pub async fn boot_id(&self) -> Result<String, Error> {
        match self.get::<BootId>().await {
            Ok(Some(resource)) => return Ok(resource.spec.0),
            Ok(None) => {}
            Err(error) if matches!(error.failure(), Failure::NotSupported(_)) => {}
            Err(error) => return Err(error),
        }
        let stream = self.read_file(BOOT_ID).await?;
        let bytes = stream.collect(256).await?;
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        if text.is_empty() {
            let failure = Failure::Malformed("the boot ID is empty".to_owned());
            return Err(self.call("Read", None).failed(failure));
        }
        Ok(text)
    }
}
