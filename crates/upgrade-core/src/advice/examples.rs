//! Enums that know one example of each of their variants, so that the words of a front end
//! can be checked for all of them. The example stands in the declaration: a variant without
//! one does not compile.

macro_rules! with_examples {
    (
        $(#[$about:meta])*
        pub enum $name:ident {
            $(
                $(#[$doc:meta])*
                $variant:ident $(($content:ty))? $({ $($(#[$what:meta])* $field:ident: $type:ty,)+ })?
                    => $example:expr,
            )+
        }
    ) => {
        $(#[$about])*
        pub enum $name {
            $(
                $(#[$doc])*
                $variant $(($content))? $({ $($(#[$what])* $field: $type,)+ })?,
            )+
        }

        impl $name {
            /// One of each, for tests of the words of front ends.
            pub fn examples() -> Vec<Self> {
                vec![$($example,)+]
            }
        }
    };
}

pub(super) use with_examples;
