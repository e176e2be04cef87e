//! Libraries that are opened at run time.

use std::ffi::CStr;

/// A structure of a library's functions, by their symbols.
macro_rules! functions {
    ($(#[$about:meta])* $visible:vis $type:ident: $($name:ident: $symbol:literal ($($argument:ty),*) $(-> $result:ty)?;)*) => {
        $(#[$about])*
        $visible struct $type {
            $($visible $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $type {
            /// Those of a library that was opened; `None`: it lacks one, and [`said`](crate::library::said) tells which.
            fn of(library: *mut std::ffi::c_void) -> Option<$type> {
                $(
                    // SAFETY: the name ends with a zero, and the library was opened.
                    let $name = unsafe { libc::dlsym(library, concat!($symbol, "\0").as_ptr().cast()) };
                    if $name.is_null() {
                        return None;
                    }
                )*
                Some($type {
                    // SAFETY: the library's header declares the function so.
                    $($name: unsafe { std::mem::transmute::<
                        *mut std::ffi::c_void,
                        unsafe extern "C" fn($($argument),*) $(-> $result)?,
                    >($name) },)*
                })
            }
        }
    };
}
pub(crate) use functions;

/// What the last `dl` call says.
pub(crate) fn said() -> String {
    // SAFETY: the text is this thread's until its next such call.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "it does not say why".to_owned();
    }
    // SAFETY: not null, and ends with a zero.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
