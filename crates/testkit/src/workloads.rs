//! Workloads for the clusters of the tests.

/// A Deployment of two pods.
pub const WEB: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: 'example.com/web:1'}]
";

/// A budget that keeps one pod of [`WEB`].
pub const WEB_BUDGET: &str = "\
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec:
  minAvailable: 1
  selector: {matchLabels: {app: web}}
";

/// A `StatefulSet` of one pod with a volume.
pub const DATABASE: &str = "\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 1
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: db, image: 'example.com/db:1'}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      accessModes: [ReadWriteOnce]
      resources: {requests: {storage: 1Gi}}
";

/// [`WEB`] and its budget, in one file.
pub fn web_with_budget() -> String {
    format!("{WEB}---\n{WEB_BUDGET}")
}

/// The same with a budget that allows no eviction.
pub fn web_held() -> String {
    web_with_budget().replace("minAvailable: 1", "minAvailable: 2")
}
