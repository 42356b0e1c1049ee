//! Who we are, and what executing a file would make of us.
//! SPDX-License-Identifier: BSD-2-Clause

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

pub fn user_id() -> u32 {
    // SAFETY: never fails, no memory is involved.
    unsafe { libc::getuid() }
}

pub fn group_id() -> u32 {
    // SAFETY: never fails, no memory is involved.
    unsafe { libc::getgid() }
}

pub fn is_executable(path: &Path) -> bool {
    // SAFETY: the path is a C string.
    with_c_path(path, |path| unsafe {
        libc::faccessat(libc::AT_FDCWD, path, libc::X_OK, libc::AT_EACCESS) == 0
    })
}

/// False where set-user-ID bits and file capabilities have no effect: under no_new_privs or on a nosuid mount.
pub fn privileges_can_grow(path: &Path) -> bool {
    // SAFETY: no memory is involved.
    let held_down = unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 };
    let mut mount = MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the path is a C string; statvfs fills the zeroed structure or leaves it.
    let flags = with_c_path(path, |path| unsafe {
        libc::statvfs(path, mount.as_mut_ptr());
        mount.assume_init().f_flag
    });
    !held_down && flags & libc::ST_NOSUID == 0
}

pub fn has_file_capabilities(path: &Path) -> bool {
    has_attribute(path, c"security.capability")
}

/// Whether users and groups are named that may use it; the bits of its group are then no right of the group.
pub fn has_access_list(path: &Path) -> bool {
    has_attribute(path, ACCESS_LIST)
}

const ACCESS_LIST: &CStr = c"system.posix_acl_access";

fn has_attribute(path: &Path, attribute: &CStr) -> bool {
    // SAFETY: both names are C strings; a size of 0 only asks for the length.
    with_c_path(path, |path| unsafe {
        libc::getxattr(path, attribute.as_ptr(), ptr::null_mut(), 0) > 0
    })
}

/// The group may do nothing, another user everything, which the bits of the group's rights then say. Of a folder: for its new files. False: there are none here.
#[cfg(test)]
pub fn set_access_list(path: &Path) -> bool {
    const NONE: u32 = u32::MAX;
    let mut list = 2u32.to_le_bytes().to_vec();
    for (kind, rights, who) in [
        (1u16, 6u16, NONE),
        (2, 6, 1234),
        (4, 0, NONE),
        (16, 6, NONE),
        (32, 0, NONE),
    ] {
        list.extend([kind.to_le_bytes(), rights.to_le_bytes()].concat());
        list.extend(who.to_le_bytes());
    }
    let attribute = if path.is_dir() {
        c"system.posix_acl_default"
    } else {
        ACCESS_LIST
    };
    // SAFETY: both names are C strings, and the list is as long as told.
    with_c_path(path, |path| unsafe {
        libc::setxattr(path, attribute.as_ptr(), list.as_ptr().cast(), list.len(), 0) == 0
    })
}

/// Gives a file one more name; one that the kernel names in /proc is meant itself, although it may have none yet.
pub fn link(file: &Path, name: &Path) -> io::Result<()> {
    // SAFETY: both names are C strings.
    let done = with_c_path(file, |file| {
        with_c_path(name, |name| unsafe {
            libc::linkat(libc::AT_FDCWD, file, libc::AT_FDCWD, name, libc::AT_SYMLINK_FOLLOW)
        })
    });
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn with_c_path<T>(path: &Path, call: impl FnOnce(*const libc::c_char) -> T) -> T {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
    call(path.as_ptr())
}
