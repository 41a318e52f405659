//! How a table of errors becomes an enum.

/// Makes an enum of errors, each with a message, and a DETAIL and a HINT if it has them. The enum
/// derives `thiserror::Error`, which makes the messages of `#[error(…)]`. `#[detail(…)]` and
/// `#[hint(…)]` follow in this order. They are arguments of `format!`, and know the fields by their
/// names; a `?` in them stands for no text. If the enum names a type for SQLSTATEs, the SQLSTATE
/// stands behind each error, like a discriminant.
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
