//! Asks the hub for all of it.

use std::collections::BTreeSet;

use futures_util::future::try_join_all;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use kube::core::{ApiResource, DynamicObject, Status};

use super::fix::{self, Subject};
use super::rights::{Right, Scope};
use super::{Missing, NeededKind, Needs, Weight};
use crate::api_call::{CallError, with_timeout};

/// In how many namespaces a right is asked for that is not granted everywhere.
const NAMESPACES: usize = 16;

/// A right, and the verbs of it that are denied.
type Denied = (Right, Vec<&'static str>);

impl Needs {
    /// Everything that is missing; an error if the hub does not answer.
    pub async fn check(&self) -> Result<Vec<Missing>, CallError> {
        // Boxed: each asks many things at once, and is large.
        let (kinds, rights) = (Box::pin(self.kinds()), Box::pin(self.rights()));
        let all = tokio::try_join!(kinds, Box::pin(self.namespaces()), rights)?;
        Ok([all.0, all.1, all.2].concat())
    }

    /// The kinds that are not served.
    async fn kinds(&self) -> Result<Vec<Missing>, CallError> {
        let all = try_join_all(self.kinds.iter().map(|kind| self.served(kind))).await?;
        let absent: Vec<_> = all.into_iter().flatten().collect();
        let none = absent.len() == self.kinds.len();
        let missing = |(definition, what): (String, String)| Missing {
            weight: Weight::Needed,
            what,
            fix: fix::kind(&definition, none),
        };
        Ok(absent.into_iter().map(missing).collect())
    }

    /// The name of a kind's definition and what is wrong, if it is not served.
    async fn served(
        &self,
        NeededKind { resource, status }: &NeededKind,
    ) -> Result<Option<(String, String)>, CallError> {
        let ApiResource { group, api_version: version, plural, .. } = resource;
        let definition = format!("{plural}.{group}");
        let asked = self.client.list_api_group_resources(version);
        let found: BTreeSet<String> = match denied_or(asked).await? {
            Ok(list) => list.resources.into_iter().map(|it| it.name).collect(),
            Err(answer) if answer.code == 404 => BTreeSet::new(),
            // A hub may keep this from accounts; the watch will tell.
            Err(_) => return Ok(None),
        };
        let what = if !found.contains(plural) {
            format!("it does not serve {definition} ({version})")
        } else if *status && !found.contains(&format!("{plural}/status")) {
            format!("{definition} ({version}) has no status subresource")
        } else {
            return Ok(None);
        };
        Ok(Some((definition, what)))
    }

    /// The namespaces that do not exist.
    async fn namespaces(&self) -> Result<Vec<Missing>, CallError> {
        let mut missing = Vec::from_iter(self.own_namespace().await?);
        if let Some(watched) = self.watch_namespace.as_ref().filter(|it| **it != self.namespace) {
            missing.extend(self.namespace(watched).await?);
        }
        Ok(missing)
    }

    /// Asks by what is done there: the operator may write Leases and has no right to
    /// read namespaces. Nothing is written.
    async fn own_namespace(&self) -> Result<Option<Missing>, CallError> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), &self.namespace);
        let name = Some("talos-operator-dry-run".to_owned());
        let lease = Lease {
            metadata: ObjectMeta { name, ..ObjectMeta::default() },
            spec: Some(LeaseSpec::default()),
        };
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        match denied_or(leases.create(&dry, &lease)).await? {
            Err(answer) if answer.code == 404 => Ok(Some(absent(&self.namespace))),
            Err(answer) if is_terminating(&answer) => Ok(Some(ending(&self.namespace))),
            Err(answer) if answer.code == 403 => self.namespace(&self.namespace).await,
            // Whatever a webhook thinks of this Lease: the namespace is there.
            Ok(_) | Err(_) => Ok(None),
        }
    }

    /// What is wrong with a namespace, if that can be read.
    async fn namespace(&self, name: &str) -> Result<Option<Missing>, CallError> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        Ok(match denied_or(namespaces.get(name)).await? {
            Err(answer) if answer.code == 404 => Some(absent(name)),
            Ok(found) if found.metadata.deletion_timestamp.is_some() => Some(ending(name)),
            Ok(_) | Err(_) => None,
        })
    }

    /// The rights that are missing.
    async fn rights(&self) -> Result<Vec<Missing>, CallError> {
        let watched = self.watch_namespace.as_deref();
        let mut denied = Vec::new();
        for right in self.rights.clone() {
            let own = right.scope == Scope::Own;
            let inside = if own { Some(self.namespace.as_str()) } else { watched };
            let verbs = self.denied(&right, inside).await?;
            if !verbs.is_empty() {
                denied.push((right, verbs, inside));
            }
        }
        if denied.is_empty() {
            return Ok(Vec::new());
        }
        let subject = self.subject().await;
        let scattered = |(right, _, inside): &(Right, Vec<_>, Option<&str>)| {
            right.scope == Scope::Clusters && inside.is_none()
        };
        let mut places = None;
        if denied.iter().any(scattered) {
            places = self.namespaces_with_clusters().await?;
        }
        let mut missing = Vec::new();
        for entry in denied {
            let narrowed = places.as_deref().filter(|_| scattered(&entry));
            let (right, verbs, inside) = entry;
            let denied = (right, verbs);
            if let Some(places) = narrowed {
                missing.extend(self.narrowed(denied, places, &subject).await?);
            } else {
                let weight = denied.0.weight;
                missing.push(self.lacking(denied, inside, weight, &subject));
            }
        }
        Ok(missing)
    }

    /// The verbs of a right that are denied, in a namespace or everywhere.
    async fn denied(
        &self,
        right: &Right,
        inside: Option<&str>,
    ) -> Result<Vec<&'static str>, CallError> {
        let mut asked = Vec::new();
        for verb in right.verbs {
            asked.push(self.may(right, verb, inside));
        }
        let answers = try_join_all(asked).await?;
        let denied = right.verbs.iter().zip(answers).filter(|(_, allowed)| !allowed);
        Ok(denied.map(|(verb, _)| *verb).collect())
    }

    async fn may(
        &self,
        right: &Right,
        verb: &str,
        inside: Option<&str>,
    ) -> Result<bool, CallError> {
        let (resource, sub) = match right.resource.split_once('/') {
            Some((resource, sub)) => (resource, Some(sub)),
            None => (right.resource, None),
        };
        let attributes = ResourceAttributes {
            group: Some(right.group.to_owned()),
            resource: Some(resource.to_owned()),
            subresource: sub.map(str::to_owned),
            verb: Some(verb.to_owned()),
            namespace: inside.map(str::to_owned),
            ..ResourceAttributes::default()
        };
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let reviews: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let post = PostParams::default();
        let reviewed = denied_or(reviews.create(&post, &review)).await?;
        // An account that may not ask may still have the right.
        Ok(reviewed.map_or(true, |it| it.status.is_some_and(|status| status.allowed)))
    }

    /// Who we are, to the hub.
    async fn subject(&self) -> Subject {
        let reviews: Api<SelfSubjectReview> = Api::all(self.client.clone());
        let (post, review) = (PostParams::default(), SelfSubjectReview::default());
        let reviewed = with_timeout(reviews.create(&post, &review)).await.ok();
        let user = reviewed.and_then(|it| it.status?.user_info?.username);
        Subject::of(&user.unwrap_or_default())
    }

    /// Where clusters are; nothing if they cannot be listed.
    async fn namespaces_with_clusters(&self) -> Result<Option<Vec<String>>, CallError> {
        let clusters: Api<DynamicObject> = Api::all_with(self.client.clone(), &self.clusters);
        let listed = denied_or(clusters.list_metadata(&ListParams::default())).await?;
        let places = listed.map(|list| {
            let places: BTreeSet<_> = list.iter().filter_map(ResourceExt::namespace).collect();
            places.into_iter().take(NAMESPACES).collect()
        });
        Ok(places.ok())
    }

    /// A right that is not granted everywhere may be granted where clusters are.
    async fn narrowed(
        &self,
        (right, verbs): Denied,
        places: &[String],
        subject: &Subject,
    ) -> Result<Vec<Missing>, CallError> {
        let mut lacking = Vec::new();
        for place in places {
            let verbs = self.denied(&right, Some(place)).await?;
            if !verbs.is_empty() {
                lacking.push((verbs, place));
            }
        }
        if lacking.len() == places.len() {
            // Without a cluster it is not needed yet.
            let weight = if places.is_empty() { Weight::Noted } else { right.weight };
            return Ok(vec![self.lacking((right, verbs), None, weight, subject)]);
        }
        // One namespace without the right is no reason to leave the others alone.
        let noted = |(verbs, place): (_, &String)| {
            self.lacking((right, verbs), Some(place), Weight::Noted, subject)
        };
        Ok(lacking.into_iter().map(noted).collect())
    }

    fn lacking(
        &self,
        (right, verbs): Denied,
        inside: Option<&str>,
        weight: Weight,
        subject: &Subject,
    ) -> Missing {
        let place = match inside {
            Some(namespace) => format!("the namespace {namespace}"),
            None => "all namespaces".to_owned(),
        };
        let (who, resource) = (subject.shown(), right.full_name());
        let what = format!("{who} may not {} {resource} in {place}", verbs.join(", "));
        Missing { weight, what, fix: fix::right(&right, subject, &self.namespace, inside) }
    }
}

fn absent(namespace: &str) -> Missing {
    let what = format!("the namespace {namespace} does not exist");
    Missing { weight: Weight::Needed, what, fix: fix::namespace(namespace) }
}

fn ending(namespace: &str) -> Missing {
    let what = format!("the namespace {namespace} is being deleted");
    Missing { weight: Weight::Needed, what, fix: fix::deleted_namespace(namespace) }
}

fn is_terminating(answer: &Status) -> bool {
    let causes = answer.details.iter().flat_map(|details| &details.causes);
    { causes }.any(|cause| cause.reason == "NamespaceTerminating")
}

/// The answer, or a refusal that is one. What says nothing about the question (no answer,
/// keys that are not accepted, a server that is not well) is an error.
async fn denied_or<T>(
    asked: impl Future<Output = Result<T, kube::Error>>,
) -> Result<Result<T, Box<Status>>, CallError> {
    match with_timeout(asked).await {
        Ok(found) => Ok(Ok(found)),
        Err(CallError::Refused(answer))
            if !(answer.code == 401 || answer.code == 429 || answer.code >= 500) =>
        {
            Ok(Err(answer))
        }
        Err(error) => Err(error),
    }
}
