//! An adapter for tests: it sends requests and advances time.

use std::collections::BTreeMap;
use std::time::Duration;

use upgrade_core::version::Version;

use super::super::*;

pub(super) const START: Time = Time::from_secs(1_800_000_000);

/// A world, its time and the output of its streams.
pub(super) struct Driver {
    pub(super) world: World,
    pub(super) now: Time,
    pub(super) caller: Caller,
    pub(super) got: BTreeMap<StreamId, Vec<Response>>,
    pub(super) ended: BTreeMap<StreamId, Content>,
}

pub(super) fn version(text: &str) -> Version {
    text.parse().unwrap()
}

impl Driver {
    pub(super) fn new(
        control_planes: usize,
        workers: usize,
        talos: &str,
        kubernetes: &str,
    ) -> Self {
        let spec = ClusterSpec::new(control_planes, workers, &version(talos), &version(kubernetes));
        Self::with(&spec, 0)
    }

    pub(super) fn with(spec: &ClusterSpec, seed: u64) -> Self {
        Self {
            world: World::new(spec, seed, START),
            now: START,
            caller: Caller::admin(),
            got: BTreeMap::new(),
            ended: BTreeMap::new(),
        }
    }

    fn collect(&mut self) {
        for Output { stream, content } in self.world.outputs() {
            match content {
                Content::Item(item) => self.got.entry(stream).or_default().push(item),
                end => {
                    self.ended.insert(stream, end);
                }
            }
        }
    }

    pub(super) fn call(&mut self, node: usize, request: Request) -> Reply {
        let reply = self.world.request(self.now, NodeIndex(node), &self.caller, request);
        self.collect();
        reply
    }

    /// A unary call that must succeed at once.
    pub(super) fn unary<T: TryFrom<Response, Error = Status>>(
        &mut self,
        node: usize,
        request: Request,
    ) -> T {
        match self.call(node, request) {
            Reply::Unary(response) => T::try_from(response).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// A call that must fail.
    pub(super) fn error(&mut self, node: usize, request: Request) -> Status {
        match self.call(node, request) {
            Reply::Error(status) => status,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn stream(&mut self, node: usize, request: Request) -> StreamId {
        match self.call(node, request) {
            Reply::Stream(stream) => stream,
            other => panic!("{other:?}"),
        }
    }

    /// Advances time, from one event to the next.
    pub(super) fn wait(&mut self, duration: Duration) {
        let until = self.now.plus(duration);
        while let Some(at) = self.world.next_event().filter(|at| *at <= until) {
            self.world.advance(at);
            self.collect();
        }
        self.world.advance(until);
        self.collect();
        self.now = until;
    }

    pub(super) fn secs(&mut self, seconds: u64) {
        self.wait(Duration::from_secs(seconds));
    }

    /// Waits until a condition holds; a minute beyond the limit is a failure.
    pub(super) fn until(&mut self, what: &str, limit: u64, holds: impl Fn(&mut Self) -> bool) {
        for _ in 0..limit {
            if holds(self) {
                return;
            }
            self.secs(1);
        }
        panic!("still waiting after {limit} s: {what}");
    }

    pub(super) fn items<T: TryFrom<Response, Error = Status>>(&self, stream: StreamId) -> Vec<T> {
        self.got
            .get(&stream)
            .into_iter()
            .flatten()
            .map(|item| T::try_from(item.clone()).unwrap())
            .collect()
    }

    pub(super) fn boot_id(&mut self, node: usize) -> String {
        let request = talos_proto::machine::ReadRequest {
            path: "/proc/sys/kernel/random/boot_id".to_owned(),
        };
        match self.call(node, Request::Read(request)) {
            Reply::Items(items) => match &items[..] {
                [Response::Data(data)] => String::from_utf8(data.bytes.to_vec()).unwrap(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn tag(&mut self, node: usize) -> String {
        let response: talos_proto::machine::VersionResponse = self.unary(node, Request::Version);
        response.messages[0].version.as_ref().unwrap().tag.clone()
    }

    /// Whether a node answers and says that it is running and ready.
    pub(super) fn is_ready(&mut self, node: usize) -> bool {
        if !self.world.is_reachable(NodeIndex(node)) {
            return false;
        }
        let resource = self.get(node, "MachineStatuses.runtime.talos.dev", "runtime", "machine");
        let yaml = &resource.unwrap().spec.unwrap().yaml_spec;
        yaml.contains("stage: running") && yaml.contains("ready: true")
    }

    pub(super) fn get(
        &mut self,
        node: usize,
        resource_type: &str,
        namespace: &str,
        id: &str,
    ) -> Result<talos_proto::cosi::resource::Resource, Status> {
        let request = talos_proto::cosi::resource::GetRequest {
            namespace: namespace.to_owned(),
            r#type: resource_type.to_owned(),
            id: id.to_owned(),
            options: None,
        };
        match self.call(node, Request::CosiGet(request)) {
            Reply::Unary(response) => {
                let response: talos_proto::cosi::resource::GetResponse =
                    response.try_into().unwrap();
                Ok(response.resource.unwrap())
            }
            Reply::Error(status) => Err(status),
            other => panic!("{other:?}"),
        }
    }
}
