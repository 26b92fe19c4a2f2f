//! The check of the whole cluster that a control plane node runs itself.

use std::time::Duration;

use talos_proto::cluster as wire;

use crate::client::Node;
use crate::error::Error;
use crate::reply::carried;
use crate::stream::Incoming;

/// What to check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// How long the node waits for the cluster to become healthy.
    pub wait: Duration,
    /// The control plane nodes; empty means as the cluster's members say.
    pub control_planes: Vec<String>,
    /// The workers; likewise.
    pub workers: Vec<String>,
}

/// A check that is under way.
#[derive(Debug)]
pub struct HealthReport {
    incoming: Incoming<wire::HealthCheckProgress>,
}

impl HealthReport {
    /// What the node says next; `None` once all is healthy. An error is the
    /// verdict that it is not, or that the check did not come to its end.
    pub async fn next(&mut self) -> Result<Option<String>, Error> {
        let Some(wire::HealthCheckProgress { metadata, message }) = self.incoming.next().await?
        else {
            return Ok(None);
        };
        match carried(metadata.as_ref()) {
            Some(failure) => Err(self.incoming.failed(failure)),
            None => Ok(Some(message)),
        }
    }
}

impl Node {
    /// Has the node check its cluster. Only control plane nodes can.
    pub async fn health_check(&self, check: &HealthCheck) -> Result<HealthReport, Error> {
        const METHOD: &str = "ClusterService.HealthCheck";
        let HealthCheck { wait, control_planes, workers } = check;
        let message = wire::HealthCheckRequest {
            wait_timeout: (*wait).try_into().ok(),
            cluster_info: Some(wire::ClusterInfo {
                control_plane_nodes: control_planes.clone(),
                worker_nodes: workers.clone(),
                force_endpoint: String::new(),
            }),
        };
        let answer = self
            .read_within(METHOD, self.read_limit(), |line| {
                let request = line.request(message.clone());
                async move { line.cluster().health_check(request).await }
            })
            .await?;
        // It says something for every check that changes, and each may use up
        // all of the time.
        let total = wait.saturating_add(self.deadlines().data_idle);
        Ok(HealthReport { incoming: Incoming::new(self, METHOD, answer, total, Some(total)) })
    }
}
