//! The allocators that a command can be run under: vmag, the C library's, and every peer that is found.
//!
//! Peers are looked for among the system's libraries, and in the list that `bench/peers/get.sh` leaves beside a build of
//! this command. The C library's stands for no preloading at all: for what the program runs on anyway.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::error::{Result, ToolError};
use crate::library;
use std::fs;
use std::path::{Path, PathBuf};

/// What a program runs on when nothing is preloaded.
pub const AS_IT_IS: &str = "glibc";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocator {
    pub name: String,
    /// To preload; None: nothing. Without symbolic links.
    pub library: Option<PathBuf>,
    pub version: Option<String>,
}

/// Files under which Debian and others install peers: the first that is there is taken.
const SYSTEM_PEERS: [(&str, &[&str]); 4] = [
    ("jemalloc", &["libjemalloc.so.2"]),
    ("mimalloc", &["libmimalloc.so.3", "libmimalloc.so.2", "libmimalloc.so"]),
    ("tcmalloc", &["libtcmalloc_minimal.so.4", "libtcmalloc.so.4"]),
    ("tbb", &["libtbbmalloc_proxy.so.2", "libtbbmalloc_proxy.so"]),
];

/// All that there are; `with` are the user's own, NAME=PATH. Of two with one name or one file the first counts.
pub fn find(vmag: &Path, with: &[(String, PathBuf)]) -> Result<Vec<Allocator>> {
    let mut found = Vec::new();
    add(&mut found, AS_IT_IS, None, None);
    add(&mut found, "vmag", Some(vmag.to_path_buf()), None);
    for (name, path) in with {
        let library = path.canonicalize().map_err(|error| no_library(name, path, error))?;
        library::check_separators(&library)?;
        if !add(&mut found, name, Some(library), None) {
            return Err(taken(name, path));
        }
    }
    for (name, version, path) in listed_peers() {
        if let Ok(library) = path.canonicalize() {
            add(&mut found, &name, Some(library), Some(version));
        }
    }
    for (name, files) in SYSTEM_PEERS {
        let places = files.iter().flat_map(|file| library::system_places(file));
        let mut libraries = places.filter_map(|place| place.canonicalize().ok());
        if let Some(library) = libraries.find(|library| !library::is_vmag(library)) {
            add(&mut found, name, Some(library), None);
        }
    }
    Ok(found)
}

/// Only those of these names, or all; always with the base, which comes first.
pub fn choose(found: Vec<Allocator>, only: Option<&[String]>, base: &str) -> Result<Vec<Allocator>> {
    let known: Vec<String> = found.iter().map(|allocator| allocator.name.clone()).collect();
    let wanted = only.unwrap_or(&known);
    if let Some(name) = wanted
        .iter()
        .chain([&base.to_string()])
        .find(|name| !known.contains(name))
    {
        return Err(ToolError::new(
            format!("there is no allocator named {name}"),
            format!("found are: {}", known.join(", ")),
            "name one of those, or give its library with --with NAME=PATH",
        ));
    }
    let (first, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|allocator| allocator.name == base);
    let others = others.into_iter().filter(|allocator| wanted.contains(&allocator.name));
    let chosen: Vec<_> = first.into_iter().chain(others).collect();
    if chosen.len() < 2 {
        return Err(ToolError::new(
            "there is nothing to compare",
            format!("{base} is the only allocator"),
            "install peers (bench/peers/get.sh), or give one with --with NAME=PATH",
        ));
    }
    Ok(chosen)
}

/// False: the name or the file is there already.
fn add(found: &mut Vec<Allocator>, name: &str, library: Option<PathBuf>, version: Option<String>) -> bool {
    let is_known = |there: &Allocator| there.name == name || (library.is_some() && there.library == library);
    if found.iter().any(is_known) {
        return false;
    }
    found.push(Allocator {
        name: name.to_string(),
        library,
        version,
    });
    true
}

/// Name, version and library of each line of the list, if there is one.
fn listed_peers() -> Vec<(String, String, PathBuf)> {
    let list = std::env::current_exe()
        .ok()
        .and_then(|tool| fs::read_to_string(tool.parent()?.parent()?.join("peers/versions.txt")).ok());
    parse_list(&list.unwrap_or_default())
}

fn parse_list(text: &str) -> Vec<(String, String, PathBuf)> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, version, _origin, path) = (words.next()?, words.next()?, words.next()?, words.next()?);
        Some((name.to_string(), version.to_string(), PathBuf::from(path)))
    };
    text.lines().filter_map(line).collect()
}

fn no_library(name: &str, path: &Path, error: std::io::Error) -> ToolError {
    ToolError::new(
        format!("there is no library {} for {name}", path.display()),
        error,
        "give the path of a shared library with --with NAME=PATH",
    )
}

fn taken(name: &str, path: &Path) -> ToolError {
    ToolError::new(
        format!("{name}={} is there twice", path.display()),
        "another allocator has this name or this file",
        "give every library once, and each another name",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(allocators: &[Allocator]) -> Vec<&str> {
        allocators.iter().map(|allocator| allocator.name.as_str()).collect()
    }

    fn three() -> Vec<Allocator> {
        let mut found = Vec::new();
        add(&mut found, AS_IT_IS, None, None);
        add(&mut found, "vmag", Some("/x/libvmag.so".into()), None);
        add(&mut found, "other", Some("/x/other.so".into()), None);
        found
    }

    #[test]
    fn a_name_or_a_file_counts_once() {
        let mut found = three();
        assert!(!add(&mut found, "other", Some("/y/other.so".into()), None));
        assert!(!add(&mut found, "third", Some("/x/other.so".into()), None));
        assert_eq!(names(&found), ["glibc", "vmag", "other"]);
    }

    #[test]
    fn the_base_comes_first_and_is_never_left_out() {
        let only = ["other".to_string()];
        assert_eq!(names(&choose(three(), Some(&only), "vmag").unwrap()), ["vmag", "other"]);
        assert_eq!(
            names(&choose(three(), None, "glibc").unwrap()),
            ["glibc", "vmag", "other"]
        );
        assert!(choose(three(), Some(&["another".to_string()]), "glibc").is_err());
        assert!(choose(three(), Some(&["glibc".to_string()]), "glibc").is_err());
    }

    #[test]
    fn the_list_of_peers_is_read() {
        let list = "jemalloc 5.3.1 crates.io:x /b/peers/libjemalloc.so\n\nhalf a line\n";
        assert_eq!(
            parse_list(list),
            [(
                "jemalloc".into(),
                "5.3.1".into(),
                PathBuf::from("/b/peers/libjemalloc.so")
            )]
        );
    }
}
