//! Closed sets of words, as they are written in objects.

/// Makes an enum of words: `ALL`, `as_str`, `parse` and `Display`.
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $($(#[$about:meta])* $word:ident = $text:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$about])* $word,)+
        }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$word),+];

            /// As it is written.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$word => $text),+
                }
            }

            /// The one that a text stands for; `None` for any other text.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|word| word.as_str() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.pad(self.as_str())
            }
        }
    };
}

pub(crate) use words;

#[cfg(test)]
mod tests {
    use crate::backup::{DeletionPolicy, EncryptionType, Verify};
    use crate::condition::{ConditionType, Reason};
    use crate::spec::Mode;
    use crate::state::{ControlPlaneState, MachineState, WorkerState};

    macro_rules! is_read_again {
        ($($name:ident),+) => {
            $(for word in $name::ALL {
                assert_eq!($name::parse(word.as_str()), Some(*word));
                assert_eq!(word.to_string(), word.as_str());
            })+
        };
    }

    #[test]
    fn what_is_written_is_read_again() {
        is_read_again!(Mode, ConditionType, Reason, ControlPlaneState, WorkerState, MachineState);
        is_read_again!(DeletionPolicy, EncryptionType, Verify);
        assert_eq!(ControlPlaneState::parse("Available"), None, "an earlier operator's");
        assert_eq!(Mode::parse("Metal"), None);
    }
}
