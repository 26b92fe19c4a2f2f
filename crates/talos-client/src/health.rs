//! The cluster health check that a control plane node runs.

use std::time::Duration;

use talos_proto::cluster as wire;

use crate::client::Node;
use crate::error::Error;
use crate::reply::carried;
use crate::stream::Incoming;

/// The parameters of a health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// How long the node waits for the cluster to become healthy.
    pub wait: Duration,
    /// The control plane nodes; empty for those in the cluster's member list.
    pub control_planes: Vec<String>,
    /// The workers; likewise.
    pub workers: Vec<String>,
}

/// A running health check.
#[derive(Debug)]
pub struct HealthReport {
    incoming: Incoming<wire::HealthCheckProgress>,
}

impl HealthReport {
    /// The node's next message; `None` once everything is healthy. An error means that the cluster
    /// is not healthy or that the check did not complete.
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
    /// Runs a health check on the node, which has to be a control plane.
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
        // The node reports each change of a check, and each check may use up the whole time.
        let total = wait.saturating_add(self.deadlines().data_idle);
        Ok(HealthReport { incoming: Incoming::new(self, METHOD, answer, total, Some(total)) })
    }
}
