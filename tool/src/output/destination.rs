//! A file that is written whole at the end of a run, or not at all: what was there before stays until then.
//! SPDX-License-Identifier: BSD-2-Clause

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub enum Destination {
    /// Devices, pipes, and what the shell opened for us: written as they are.
    Stream(Box<dyn Write>),
    File(PathBuf),
}

impl Destination {
    /// Fails where nothing could be written at the end: a run of hours must not end in "cannot write".
    pub fn open(path: &Path) -> io::Result<Destination> {
        let is_there = path.exists();
        let is_stream = path.starts_with("/dev") || path.starts_with("/proc") || (is_there && !path.is_file());
        if is_stream {
            let file = OpenOptions::new().append(true).open(path)?;
            return Ok(Destination::Stream(Box::new(file)));
        }
        if is_there {
            OpenOptions::new().append(true).open(path)?;
        } else {
            beside(path)?;
        }
        Ok(Destination::File(path.to_path_buf()))
    }

    pub fn write(&mut self, content: &[u8]) -> io::Result<()> {
        let path = match self {
            Destination::Stream(stream) => return stream.write_all(content),
            Destination::File(path) => path.canonicalize().unwrap_or(path.clone()),
        };
        let Ok(mut new) = beside(&path) else {
            // Only the file itself may be written.
            return File::create(&path)?.write_all(content);
        };
        new.write_all(content)?;
        if let Ok(old) = fs::metadata(&path) {
            new.as_file().set_permissions(old.permissions())?;
        }
        new.persist(&path).map(drop).map_err(|error| error.error)
    }
}

/// In the same folder, so that it can take the place of the other; it goes when it does not.
fn beside(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    tempfile::Builder::new()
        .prefix(".vmag-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder.unwrap_or(Path::new(".")))
}
