//! The filters of a list or a watch.

use talos_proto::cosi::resource as cosi;
use talos_proto::cosi::resource::label_term::Operation;

use super::super::api::Status;

/// A condition on resources. The simulator's resources have no labels, so a label query can be
/// answered without reading them.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    /// Whether a resource without labels matches.
    fits: bool,
    /// The only id that matches, if the query has one.
    id: Option<String>,
}

impl Filter {
    pub(super) fn new(
        labels: &[cosi::LabelQuery],
        id: Option<&cosi::IdQuery>,
    ) -> Result<Self, Status> {
        let fits = labels.is_empty()
            || labels.iter().any(|query| query.terms.iter().all(fits_without_labels));
        let id = match id.map(|query| query.regexp.as_str()) {
            None | Some("") => None,
            Some(regexp) => {
                let plain = regexp
                    .strip_prefix('^')
                    .and_then(|rest| rest.strip_suffix('$'))
                    .unwrap_or_default();
                let simple = |c: char| c.is_ascii_alphanumeric() || "-_/".contains(c);
                if plain.is_empty() || !plain.chars().all(simple) {
                    return Err(Status::unimplemented(
                        "the simulator reads only id queries of the form ^id$",
                    ));
                }
                Some(plain.to_owned())
            }
        };
        Ok(Self { fits, id })
    }

    pub(super) fn matches(&self, id: &str) -> bool {
        self.fits && self.id.as_deref().is_none_or(|only| only == id)
    }
}

fn fits_without_labels(term: &cosi::LabelTerm) -> bool {
    let holds = matches!(term.op(), Operation::NotExists);
    holds != term.invert
}
