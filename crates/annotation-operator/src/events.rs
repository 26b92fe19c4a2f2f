//! The Events of this front end.

use upgrade_controller::events::ClusterEvent;
use upgrade_core::product::Product;
use vitistack_api::status::Status;

/// A change of a product's status.
pub fn transition(product: Product, status: Status, message: &str) -> ClusterEvent {
    let (word, warning) = match status {
        Status::Idle => ("Idle", false),
        Status::InProgress => ("Started", false),
        Status::Completed => ("Completed", false),
        Status::Failed => ("Failed", true),
        Status::Blocked => ("Blocked", true),
    };
    ClusterEvent { reason: format!("{product}Upgrade{word}"), note: message.to_owned(), warning }
}

/// What users should know of a plan before it is driven.
pub fn plan_warning(product: Product, text: &str) -> ClusterEvent {
    let reason = format!("{product}UpgradePlanWarning");
    ClusterEvent { reason, note: text.to_owned(), warning: true }
}
