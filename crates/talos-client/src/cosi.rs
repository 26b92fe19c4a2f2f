//! COSI resources, which hold a node's state.
//!
//! A [`Spec`] is our typed view of one kind; [`Node::get`] and its variants read resources,
//! [`Node::watch`] follows them.

use std::collections::BTreeMap;
use std::fmt;

use prost::Message;
use talos_proto::Kind;
use talos_proto::cosi::resource as wire;

use crate::client::Node;
use crate::error::{Error, Failure};
use crate::stream::Incoming;

/// A typed view of one kind of resource.
pub trait Spec: Sized + Clone + fmt::Debug + Send + Sync + 'static {
    /// The kind of the resource.
    const KIND: Kind;
    /// The encoded message.
    type Payload: Message + Default;
    /// Converts the message; the error says why it is invalid.
    fn view(payload: Self::Payload) -> Result<Self, String>;
}

/// A kind with a single resource under a fixed ID.
pub trait Single: Spec {
    /// The ID.
    const ID: &'static str;
}

/// A resource: its metadata and its typed spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource<T> {
    /// The metadata.
    pub metadata: Metadata,
    /// The typed spec.
    pub spec: T,
}

/// The metadata of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Its ID within the kind.
    pub id: String,
    /// The number of changes; it restarts when the node reboots.
    pub version: Option<u64>,
    /// Whether it is being destroyed.
    pub tearing_down: bool,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
}

/// Converts a resource from the wire.
pub(crate) fn view<T: Spec>(resource: &wire::Resource) -> Result<Resource<T>, Failure> {
    let metadata = metadata::<T>(resource)?;
    let malformed = |what: &dyn fmt::Display| {
        let id = &metadata.id;
        Failure::Malformed(format!("{} `{id}`: {what}", T::KIND.resource_type))
    };
    let spec = resource.spec.as_ref().ok_or_else(|| malformed(&"it has no spec"))?;
    let payload = T::Payload::decode(spec.proto_spec.clone()).map_err(|error| malformed(&error))?;
    let spec = T::view(payload).map_err(|what| malformed(&what))?;
    Ok(Resource { metadata, spec })
}

/// Reads the metadata of a resource; also works for tombstones.
pub(crate) fn metadata<T: Spec>(resource: &wire::Resource) -> Result<Metadata, Failure> {
    let Some(metadata) = &resource.metadata else {
        let kind = T::KIND.resource_type;
        return Err(Failure::Malformed(format!("{kind}: it has no metadata")));
    };
    if metadata.r#type != T::KIND.resource_type {
        return Err(Failure::Malformed(format!(
            "{} where {} was asked for",
            metadata.r#type,
            T::KIND.resource_type
        )));
    }
    Ok(Metadata {
        id: metadata.id.clone(),
        version: metadata.version.parse().ok(),
        tearing_down: metadata.phase == "tearingDown",
        labels: metadata.labels.clone(),
        annotations: metadata.annotations.clone(),
    })
}

impl Node {
    /// The single resource of a kind; `None` if it does not exist.
    pub async fn get<T: Single>(&self) -> Result<Option<Resource<T>>, Error> {
        self.get_id(T::ID).await
    }

    /// A resource by its ID; `None` if it does not exist.
    pub async fn get_id<T: Spec>(&self, id: &str) -> Result<Option<Resource<T>>, Error> {
        const METHOD: &str = "State.Get";
        let reply = self
            .read(METHOD, |line| async move {
                let request = line.request(wire::GetRequest {
                    namespace: T::KIND.namespace.to_owned(),
                    r#type: T::KIND.resource_type.to_owned(),
                    id: id.to_owned(),
                    options: None,
                });
                line.state().get(request).await
            })
            .await;
        let failed = |failure| self.call(METHOD, None).failed(failure);
        match reply {
            Ok(wire::GetResponse { resource }) => {
                let resource =
                    resource.ok_or_else(|| failed(Failure::Malformed("no resource".to_owned())))?;
                view(&resource).map(Some).map_err(failed)
            }
            Err(error) if matches!(error.failure(), Failure::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All resources of a kind.
    pub async fn list<T: Spec>(&self) -> Result<Vec<Resource<T>>, Error> {
        const METHOD: &str = "State.List";
        let answer = self
            .read_within(METHOD, self.read_limit(), |line| async move {
                let request = line.request(wire::ListRequest {
                    namespace: T::KIND.namespace.to_owned(),
                    r#type: T::KIND.resource_type.to_owned(),
                    options: None,
                });
                line.state().list(request).await
            })
            .await?;
        let (idle, total) = (self.deadlines().data_idle, self.deadlines().read);
        let mut incoming = Incoming::new(self, METHOD, answer, idle, Some(total));
        let mut resources = Vec::new();
        while let Some(wire::ListResponse { resource }) = incoming.next().await? {
            let resource = resource
                .ok_or_else(|| Failure::Malformed("no resource".to_owned()))
                .and_then(|resource| view(&resource))
                .map_err(|failure| incoming.failed(failure))?;
            resources.push(resource);
        }
        Ok(resources)
    }
}
