//! Sockets: whether the other side has left.
//! SPDX-License-Identifier: BSD-2-Clause

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Whether the other side ends its half of the connection within that time, whatever it has sent and nobody has read.
pub fn is_left_within(stream: &TcpStream, time: Duration) -> bool {
    let until = Instant::now() + time;
    let mut look = libc::pollfd {
        fd: stream.as_raw_fd(),
        events: libc::POLLRDHUP,
        revents: 0,
    };
    loop {
        let left = until.saturating_duration_since(Instant::now()).as_millis();
        // SAFETY: one descriptor, which is open as long as the stream.
        let found = unsafe { libc::poll(&mut look, 1, left.min(i32::MAX as u128) as i32) };
        if found >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return found != 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{Shutdown, TcpListener};

    #[test]
    fn who_leaves_is_noticed_behind_what_was_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut asker = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        asker.write_all(b"more").unwrap();
        assert!(!is_left_within(&stream, Duration::from_millis(50)));
        let waiting = std::thread::spawn(move || is_left_within(&stream, Duration::from_secs(100)));
        asker.shutdown(Shutdown::Write).unwrap();
        assert!(waiting.join().unwrap());
    }
}
