//! Calls: to which node, through which endpoint, and until when.
//!
//! A [`Client`] knows a cluster's endpoints; a [`Node`] is one address in it and has the methods.
//! Every request goes through [`Node::read`] or [`Node::act`], so each call has a deadline, and
//! only `recover` decides what may be retried.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use talos_proto::MAX_MESSAGE_SIZE;
use talos_proto::cluster::cluster_service_client::ClusterServiceClient;
use talos_proto::cosi::resource::state_client::StateClient;
use talos_proto::machine::image_service_client::ImageServiceClient;
use talos_proto::machine::lifecycle_service_client::LifecycleServiceClient;
use talos_proto::machine::machine_service_client::MachineServiceClient;
use tokio::time::{Instant, sleep_until, timeout_at};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::address::NodeAddress;
use crate::deadline::{Deadlines, from_now};
use crate::endpoints::{Endpoint, EndpointHealth, Endpoints};
use crate::error::{ActError, Call, Error, Failure, Outcome};
use crate::recover::{self, Again, Backoff};
use crate::talosconfig::{Context, Problem};
use crate::tls;

/// The first pause between rounds over all endpoints, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// An endpoint that did not answer for this long before the caller gave up counts as failed.
const SILENT: Duration = Duration::from_secs(2);

/// A client of one cluster. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    context: String,
    endpoints: Endpoints,
    deadlines: Deadlines,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { context, endpoints, deadlines: _ } = &*self.inner;
        f.debug_struct("Client")
            .field("context", context)
            .field("endpoints", &endpoints.health())
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client with default deadlines. It does not connect yet.
    pub fn new(context: &Context) -> Result<Self, Problem> {
        Self::with_deadlines(context, Deadlines::default())
    }

    /// A client with other deadlines.
    pub fn with_deadlines(context: &Context, deadlines: Deadlines) -> Result<Self, Problem> {
        let tls = tls::client_config(&context.credentials)?;
        Ok(Self::over(context, &tls, deadlines))
    }

    /// A client that reloads its context at every connection, because certificates expire. If the
    /// context cannot be loaded or used, the client keeps the last good one. Endpoints and
    /// authorities stay the same.
    pub fn reloading(
        context: &Context,
        deadlines: Deadlines,
        reload: impl Fn() -> Option<Context> + Send + Sync + 'static,
    ) -> Result<Self, Problem> {
        let reload: tls::Reload = Arc::new(move || reload().map(|context| context.credentials));
        let tls = tls::reloading_config(&context.credentials, reload)?;
        Ok(Self::over(context, &tls, deadlines))
    }

    fn over(context: &Context, tls: &Arc<ClientConfig>, deadlines: Deadlines) -> Self {
        Self {
            inner: Arc::new(Inner {
                context: context.name.clone(),
                endpoints: Endpoints::new(&context.endpoints, tls, deadlines.connect),
                deadlines,
            }),
        }
    }

    /// A node, reached through any working endpoint.
    pub fn node(&self, address: NodeAddress) -> Node {
        Node { client: self.clone(), address: Some(address) }
    }

    /// Any working endpoint itself. Two calls may reach two machines.
    pub fn endpoint(&self) -> Node {
        Node { client: self.clone(), address: None }
    }

    /// The result of each endpoint's last use.
    pub fn endpoints(&self) -> Vec<EndpointHealth> {
        self.inner.endpoints.health()
    }

    /// The deadlines of its calls.
    pub fn deadlines(&self) -> &Deadlines {
        &self.inner.deadlines
    }
}

/// One node of a cluster. Its methods are spread over the modules by topic.
#[derive(Clone, Debug)]
pub struct Node {
    client: Client,
    address: Option<NodeAddress>,
}

/// The time limits of a read: for one attempt, and for all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) attempt: Duration,
    pub(crate) total: Duration,
}

/// The route of a call: the channel, and the node that the endpoint forwards to.
#[derive(Clone)]
pub(crate) struct Line {
    channel: Channel,
    node: Option<MetadataValue<Ascii>>,
}

macro_rules! services {
    ($($name:ident: $client:ident),+ $(,)?) => {
        $(pub(crate) fn $name(&self) -> $client<Channel> {
            $client::new(self.channel.clone())
                .max_decoding_message_size(MAX_MESSAGE_SIZE)
                .max_encoding_message_size(MAX_MESSAGE_SIZE)
        })+
    };
}

impl Line {
    services! {
        machine: MachineServiceClient,
        image: ImageServiceClient,
        lifecycle: LifecycleServiceClient,
        cluster: ClusterServiceClient,
        state: StateClient,
    }

    /// Wraps the message in a request with exactly one `node`, or none: the plural is deprecated
    /// and wraps every error in a success.
    pub(crate) fn request<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        if let Some(node) = &self.node {
            request.metadata_mut().insert("node", node.clone());
        }
        request
    }
}

/// An endpoint with a call in flight. If the caller gives up, the next call starts with another
/// endpoint: a hung machine refuses nothing.
struct Waiting<'a> {
    endpoint: Option<&'a Arc<Endpoint>>,
    began: Instant,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let waited = self.began.elapsed();
        if let Some(endpoint) = self.endpoint.filter(|_| waited >= SILENT) {
            endpoint.failed(&Failure::Deadline(waited), Instant::now());
        }
    }
}

/// A reply, and the endpoint it came through.
pub(crate) struct Answer<T> {
    pub(crate) value: T,
    pub(crate) endpoint: Arc<Endpoint>,
}

impl Node {
    /// Its address; `None` for the endpoint itself.
    pub const fn address(&self) -> Option<&NodeAddress> {
        self.address.as_ref()
    }

    /// The client that it belongs to.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn deadlines(&self) -> &Deadlines {
        self.client.deadlines()
    }

    pub(crate) fn call(&self, method: &'static str, endpoint: Option<&Endpoint>) -> Call {
        Call {
            method,
            node: self.address.clone(),
            endpoint: endpoint.map(|endpoint| endpoint.address.clone()),
        }
    }

    fn line(&self, endpoint: &Endpoint) -> Line {
        Line {
            channel: endpoint.channel.clone(),
            node: self.address.as_ref().map(NodeAddress::metadata),
        }
    }

    fn backoff(&self) -> Backoff {
        let who = self.address.as_ref().map_or("", NodeAddress::as_str);
        Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, who)
    }

    /// The time limits of read-only calls.
    pub(crate) fn read_limit(&self) -> Limit {
        let Deadlines { attempt, read, .. } = *self.deadlines();
        Limit { attempt, total: read }
    }

    /// Sends a call that changes nothing, or nothing more when repeated.
    pub(crate) async fn read<T, F, R>(&self, method: &'static str, call: F) -> Result<T, Error>
    where
        F: Fn(Line) -> R,
        R: Future<Output = Result<Response<T>, Status>>,
    {
        let answer = self.read_within(method, self.read_limit(), call).await?;
        Ok(answer.value)
    }

    /// The same with other limits; also returns the endpoint.
    pub(crate) async fn read_within<T, F, R>(
        &self,
        method: &'static str,
        limit: Limit,
        call: F,
    ) -> Result<Answer<T>, Error>
    where
        F: Fn(Line) -> R,
        R: Future<Output = Result<Response<T>, Status>>,
    {
        let until = from_now(limit.total);
        let mut backoff = self.backoff();
        let mut round = 0;
        loop {
            round += 1;
            let mut last = None;
            for endpoint in self.client.inner.endpoints.line_up(Instant::now()) {
                let failure = match self.attempt(&endpoint, limit.attempt, until, &call).await {
                    Ok(value) => return Ok(Answer { value, endpoint }),
                    Err(failure) => failure,
                };
                tracing::debug!(
                    method,
                    endpoint = %endpoint.address,
                    node = self.address.as_ref().map(NodeAddress::as_str),
                    round,
                    kind = failure.kind(),
                    %failure,
                    "a read failed"
                );
                let error = self.call(method, Some(&endpoint)).failed(failure);
                match recover::again(error.failure()) {
                    Again::Never => return Err(error),
                    Again::Later => {
                        last = Some(error);
                        break;
                    }
                    Again::Elsewhere => last = Some(error),
                }
                if Instant::now() >= until {
                    break;
                }
            }
            let error = last.expect("a context has at least one endpoint");
            let resume = from_now(backoff.pause());
            // Certificates and names do not change within a second.
            let hopeless = matches!(error.failure(), Failure::Connect(fault) if !fault.may_pass());
            if hopeless || round >= recover::ROUNDS || resume >= until {
                return Err(error);
            }
            sleep_until(resume).await;
        }
    }

    async fn attempt<T, F, R>(
        &self,
        endpoint: &Arc<Endpoint>,
        attempt: Duration,
        until: Instant,
        call: F,
    ) -> Result<T, Failure>
    where
        F: FnOnce(Line) -> R,
        R: Future<Output = Result<Response<T>, Status>>,
    {
        let endpoints = &self.client.inner.endpoints;
        let began = Instant::now();
        let until = until.min(began + attempt);
        // A slow node behind the endpoint says nothing about the endpoint.
        let mut waiting = Waiting { endpoint: self.address.is_none().then_some(endpoint), began };
        let answer = timeout_at(until, call(self.line(endpoint))).await;
        waiting.endpoint = None;
        match answer {
            Ok(Ok(response)) => {
                endpoints.worked(endpoint);
                Ok(response.into_inner())
            }
            Ok(Err(status)) => {
                let failure = Failure::of(&status);
                match recover::again(&failure) {
                    Again::Elsewhere => endpoint.failed(&failure, Instant::now()),
                    Again::Never | Again::Later => {
                        if !matches!(failure, Failure::Connect(_)) {
                            // The endpoint answered, even if with an error.
                            endpoints.worked(endpoint);
                        }
                    }
                }
                Err(failure)
            }
            Err(_) => {
                let failure = Failure::Deadline(until - began);
                endpoint.failed(&failure, Instant::now());
                Err(failure)
            }
        }
    }

    /// Sends a call that changes something: at most once, whatever happens.
    ///
    /// It finds an endpoint that answers first, with a harmless request, so that the single attempt
    /// is not wasted on a dead connection.
    pub(crate) async fn act<T, F, R>(
        &self,
        method: &'static str,
        within: Duration,
        call: F,
    ) -> Result<Answer<T>, ActError>
    where
        F: FnOnce(Line) -> R,
        R: Future<Output = Result<Response<T>, Status>>,
    {
        let endpoint = self
            .live_endpoint(method)
            .await
            .map_err(|error| ActError { outcome: Outcome::NotSent, error })?;
        let until = from_now(within);
        match self.attempt(&endpoint, within, until, call).await {
            Ok(value) => Ok(Answer { value, endpoint }),
            Err(failure) => Err(self.act_failed(method, Some(&endpoint), failure)),
        }
    }

    pub(crate) fn act_failed(
        &self,
        method: &'static str,
        endpoint: Option<&Endpoint>,
        failure: Failure,
    ) -> ActError {
        ActError {
            outcome: recover::outcome(&failure),
            error: self.call(method, endpoint).failed(failure),
        }
    }

    /// Finds an endpoint that answers now. Any reply counts, even an error.
    async fn live_endpoint(&self, method: &'static str) -> Result<Arc<Endpoint>, Error> {
        let itself = self.client.endpoint();
        let mut last = None;
        for endpoint in self.client.inner.endpoints.line_up(Instant::now()) {
            let attempt = self.deadlines().attempt;
            let answer = itself
                .attempt(&endpoint, attempt, from_now(attempt), |line| async move {
                    line.machine().version(line.request(())).await
                })
                .await;
            match answer {
                Ok(_) => return Ok(endpoint),
                Err(failure) => match recover::again(&failure) {
                    Again::Never if !matches!(failure, Failure::Connect(_)) => return Ok(endpoint),
                    _ => last = Some(self.call(method, Some(&endpoint)).failed(failure)),
                },
            }
        }
        Err(last.expect("a context has at least one endpoint"))
    }
}
