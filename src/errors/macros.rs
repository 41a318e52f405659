//! How a table of errors becomes an enum.

/// Makes `HiloError` of a table. Each entry has a name, fields, an SQLSTATE, a message, and perhaps
/// a detail and a hint. A text is a literal, which takes the fields by their names, or a block.
macro_rules! errors {
    ($(
        $(#[$meta:meta])*
        $name:ident $(($($at:ident: $at_type:ty),+))? $({ $($field:ident: $type:ty),+ })?
            = $code:tt, $message:tt $(=> detail $detail:tt)? $(=> hint $hint:tt)?;
    )+) => {
        /// An error that hilo raises.
        #[derive(Debug)]
        pub enum HiloError {
            $($(#[$meta])* $name $(($($at_type),+))? $({ $($field: $type),+ })?,)+
        }

        #[allow(unused_variables)]
        impl HiloError {
            pub(super) fn code(&self) -> Code {
                match self {
                    $(Self::$name $(($($at),+))? $({ $($field),+ })? => $code,)+
                }
            }

            pub fn detail(&self) -> Option<String> {
                match self {
                    $(Self::$name $(($($at),+))? $({ $($field),+ })? => optional!($($detail)?),)+
                }
            }

            pub fn hint(&self) -> Option<String> {
                match self {
                    $(Self::$name $(($($at),+))? $({ $($field),+ })? => optional!($($hint)?),)+
                }
            }
        }

        impl std::fmt::Display for HiloError {
            #[allow(unused_variables)]
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Self::$name $(($($at),+))? $({ $($field),+ })? => written!(f, $message),)+
                }
            }
        }

        impl std::error::Error for HiloError {}
    };
}

/// A text that an entry may lack.
macro_rules! optional {
    () => {
        None
    };
    ($text:literal) => {
        Some(format!($text))
    };
    ($text:block) => {
        crate::errors::Optional::text($text)
    };
}

macro_rules! written {
    ($f:ident, $text:literal) => {
        write!($f, $text)
    };
    ($f:ident, $text:block) => {
        write!($f, "{}", $text)
    };
}
