//! A libvmag.so loaded into this process, to ask it what its options mean.
//!
//! It serves nobody here: its malloc stays unused. Its first use reads the options of our environment.
//! SPDX-License-Identifier: BSD-2-Clause

use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

type Put = extern "C" fn(*mut c_void, *const c_char);
type Print = extern "C" fn(Put, *mut c_void);

pub struct LoadedLibrary {
    handle: *mut c_void,
}

impl LoadedLibrary {
    /// None when it is no library for this machine, or needs others that are not here.
    pub fn open(path: &Path) -> Option<LoadedLibrary> {
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        // SAFETY: the path is a C string; what runs at loading is the library's own affair.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        (!handle.is_null()).then_some(LoadedLibrary { handle })
    }

    fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle is open for ever, the name is a C string.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }

    /// The lines of vmag_options_print; None where the library has no such function.
    pub fn option_lines(&self) -> Option<Vec<String>> {
        // SAFETY: the symbol has that type in every version of the library.
        let print = unsafe { std::mem::transmute::<*mut c_void, Print>(self.symbol(c"vmag_options_print")?) };
        let mut lines: Vec<String> = Vec::new();
        print(collect, std::ptr::addr_of_mut!(lines).cast());
        Some(lines)
    }

    /// Copies `bytes` over data of this copy of the library.
    ///
    /// # Safety
    /// The address must be that of plain data which the library told by its root, and at least that long.
    pub unsafe fn overwrite(&self, address: u64, bytes: &[u8]) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) }
    }

    pub fn root_address(&self) -> Option<u64> {
        self.symbol(c"vmag_root").map(|address| address as u64)
    }
}

extern "C" fn collect(lines: *mut c_void, line: *const c_char) {
    // SAFETY: the library hands back the pointer it was given, and a line that is valid during the call.
    let (lines, line) = unsafe { (&mut *lines.cast::<Vec<String>>(), CStr::from_ptr(line)) };
    lines.push(line.to_string_lossy().trim_end_matches('\n').to_string());
}

/// Ends the process without what a loaded library does at exit.
pub fn leave_at_once(status: i32) -> ! {
    // SAFETY: no memory is involved.
    unsafe { libc::_exit(status) }
}
