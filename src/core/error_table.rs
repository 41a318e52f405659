//! How a table of errors becomes an enum.

/// Makes an enum of a table. Each entry has a name, fields, a message, and perhaps a detail and a
/// hint. A text is a literal, which takes the fields by their names, or a block.
#[macro_export]
macro_rules! error_table {
    ($(#[$about:meta])* $vis:vis enum $error:ident {$(
        $(#[$meta:meta])*
        $name:ident $(($($at:ident: $at_type:ty),+))? $({ $($field:ident: $type:ty),+ })?
            = $message:tt $(=> detail $detail:tt)? $(=> hint $hint:tt)?;
    )+}) => {
        $(#[$about])*
        $vis enum $error {
            $($(#[$meta])* $name $(($($at_type),+))? $({ $($field: $type),+ })?,)+
        }

        $crate::error_texts! { $error {$(
            $name $(($($at),+))? $({ $($field),+ })?
                = $message $(=> detail $detail)? $(=> hint $hint)?;
        )+} }
    };
}

/// The texts of such an enum.
#[macro_export]
macro_rules! error_texts {
    ($error:ident {$(
        $name:ident $(($($at:ident),+))? $({ $($field:ident),+ })?
            = $message:tt $(=> detail $detail:tt)? $(=> hint $hint:tt)?;
    )+}) => {
        #[allow(dead_code, unused_variables)]
        impl $error {
            pub fn detail(&self) -> Option<String> {
                match self {
                    $(Self::$name $(($($at),+))? $({ $($field),+ })?
                        => $crate::text_of_error!($($detail)?),)+
                }
            }

            pub fn hint(&self) -> Option<String> {
                match self {
                    $(Self::$name $(($($at),+))? $({ $($field),+ })?
                        => $crate::text_of_error!($($hint)?),)+
                }
            }
        }

        impl std::fmt::Display for $error {
            #[allow(unused_variables)]
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Self::$name $(($($at),+))? $({ $($field),+ })?
                        => $crate::write_error!(f, $message),)+
                }
            }
        }

        impl std::error::Error for $error {}
    };
}

/// A text that an entry may lack.
#[macro_export]
macro_rules! text_of_error {
    () => {
        None
    };
    ($text:literal) => {
        Some(format!($text))
    };
    ($text:block) => {
        $crate::error_table::Optional::text($text)
    };
}

#[macro_export]
macro_rules! write_error {
    ($f:ident, $text:literal) => {
        write!($f, $text)
    };
    ($f:ident, $text:block) => {
        write!($f, "{}", $text)
    };
}

/// The values that a block of the table may have for a detail or a hint.
pub trait Optional {
    fn text(self) -> Option<String>;
}

impl Optional for String {
    fn text(self) -> Option<String> {
        Some(self)
    }
}

impl Optional for &str {
    fn text(self) -> Option<String> {
        Some(self.into())
    }
}

impl<T: Optional> Optional for Option<T> {
    fn text(self) -> Option<String> {
        self.and_then(T::text)
    }
}
