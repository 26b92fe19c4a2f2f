//! APIs that clients still use and a coming Kubernetes no longer has: the API
//! server counts them itself.

use http::Request;
use http::header::ACCEPT;
use upgrade_engine::io::IoError;

use super::access::Access;

const METRIC: &str = "apiserver_requested_deprecated_apis";

/// `(group/version resource, removed in minor)`, sorted. An API server tells only
/// of the requests that it got itself since it started.
pub(super) async fn deprecated(access: &Access) -> Result<Vec<(String, String)>, IoError> {
    // No object: `Api` has no type for it.
    let metrics = |client: kube::Client| async move {
        let request = Request::get("/metrics").header(ACCEPT, "text/plain").body(Vec::new());
        client.request_text(request.map_err(kube::Error::HttpError)?).await
    };
    match access.call(metrics).await {
        Ok(text) => Ok(parse(&text)),
        // One that shows no metrics has counted nothing to tell of.
        Err(refused) if refused.is_not_found() => Ok(Vec::new()),
        Err(refused) => Err(refused.on_read("the API server's metrics could not be read")),
    }
}

fn parse(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(METRIC)?.strip_prefix('{'));
    let mut found: Vec<_> = lines
        .filter_map(|line| {
            let (labels, value) = line.split_once('}')?;
            if value.split_whitespace().next()?.parse::<f64>().ok()? <= 0.0 {
                return None;
            }
            let label = |name: &str| {
                let start = format!("{name}=\"");
                let mut parts = labels.split(',');
                parts.find_map(|part| part.strip_prefix(&start)?.strip_suffix('"'))
            };
            let removed = label("removed_release").filter(|removed| !removed.is_empty())?;
            let (version, resource) = (label("version")?, label("resource")?);
            let api = match label("group") {
                None | Some("") => format!("{version} {resource}"),
                Some(group) => format!("{group}/{version} {resource}"),
            };
            Some((api, removed.to_owned()))
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_goes_away_is_named() {
        let text = r#"# HELP apiserver_requested_deprecated_apis [STABLE] Gauge of deprecated APIs
# TYPE apiserver_requested_deprecated_apis gauge
apiserver_requested_deprecated_apis{group="",removed_release="",resource="componentstatuses",subresource="",version="v1"} 1
apiserver_requested_deprecated_apis{group="flowcontrol.apiserver.k8s.io",removed_release="1.32",resource="flowschemas",subresource="",version="v1beta3"} 1
apiserver_requested_deprecated_apis{group="flowcontrol.apiserver.k8s.io",removed_release="1.32",resource="flowschemas",subresource="status",version="v1beta3"} 1
apiserver_requested_deprecated_apis_more{group="x",removed_release="1.32",resource="y",version="v1"} 1
"#;
        let expected =
            ("flowcontrol.apiserver.k8s.io/v1beta3 flowschemas".to_owned(), "1.32".to_owned());
        assert_eq!(parse(text), [expected]);
    }
}
