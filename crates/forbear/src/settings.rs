//! Where a policy has its configuration: in itself, behind a reference, or in its type.

use crate::config::Config;

/// Where a policy has its configuration.
///
/// A [`Config`] is its own, and may be made at run time. A device whose configuration is a constant gives it a type
/// instead, by [`settings!`](crate::settings!): then what the constant rules out is left out of the program, and it takes
/// no RAM. A reference to a `Config` takes a pointer: `Policy<Window, &'static Config>`.
pub trait Settings {
    /// The configuration: the same at every look.
    fn config(&self) -> &Config;
}

impl Settings for Config {
    #[inline]
    fn config(&self) -> &Config {
        self
    }
}

impl<S: Settings + ?Sized> Settings for &S {
    #[inline]
    fn config(&self) -> &Config {
        (**self).config()
    }
}

/// Declares a type that is a constant configuration: see [`Settings`]. A value that is refused fails to compile.
///
/// ```
/// use forbear::{Config, Policy, Window};
///
/// forbear::settings! {
///     /// What calls of the cloud's API keep to.
///     pub struct Cloud = Config::resilient().to_builder().k(1.5)
/// }
///
/// let policy = Policy::new(Cloud, Window::new());
/// assert_eq!(policy.config().k(), Some(1.5));
/// assert!(size_of_val(&policy) + size_of::<Config>() <= size_of::<Policy>());
/// ```
///
/// ```compile_fail
/// forbear::settings! { struct Cloud = forbear::Config::resilient().to_builder().k(f64::NAN) }
/// ```
#[macro_export]
macro_rules! settings {
    ($(#[$attribute:meta])* $visibility:vis struct $name:ident = $builder:expr) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug)]
        $visibility struct $name;

        impl $crate::Settings for $name {
            #[inline]
            fn config(&self) -> &$crate::Config {
                const { &$crate::config!($builder) }
            }
        }
    };
}
