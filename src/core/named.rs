//! Enums whose variants have a name that users see.

/// Declares an enum with a name for each variant: `ALL` has every variant in the order of
/// declaration, and `by_name` finds one.
#[macro_export]
macro_rules! named {
    (
        $(#[$doc:meta])* $vis:vis enum $name:ident {
            $($(#[$about:meta])* $variant:ident = $text:literal,)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$about])* $variant,)+
        }

        #[allow(dead_code)]
        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)+
                }
            }

            pub fn by_name(name: &str) -> Option<$name> {
                Self::ALL.iter().copied().find(|known| known.name() == name)
            }
        }
    };
}
