//! Virtual time. The Kubernetes API uses it too: a cluster has one clock.

pub use kube_sim::Time;

/// An instant as a protobuf timestamp.
pub(super) fn to_proto(time: Time) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(time.as_nanos() % 1_000_000_000).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_the_rest() {
        let time = to_proto(Time::from_nanos(2_500_000_000));
        assert_eq!((time.seconds, time.nanos), (2, 500_000_000));
    }
}
