//! How a table of errors becomes an enum.

/// Makes an enum of errors with a DETAIL and a HINT each. The enum derives `thiserror::Error`,
/// which makes the messages of `#[error(…)]`. `#[detail(…)]` and `#[hint(…)]` follow it in this
/// order where an error has them: they are arguments of `format!`, which know the fields by their
/// names. A `?` in them stands for no text. If the enum names a type for it, each error has its
/// SQLSTATE behind it, as a discriminant would be.
#[macro_export]
macro_rules! error_table {
    ($(#[$about:meta])* $vis:vis enum $error:ident $(: $state:ty)? {$(
        $(#[doc = $doc:literal])*
        #[error($($message:tt)+)] $(#[detail($($detail:tt)+)])? $(#[hint($($hint:tt)+)])?
        $name:ident $(($($(#[$from:ident])? $at:ident: $at_type:ty),+))?
            $({ $($field:ident: $type:ty),+ })? $(= $code:expr)?,
    )+}) => {
        $(#[$about])*
        $vis enum $error {$(
            $(#[doc = $doc])*
            #[error($($message)+)]
            $name $(($($(#[$from])? $at_type),+))? $({ $($field: $type),+ })?,
        )+}

        #[allow(dead_code, unused_variables)]
        impl $error {
            pub fn detail(&self) -> Option<String> {
                match self {$(
                    Self::$name $(($($at),+))? $({ $($field),+ })?
                        => None$(.or_else(|| Some(format!($($detail)+))))?,
                )+}
            }

            pub fn hint(&self) -> Option<String> {
                match self {$(
                    Self::$name $(($($at),+))? $({ $($field),+ })?
                        => None$(.or_else(|| Some(format!($($hint)+))))?,
                )+}
            }
        }

        $crate::error_codes! { $error [$($state)?] $(
            {Self::$name $(($($at),+))? $({ $($field),+ })?} $($code)?,
        )+ }
    };
}

/// The SQLSTATEs of an [`error_table`].
#[macro_export]
macro_rules! error_codes {
    ($error:ident [] $($rest:tt)*) => {};
    ($error:ident [$state:ty] $({$($entry:tt)+} $code:expr,)+) => {
        #[allow(unused_variables)]
        impl $error {
            pub fn code(&self) -> $state {
                match self {
                    $($($entry)+ => $code,)+
                }
            }
        }
    };
}
