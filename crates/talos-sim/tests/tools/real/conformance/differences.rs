//! The accepted differences between the embedded API server and the real one, with reasons.

/// A known difference.
#[derive(Debug)]
pub(crate) struct Difference {
    /// The step; a star matches anything.
    pub(crate) step: &'static str,
    /// The path in the answer, with the same stars.
    pub(crate) place: &'static str,
    /// Why it is accepted.
    pub(crate) reason: &'static str,
}

impl Difference {
    pub(crate) fn covers(&self, step: &str, place: &str) -> bool {
        fits(self.step, step) && fits(self.place, place)
    }
}

fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        Some((start, end)) => {
            text.len() >= start.len() + end.len() && text.starts_with(start) && text.ends_with(end)
        }
        None => text == pattern,
    }
}

pub(crate) const DIFFERENCES: &[Difference] = &[
    Difference {
        step: "*",
        place: "/body/spec/volumes*",
        reason: "pods get no service account token volume: no process runs in them",
    },
    Difference {
        step: "changes: *",
        place: "/body/spec/containers/0/volumeMounts",
        reason: "the same",
    },
    Difference {
        step: "changes: *",
        place: "/body/spec/containers/1/volumeMounts",
        reason: "the same",
    },
    Difference {
        step: "changes: *",
        place: "/body/metadata/managedFields/1/fieldsV1/f:status/f:conditions/*",
        reason: "omitted times have no field owner",
    },
    Difference {
        step: "changes: merge another kind",
        place: "/body/details*",
        reason: "the quoted JSON has another field order than Go's",
    },
    Difference { step: "changes: merge another kind", place: "/body/message", reason: "the same" },
    Difference { step: "changes: merge a wrong type", place: "/body/details*", reason: "the same" },
    Difference { step: "changes: merge a wrong type", place: "/body/message", reason: "the same" },
    Difference {
        step: "lists: a wrong token",
        place: "/body/message",
        reason: "the content of a token is private to the server",
    },
    Difference { step: "lists: a token and a version", place: "/body/message", reason: "the same" },
    Difference {
        step: "shapes: *",
        place: "/body/columnDefinitions/*/description",
        reason: "columns have names but no descriptions, which kubectl does not print",
    },
    Difference {
        step: "shapes: versions",
        place: "/body/serverAddressByClientCIDRs*",
        reason: "the addresses differ",
    },
    Difference {
        step: "shapes: resources of *",
        place: "/body/resources/*/storageVersionHash",
        reason: "there is only one storage version, so no hash is needed",
    },
    Difference {
        step: "shapes: a thing of words",
        place: "/body/*",
        reason: "only the schema reports the error, not also the scale",
    },
    Difference {
        step: "evictions: a budget of both kinds",
        place: "/body/*",
        reason: "the budget is not quoted in Go's notation",
    },
    Difference {
        step: "bad: field twice, strictly",
        place: "*",
        reason: "the last of two duplicate JSON fields counts",
    },
];
