//! Finds libvmag.so and puts it in front of LD_PRELOAD.
//!
//! Where it is looked for, first hit wins: `--lib`, `$VMAG_LIB`, `../lib` beside this binary and what distributions have
//! in its place, the system's library directories. A path that was named must exist; only the last two may pass to the next place.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::error::{Result, ToolError};
use crate::image;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const FILE_NAME: &str = "libvmag.so";

/// The library's absolute path, fit for LD_PRELOAD.
pub fn find(named: Option<&Path>) -> Result<PathBuf> {
    let path = match named.map(Path::to_path_buf).or_else(named_by_environment) {
        Some(path) => path,
        None => search()?,
    };
    let path = path.canonicalize().map_err(|error| {
        ToolError::new(
            format!("there is no library {}", path.display()),
            error,
            "give the path of libvmag.so with --lib or in VMAG_LIB; `make` builds it as build/lib/libvmag.so",
        )
    })?;
    check_separators(&path)?;
    Ok(path)
}

/// LD_PRELOAD for a run on vmag: the library first, then whatever the user already preloads.
pub fn prepend(library: &Path, preloaded: Option<&OsStr>) -> OsString {
    let mut value = library.as_os_str().to_owned();
    if let Some(others) = preloaded.filter(|others| !others.is_empty()) {
        value.push(":");
        value.push(others);
    }
    value
}

/// LD_PRELOAD for a run without vmag: what the user preloads, minus every libvmag; None when nothing is left.
pub fn without_vmag(preloaded: Option<&OsStr>) -> Option<OsString> {
    let is_separator = |byte: &u8| *byte == b':' || *byte == b' ';
    let kept: Vec<&[u8]> = preloaded?
        .as_bytes()
        .split(is_separator)
        .filter(|entry| !entry.is_empty() && !is_vmag(Path::new(OsStr::from_bytes(entry))))
        .collect();
    (!kept.is_empty()).then(|| OsStr::from_bytes(&kept.join(&b':')).to_owned())
}

/// By the file's name, links resolved, or by what is in it: vmag may be installed under the names of others.
pub fn is_vmag(path: &Path) -> bool {
    let file = path.canonicalize().unwrap_or(path.to_path_buf());
    let is_named_so = |path: &Path| {
        let name = path.file_name();
        name.is_some_and(|name| name.as_bytes().starts_with(FILE_NAME.as_bytes()))
    };
    is_named_so(path) || is_named_so(&file) || image::symbol(&file, "vmag_root").is_some()
}

fn named_by_environment() -> Option<PathBuf> {
    std::env::var_os("VMAG_LIB")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

fn search() -> Result<PathBuf> {
    let places: Vec<PathBuf> = beside().chain(system_places(FILE_NAME)).collect();
    if let Some(found) = places.iter().find(|place| place.is_file()) {
        return Ok(found.clone());
    }
    let listed: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    Err(ToolError::new(
        "libvmag.so was not found",
        format!("it is in none of these places: {}", listed.join(", ")),
        "build it with `make`, install it, or give its path with --lib PATH or in VMAG_LIB",
    ))
}

/// Where the library may have been installed together with this binary, whatever the prefix.
fn beside() -> impl Iterator<Item = PathBuf> {
    let tool = std::env::current_exe().ok();
    let prefix = tool.and_then(|tool| Some(tool.parent()?.parent()?.to_path_buf()));
    prefix.into_iter().flat_map(|prefix| {
        ["lib", "lib64", &format!("lib/{}", multiarch())].map(|lib| prefix.join(lib).join(FILE_NAME))
    })
}

fn multiarch() -> String {
    format!("{}-linux-gnu", std::env::consts::ARCH)
}

/// Where the system may have a library of that name, the likeliest place first.
pub fn system_places(file_name: &str) -> Vec<PathBuf> {
    let system = [
        "/usr/local/lib",
        "/usr/local/lib64",
        "/usr/lib",
        "/usr/lib64",
        "/lib",
        "/lib64",
    ];
    let multiarch_directories = ["/usr/local/lib", "/usr/lib", "/lib"].map(|lib| Path::new(lib).join(multiarch()));
    let directories = multiarch_directories.into_iter().chain(system.map(PathBuf::from));
    directories.map(|directory| directory.join(file_name)).collect()
}

/// Fails for a path that the loader would split.
pub fn check_separators(path: &Path) -> Result<()> {
    if path.as_os_str().as_bytes().iter().any(|byte| b" :".contains(byte)) {
        return Err(ToolError::new(
            format!("the library cannot be preloaded from {}", path.display()),
            "the dynamic loader splits LD_PRELOAD at blanks and colons, and the path has one",
            "copy the library to a path without blanks and colons and name that",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prepends_to_what_is_preloaded() {
        let library = Path::new("/x/libvmag.so");
        assert_eq!(prepend(library, None), "/x/libvmag.so");
        assert_eq!(prepend(library, Some(OsStr::new(""))), "/x/libvmag.so");
        assert_eq!(
            prepend(library, Some(OsStr::new("a.so b.so"))),
            "/x/libvmag.so:a.so b.so"
        );
    }

    #[test]
    fn takes_only_vmag_out() {
        let without = |value: &str| without_vmag(Some(OsStr::new(value)));
        assert_eq!(without("/x/libvmag.so"), None);
        assert_eq!(without("/x/libvmag.so.0:/y/libother.so"), Some("/y/libother.so".into()));
        assert_eq!(without("a.so b.so"), Some("a.so:b.so".into()));
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("libjemalloc.so.2");
        std::os::unix::fs::symlink(folder.path().join("libvmag.so.0"), &link).unwrap();
        std::fs::write(folder.path().join("libvmag.so.0"), "").unwrap();
        assert_eq!(without_vmag(Some(link.as_os_str())), None);
        assert_eq!(without_vmag(None), None);
    }

    #[test]
    fn a_named_library_must_exist() {
        let error = find(Some(Path::new("/nowhere/libvmag.so"))).unwrap_err();
        assert!(error.what.contains("/nowhere/libvmag.so"));
        assert_eq!(error.exit_code, 125);
    }

    #[test]
    fn a_path_the_loader_would_split_is_refused() {
        assert!(check_separators(Path::new("/a b/libvmag.so")).is_err());
        assert!(check_separators(Path::new("/a:b/libvmag.so")).is_err());
        assert!(check_separators(Path::new("/ab/libvmag.so")).is_ok());
    }
}
