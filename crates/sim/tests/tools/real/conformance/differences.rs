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
        reason: "pods get no volume with their account's token: nobody runs in them",
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
        reason: "times that are null belong to nobody",
    },
    Difference {
        step: "changes: merge another kind",
        place: "/body/details*",
        reason: "the object is quoted as JSON in the order of another language",
    },
    Difference { step: "changes: merge another kind", place: "/body/message", reason: "the same" },
    Difference { step: "changes: merge a wrong type", place: "/body/details*", reason: "the same" },
    Difference { step: "changes: merge a wrong type", place: "/body/message", reason: "the same" },
    Difference {
        step: "lists: a wrong token",
        place: "/body/message",
        reason: "what is inside a token is a server's own affair",
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
        reason: "it is another address",
    },
    Difference {
        step: "shapes: resources of *",
        place: "/body/resources/*/storageVersionHash",
        reason: "there is one storage, so nothing to hash",
    },
    Difference {
        step: "shapes: a thing of words",
        place: "/body/*",
        reason: "only the schema complains, not the scale as well",
    },
    Difference {
        step: "evictions: a budget of both kinds",
        place: "/body/*",
        reason: "the budget is quoted as a struct of another language",
    },
    Difference {
        step: "bad: field twice, strictly",
        place: "*",
        reason: "JSON is read as everywhere: the last of two fields counts",
    },
];
