//! Debug information from debuginfod servers, by build id; asked for only with --debuginfod.
//!
//! The servers are those of DEBUGINFOD_URLS. What came is kept where elfutils and gdb keep it, so that each file comes
//! once for all of them.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::error::{Result, ToolError};
use crate::output::say;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// Largest file that is taken: debug information of a browser.
const MOST_BYTES: u64 = 8 << 30;
/// For a server that does not answer; elfutils' own default.
const TIMEOUT: Duration = Duration::from_secs(90);

/// The servers to ask: none unless the command line said so.
static SERVERS: OnceLock<Vec<String>> = OnceLock::new();

/// From now on files without debug information are asked for.
pub fn ask_servers() -> Result<()> {
    let urls: Vec<String> = env::var("DEBUGINFOD_URLS")
        .unwrap_or_default()
        .split_whitespace()
        .filter(|word| word.starts_with("http://") || word.starts_with("https://"))
        .map(|url| url.trim_end_matches('/').to_string())
        .collect();
    if urls.is_empty() {
        return Err(ToolError::new(
            "no debuginfod server to ask",
            "the environment variable DEBUGINFOD_URLS names none",
            "set it, for instance: DEBUGINFOD_URLS=https://debuginfod.debian.net",
        ));
    }
    SERVERS.get_or_init(|| urls);
    Ok(())
}

/// The debug information of a build id, as a file: from the cache, or from the first server that has it. None when servers
/// were not to be asked, or have nothing.
pub fn debug_file(build_id: &str) -> Option<PathBuf> {
    let servers = SERVERS.get()?;
    let file = cache().join(build_id).join("debuginfo");
    if fs::metadata(&file).is_ok_and(|found| found.len() > 0) {
        return Some(file);
    }
    servers.iter().find_map(|server| {
        let url = format!("{server}/buildid/{build_id}/debuginfo");
        match fetch(&url, &file) {
            Ok(true) => Some(file.clone()),
            Ok(false) => None,
            Err(error) => {
                say(format_args!("vmag: {url}: {error}; goes on without it\n"));
                None
            }
        }
    })
}

fn cache() -> PathBuf {
    let named = |variable: &str| {
        env::var_os(variable)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    named("DEBUGINFOD_CACHE_PATH")
        .or_else(|| named("XDG_CACHE_HOME").map(|folder| folder.join("debuginfod_client")))
        .or_else(|| named("HOME").map(|folder| folder.join(".cache/debuginfod_client")))
        .unwrap_or_else(|| env::temp_dir().join("debuginfod_client"))
}

/// False: the server does not have it. The file is there as a whole or not at all.
fn fetch(url: &str, file: &Path) -> io::Result<bool> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_connect(Some(TIMEOUT))
        .timeout_recv_response(Some(TIMEOUT))
        .user_agent(concat!("vmag/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
    let mut answer = match agent.get(url).call() {
        Ok(answer) => answer,
        Err(ureq::Error::StatusCode(404)) => return Ok(false),
        Err(error) => return Err(io::Error::other(error)),
    };
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    let mut body = answer.body_mut().with_config().limit(MOST_BYTES).reader();
    io::copy(&mut body, &mut new)?;
    new.persist(file).map_err(|error| error.error)?;
    Ok(true)
}
