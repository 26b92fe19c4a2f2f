//! A world from outside.

use super::*;
use talos_proto::machine;

#[test]
fn version_answers() {
    let spec = ClusterSpec::new(3, 2, &Version::new(1, 12, 6), &Version::new(1, 34, 2));
    let mut world = World::new(&spec, 0, Time::from_secs(1));
    let reply = world.request(
        Time::from_secs(2),
        NodeIndex(0),
        &Caller::admin(),
        Request::Version,
    );
    let Reply::Unary(response) = reply else {
        panic!("{reply:?}");
    };
    let version = machine::VersionResponse::try_from(response).unwrap();
    assert_eq!(version.messages[0].version.as_ref().unwrap().tag, "v1.12.6");
    assert_eq!(world.find("worker-1"), Some(NodeIndex(3)));
}
