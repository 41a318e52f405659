//! How a table of errors becomes an enum.

/// Makes `HiloError` of a table, as [`hilo_core::error_table`] does. Each entry has an SQLSTATE
/// too.
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

        hilo_core::error_texts! { HiloError {$(
            $name $(($($at),+))? $({ $($field),+ })?
                = $message $(=> detail $detail)? $(=> hint $hint)?;
        )+} }

        #[allow(unused_variables)]
        impl HiloError {
            pub(super) fn code(&self) -> Code {
                match self {
                    $(Self::$name $(($($at),+))? $({ $($field),+ })? => $code,)+
                }
            }
        }
    };
}
