//! The payloads of `machine.MachineService/Events`.
//!
//! Each event contains a message in an `Any` with an unusual type URL: it starts with
//! [`TYPE_URL_PREFIX`]. Clients have to skip unknown URLs; talosctl stops instead, so a simulator
//! sends no others.

use prost::{DecodeError, Message as _};
use prost_types::Any;

use crate::machine::{
    AddressEvent, ConfigLoadErrorEvent, ConfigValidationErrorEvent, MachineStatusEvent, PhaseEvent,
    RestartEvent, SequenceEvent, ServiceStateEvent, TaskEvent,
};

/// The prefix of the message's full name in an event's type URL.
pub const TYPE_URL_PREFIX: &str = "talos/runtime/";

macro_rules! payloads {
    ($($(#[$doc:meta])* $variant:ident($message:ident) = $url:literal),+ $(,)?) => {
        /// The message inside an event.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Payload {
            $($(#[$doc])* $variant($message),)+
        }

        impl Payload {
            /// The type URL of the message.
            pub fn type_url(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $url,)+
                }
            }

            /// Encodes the message for `Event.data`.
            pub fn pack(&self) -> Any {
                let value = match self {
                    $(Self::$variant(message) => message.encode_to_vec(),)+
                };
                Any { type_url: self.type_url().to_owned(), value }
            }

            /// Decodes `Event.data`: `None` for an unknown type.
            pub fn unpack(data: &Any) -> Result<Option<Self>, DecodeError> {
                match data.type_url.as_str() {
                    $($url => $message::decode(data.value.as_slice()).map(Self::$variant).map(Some),)+
                    _ => Ok(None),
                }
            }
        }

        $(
            impl From<$message> for Payload {
                fn from(message: $message) -> Self {
                    Self::$variant(message)
                }
            }
        )+
    };
}

payloads! {
    /// A sequence (boot, upgrade, reboot, ...) began or ended.
    Sequence(SequenceEvent) = "talos/runtime/machine.SequenceEvent",
    /// A phase of a sequence began or ended.
    Phase(PhaseEvent) = "talos/runtime/machine.PhaseEvent",
    /// A task of a phase began or ended.
    Task(TaskEvent) = "talos/runtime/machine.TaskEvent",
    /// A service changed state.
    ServiceState(ServiceStateEvent) = "talos/runtime/machine.ServiceStateEvent",
    /// The machine's stage or readiness changed.
    MachineStatus(MachineStatusEvent) = "talos/runtime/machine.MachineStatusEvent",
    /// The kernel is about to restart, halt or power off.
    Restart(RestartEvent) = "talos/runtime/machine.RestartEvent",
    /// The machine's host name or addresses changed.
    Address(AddressEvent) = "talos/runtime/machine.AddressEvent",
    /// The configuration could not be loaded.
    ConfigLoadError(ConfigLoadErrorEvent) = "talos/runtime/machine.ConfigLoadErrorEvent",
    /// The configuration is not valid.
    ConfigValidationError(ConfigValidationErrorEvent)
        = "talos/runtime/machine.ConfigValidationErrorEvent",
}
