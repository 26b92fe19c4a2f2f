//! A replica's connection to the hub: a `kube::Client` whose requests may be lost, late or
//! unanswered, and end with the process.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt as _, unfold};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use kube_sim::random::Random;
use kube_sim::{Method, Request};
use simulation_tests::crash::Point;
use simulation_tests::network::{Delivery, MessageFate, NetworkConditions, PATIENCE};
use simulation_tests::world::process_io::Process;
use tokio::sync::mpsc;

use crate::hub::{Answer, Hub, NAMESPACE};
use crate::judge::Judge;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Response = http::Response<StreamBody<BoxStream<'static, Result<Frame<Bytes>, Error>>>>;

/// A replica's connection to the hub.
pub struct Link {
    hub: Arc<Hub>,
    judge: Arc<Judge>,
    process: Arc<Process>,
    network: Mutex<(NetworkConditions, Random)>,
}

impl Link {
    /// A connection that loses nothing.
    pub fn new(
        hub: &Arc<Hub>,
        judge: &Arc<Judge>,
        process: &Arc<Process>,
        random: Random,
    ) -> Arc<Self> {
        Arc::new(Self {
            hub: Arc::clone(hub),
            judge: Arc::clone(judge),
            process: Arc::clone(process),
            network: Mutex::new((NetworkConditions::default(), random)),
        })
    }

    /// Changes its quality.
    pub fn set(&self, conditions: NetworkConditions) {
        self.network.lock().unwrap_or_else(PoisonError::into_inner).0 = conditions;
    }

    fn draw(&self) -> Delivery {
        let mut network = self.network.lock().unwrap_or_else(PoisonError::into_inner);
        let (conditions, random) = &mut *network;
        conditions.draw(random)
    }

    /// A client over it, as the shipped code has one over the network.
    pub fn client(self: &Arc<Self>) -> Client {
        let link = Arc::clone(self);
        let service = tower::service_fn(move |request| {
            let link = Arc::clone(&link);
            async move { link.carry(request).await }
        });
        Client::new(service, NAMESPACE)
    }

    async fn carry(self: Arc<Self>, request: http::Request<Body>) -> Result<Response, Error> {
        self.process.awake().await;
        let request = read(request).await?;
        let journals = request.method == Method::Patch && request.path.contains("/upgraderuns/");
        if journals {
            self.process.passes(Point::BeforeWrite).await;
        }
        let Delivery { there, back, fate } = self.draw();
        if fate == MessageFate::Refused {
            return Err("connection refused".into());
        }
        // A request that was sent arrives even if its sender dies.
        let (link, arrives) = (Arc::clone(&self), fate != MessageFate::Lost);
        let sent = tokio::spawn(async move {
            tokio::time::sleep(there).await;
            let answer = arrives.then(|| link.hub.request(&request))?;
            if let Answer::Whole { change: Some(change), .. } = &answer {
                link.judge.changed(&link.process, change);
            }
            tokio::time::sleep(back).await;
            Some(answer)
        });
        let answer = sent.await.ok().flatten();
        if journals {
            self.process.passes(Point::AfterWrite).await;
        }
        let unanswered = fate == MessageFate::Unanswered;
        let Some(answer) = answer.filter(|_| !unanswered) else {
            tokio::time::sleep(PATIENCE).await;
            self.process.awake().await;
            return Err("no answer".into());
        };
        self.process.awake().await;
        respond(&self, answer)
    }

    /// The next item of a watch; an error if the connection breaks first.
    async fn next(
        self: Arc<Self>,
        mut items: mpsc::UnboundedReceiver<Bytes>,
    ) -> Option<(Result<Frame<Bytes>, Error>, (Arc<Self>, Option<mpsc::UnboundedReceiver<Bytes>>))>
    {
        let item = items.recv().await?;
        let Delivery { there, fate, .. } = self.draw();
        tokio::time::sleep(there).await;
        self.process.awake().await;
        let well = matches!(fate, MessageFate::Well | MessageFate::Late | MessageFate::Doubled);
        Some(if well {
            (Ok(Frame::data(item)), (self, Some(items)))
        } else {
            (Err("the connection broke".into()), (self, None))
        })
    }
}

async fn read(request: http::Request<Body>) -> Result<Request, Error> {
    let (parts, body) = request.into_parts();
    let header = |name: http::HeaderName| {
        let value = parts.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    Ok(Request {
        method: Method::from_name(parts.method.as_str()),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        content_type: header(http::header::CONTENT_TYPE),
        accept: header(http::header::ACCEPT),
        user_agent: header(http::header::USER_AGENT),
        body: body.collect().await?.to_bytes(),
    })
}

fn respond(link: &Arc<Link>, answer: Answer) -> Result<Response, Error> {
    let (status, content_type, body) = match answer {
        Answer::Whole { status, content_type, body, .. } => {
            let frame = Ok::<_, Infallible>(Frame::data(body));
            let body = futures_util::stream::iter([frame.map_err(Into::into)]).boxed();
            (status, content_type, body)
        }
        Answer::Watch { content_type, items } => {
            let body = unfold((Arc::clone(link), Some(items)), |(link, items)| async move {
                link.next(items?).await
            });
            (200, content_type, body.boxed())
        }
    };
    let response = http::Response::builder().status(status).header("content-type", content_type);
    Ok(response.body(StreamBody::new(body))?)
}
