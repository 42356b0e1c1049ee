//! `vmag options`: the options of the library, with the values and sources that a program started here would see.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::error::{Result, ToolError};
use crate::library;
use crate::system::Status;
use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Print the options of the library: name, value, where the value comes from, and meaning.
#[derive(clap::Args)]
pub struct Arguments {
    /// The library; else $VMAG_LIB, or where it is installed
    #[arg(long, value_name = "PATH")]
    lib: Option<PathBuf>,
    /// Also those that are only accepted because jemalloc has them
    #[arg(long)]
    all: bool,
    /// Only these
    names: Vec<String>,
}

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: i32) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

const RTLD_NOW: i32 = 2;
type Put = extern "C" fn(*mut c_void, *const c_char);
type Print = extern "C" fn(Put, *mut c_void);

struct Row {
    name: String,
    value: String,
    source: String,
    limits: String,
    meaning: String,
}

extern "C" fn collect(rows: *mut c_void, line: *const c_char) {
    // SAFETY: the library hands back the pointer it was given, and a line that is valid during the call.
    let (rows, line) = unsafe { (&mut *rows.cast::<Vec<Row>>(), CStr::from_ptr(line)) };
    let line = line.to_string_lossy();
    let fields: Vec<&str> = line.trim_end_matches('\n').split('\t').collect();
    if let [name, _, value, source, limits, meaning] = fields[..] {
        rows.push(Row {
            name: name.to_owned(),
            value: value.to_owned(),
            source: source.to_owned(),
            limits: limits.to_owned(),
            meaning: meaning.to_owned(),
        });
    }
}

fn print_of(library: &Path) -> Option<Print> {
    let path = CString::new(OsStr::as_bytes(library.as_os_str())).ok()?;
    // SAFETY: both take strings ended by a zero; the symbol has that type in every version of the library.
    unsafe {
        let opened = dlopen(path.as_ptr(), RTLD_NOW);
        if opened.is_null() {
            return None;
        }
        let symbol = dlsym(opened, c"vmag_options_print".as_ptr());
        (!symbol.is_null()).then(|| std::mem::transmute::<*mut c_void, Print>(symbol))
    }
}

fn rows_of(library: &Path) -> Result<Vec<Row>> {
    let print = print_of(library).ok_or_else(|| {
        ToolError::new(
            format!("{} does not tell its options", library.display()),
            "it cannot be loaded, or has no function vmag_options_print",
            "give the path of a libvmag.so of this version with --lib or in VMAG_LIB",
        )
    })?;
    let mut rows: Vec<Row> = Vec::new();
    print(collect, std::ptr::addr_of_mut!(rows).cast());
    Ok(rows)
}

/// Prints the table; options that no source named are told as default.
pub fn run(arguments: &Arguments) -> Result<Status> {
    let rows = rows_of(&library::find(arguments.lib.as_deref())?)?;
    if let Some(unknown) = arguments
        .names
        .iter()
        .find(|name| !rows.iter().any(|row| row.name == **name))
    {
        return Err(ToolError::new(
            format!("there is no option {unknown}"),
            "the library's table has no row of that name",
            "`vmag options --all` prints all names",
        ));
    }
    for row in rows {
        let named = arguments.names.contains(&row.name);
        let mirrored = row.meaning.starts_with("jemalloc: ") && row.source == "default";
        if named || (arguments.names.is_empty() && (arguments.all || !mirrored)) {
            let limits = if row.limits.is_empty() {
                String::new()
            } else {
                format!(" ({})", row.limits)
            };
            println!(
                "{:<26} {:<12} {:<16} {}{}",
                row.name, row.value, row.source, row.meaning, limits
            );
        }
    }
    Ok(Status::Exited(0))
}
