//! Logs of the kernel and of services.

use talos_proto::common::ContainerDriver;
use talos_proto::machine as wire;

use crate::client::Node;
use crate::error::Error;
use crate::stream::{ByteStream, Incoming};

/// How much of a log to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lines {
    /// All lines.
    #[default]
    All,
    /// This many of the newest lines.
    Last(u32),
}

/// Whether to follow the log. A stream that follows ends with an error after
/// [`FOLLOW_IDLE`](crate::deadline::FOLLOW_IDLE) of silence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follow {
    /// End with the current last line.
    #[default]
    No,
    /// Continue with new lines.
    Yes,
}

impl Node {
    /// The kernel's messages.
    pub async fn dmesg(&self, follow: Follow) -> Result<ByteStream, Error> {
        const METHOD: &str = "Dmesg";
        let answer = self
            .read_within(METHOD, self.read_limit(), |line| async move {
                let request =
                    line.request(wire::DmesgRequest { follow: follow == Follow::Yes, tail: false });
                line.machine().dmesg(request).await
            })
            .await?;
        let incoming = Incoming::new(self, METHOD, answer, self.idle(follow), None);
        Ok(ByteStream::new(incoming))
    }

    /// The log of one of Talos's services, such as `kubelet` or `etcd`.
    pub async fn service_log(
        &self,
        service: &str,
        lines: Lines,
        follow: Follow,
    ) -> Result<ByteStream, Error> {
        const METHOD: &str = "Logs";
        let tail_lines = match lines {
            Lines::All => -1,
            Lines::Last(count) => i32::try_from(count).unwrap_or(i32::MAX),
        };
        let answer = self
            .read_within(METHOD, self.read_limit(), |line| async move {
                let request = line.request(wire::LogsRequest {
                    namespace: "system".to_owned(),
                    id: service.to_owned(),
                    driver: ContainerDriver::Containerd.into(),
                    follow: follow == Follow::Yes,
                    tail_lines,
                });
                line.machine().logs(request).await
            })
            .await?;
        let incoming = Incoming::new(self, METHOD, answer, self.idle(follow), None);
        Ok(ByteStream::new(incoming))
    }

    fn idle(&self, follow: Follow) -> std::time::Duration {
        match follow {
            Follow::No => self.deadlines().data_idle,
            Follow::Yes => self.deadlines().follow_idle,
        }
    }
}
