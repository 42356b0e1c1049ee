//! HTTP as far as it is needed here: one question a connection, GET or HEAD.
//!
//! Whoever asks slowly, reads slowly, sends much or opens many connections keeps nobody else from an answer for longer than the times
//! below, and never ends the service.
//! SPDX-License-Identifier: BSD-2-Clause

use super::answers::{Answer, HEALTHY, Question};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Answered at the same time; each has a thread.
const CONNECTIONS_MOST: usize = 64;
/// As many more may ask whether we are healthy, which needs nothing: who watches over us would end us because others ask much.
const SPARE: usize = 16;
/// Lines of a question, all together.
const HEAD_BYTES_MOST: usize = 16 << 10;
/// What comes behind a question is read so far, that the answer arrives before the connection is cut.
const REST_BYTES_MOST: usize = 64 << 10;

/// How long a question, an answer and what comes behind may take on their way.
#[derive(Clone, Copy)]
pub struct Patience {
    pub question: Duration,
    pub answer: Duration,
    pub rest: Duration,
}

impl Patience {
    pub const USUAL: Patience = Patience {
        question: Duration::from_secs(10),
        answer: Duration::from_secs(60),
        rest: Duration::from_secs(1),
    };
}

/// Answers for ever.
pub fn serve(
    listener: &TcpListener,
    patience: Patience,
    answer: impl Fn(&Question) -> Answer + Send + Sync + 'static,
) -> ! {
    let (answer, open) = (Arc::new(answer), Arc::new(AtomicUsize::new(0)));
    let only_local = listener.local_addr().is_ok_and(|at| is_loopback(at.ip()));
    loop {
        let Ok((stream, _)) = listener.accept() else {
            // No descriptor is left for now, or the other side is gone already.
            thread::sleep(Duration::from_millis(50));
            continue;
        };
        let place = Place::take(&open);
        let count = open.load(Relaxed);
        if count > CONNECTIONS_MOST + SPARE {
            continue;
        }
        let is_crowd = count > CONNECTIONS_MOST;
        let answer = answer.clone();
        let talk = move || {
            let _place = place;
            let _ = talk(
                stream,
                patience,
                only_local,
                &|question| match is_crowd && question.path != HEALTHY {
                    true => Answer::text(503, "too many ask at the same time\n"),
                    false => answer(question),
                },
            );
        };
        // Without a thread the connection is closed.
        let _ = thread::Builder::new().spawn(talk);
    }
}

/// One of the open connections.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(open: &Arc<AtomicUsize>) -> Place {
        open.fetch_add(1, Relaxed);
        Place(open.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// That the questioner is gone is not our failure.
fn talk(
    mut stream: TcpStream,
    patience: Patience,
    only_local: bool,
    answer: &dyn Fn(&Question) -> Answer,
) -> io::Result<()> {
    let head = read_head(&mut stream, Instant::now() + patience.question)?;
    let asked = head
        .as_deref()
        .map_or(Err(Answer::text(431, "too much is asked\n")), |head| {
            parse(head, only_local)
        });
    let is_head = head.is_some_and(|head| head.starts_with(b"HEAD "));
    let answer = match asked {
        Ok(mut question) => {
            question.asker = stream.try_clone().ok();
            answer(&question)
        }
        Err(refusal) => refusal,
    };
    let until = Instant::now() + patience.answer;
    write_until(&mut stream, first_lines(&answer).as_bytes(), until)?;
    if !is_head {
        write_until(&mut stream, &answer.body, until)?;
    }
    stream.shutdown(Shutdown::Write)?;
    read_rest(&mut stream, Instant::now() + patience.rest)
}

fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

/// Up to the empty line; None: it is too long.
fn read_head(stream: &mut TcpStream, until: Instant) -> io::Result<Option<Vec<u8>>> {
    let (mut head, mut piece) = (Vec::new(), [0; 4096]);
    while head.len() <= HEAD_BYTES_MOST {
        stream.set_read_timeout(Some(left(until)?))?;
        let got = match stream.read(&mut piece) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(got) => got,
            // The service was stopped and continued.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        // The end may be in two pieces.
        let from = head.len().saturating_sub(3);
        head.extend(&piece[..got]);
        let has = |end: &[u8]| head[from..].windows(end.len()).any(|window| window == end);
        if has(b"\r\n\r\n") || has(b"\n\n") {
            return Ok(Some(head));
        }
    }
    Ok(None)
}

fn read_rest(stream: &mut TcpStream, until: Instant) -> io::Result<()> {
    let (mut piece, mut whole) = ([0; 4096], 0);
    while whole < REST_BYTES_MOST {
        stream.set_read_timeout(Some(left(until)?))?;
        match stream.read(&mut piece)? {
            0 => break,
            got => whole += got,
        }
    }
    Ok(())
}

fn write_until(stream: &mut TcpStream, mut bytes: &[u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(until)?))?;
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn parse(head: &[u8], only_local: bool) -> Result<Question, Answer> {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.lines();
    let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, url, version] = words[..] else {
        return Err(Answer::text(400, "that is no question in HTTP\n"));
    };
    if !version.starts_with("HTTP/1.") || url.is_empty() {
        return Err(Answer::text(400, "that is no question in HTTP/1\n"));
    }
    if !["GET", "HEAD"].contains(&method) {
        return Err(Answer::text(405, "only GET is answered\n"));
    }
    let fields: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(':')).collect();
    let values = |wanted: &str| -> Vec<&str> {
        let named = fields
            .iter()
            .filter(|(name, _)| name.trim().eq_ignore_ascii_case(wanted));
        named.map(|(_, value)| value.trim()).collect()
    };
    if only_local && !values("host").into_iter().all(is_local) {
        return Err(Answer::text(400, "here Host must be localhost or a loopback address\n"));
    }
    Ok(Question::parse(path_of(url), &values("accept").join(", ")))
}

/// A page from elsewhere, whose name was made to mean this machine (DNS rebinding), has its browser ask us under that name.
fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(is_loopback)
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// A proxy is asked for a whole address.
fn path_of(url: &str) -> &str {
    match url
        .strip_prefix("http://")
        .map(|rest| rest.find('/').map(|at| &rest[at..]))
    {
        None => url,
        Some(path) => path.unwrap_or("/"),
    }
}

fn first_lines(answer: &Answer) -> String {
    let reason = match answer.status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        _ => "Service Unavailable",
    };
    let allow = if answer.status == 405 {
        "Allow: GET, HEAD\r\n"
    } else {
        ""
    };
    format!(
        "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
        answer.status,
        answer.content_type,
        answer.body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Patience = Patience {
        question: Duration::from_millis(300),
        answer: Duration::from_millis(300),
        rest: Duration::from_millis(100),
    };

    /// Answers with what was asked; 8 MiB to /much.
    fn service() -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answer = |question: &Question| match question.path.as_str() {
            "/much" => Answer::text(200, "x".repeat(8 << 20)),
            path => Answer::text(200, format!("{path} {}", question.accept)),
        };
        thread::spawn(move || serve(&listener, SHORT, answer));
        address
    }

    fn ask(address: std::net::SocketAddr, question: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(question.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn questions_are_answered() {
        let address = service();
        let answer = ask(address, "GET /a HTTP/1.1\r\nHost: localhost\r\nACCEPT: text/x\r\n\r\n");
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\n/a text/x"),
            "{answer}"
        );
        let head = ask(address, "HEAD /a HTTP/1.0\n\n");
        assert!(
            head.contains("Content-Length: 3\r\n") && head.ends_with("\r\n\r\n"),
            "{head}"
        );
        assert!(ask(address, "GET http://x/b?c HTTP/1.1\r\n\r\n").ends_with("/b "));
        assert!(ask(address, "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nnine bytes").starts_with("HTTP/1.1 405 "));
    }

    #[test]
    fn what_is_no_question_is_told() {
        let address = service();
        for nonsense in [
            "\n\n",
            "GET /\r\n\r\n",
            "GET / HTTP/2.0\r\n\r\n",
            "GET  HTTP/1.1\r\n\r\n",
            "\u{1}\u{3}é\n\n",
        ] {
            assert!(ask(address, nonsense).starts_with("HTTP/1.1 400 "), "{nonsense:?}");
        }
        let long = format!("GET / HTTP/1.1\r\nX: {}", "y".repeat(HEAD_BYTES_MOST));
        assert!(ask(address, &long).starts_with("HTTP/1.1 431 "));
        assert_eq!(ask(address, "GET / HTT"), "");
    }

    #[test]
    fn who_listens_on_loopback_answers_to_its_own_names_only() {
        let address = service();
        for (host, status) in [
            ("localhost", 200),
            ("LocalHost:9470", 200),
            ("127.0.0.1:9470", 200),
            ("127.1.2.3", 200),
            ("[::1]:9470", 200),
            ("[::ffff:127.0.0.1]", 200),
            ("evil.example:9470", 400),
            ("localhost.evil.example", 400),
            ("127.0.0.1.evil.example", 400),
            ("[::1].evil.example", 400),
            ("10.0.0.1", 400),
            ("localhost\r\nhost: evil.example", 400),
        ] {
            let answer = ask(address, &format!("GET /a HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {answer}");
        }
        assert!(parse(b"GET / HTTP/1.1\r\nHost: server:9470\r\n\r\n", false).is_ok());
    }

    /// Those who never ask, never read the answer, and come in crowds.
    #[test]
    fn nobody_keeps_others_from_their_answers() {
        let address = service();
        let silent: Vec<TcpStream> = (0..CONNECTIONS_MOST + 40)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        for mut stream in silent.iter().skip(CONNECTIONS_MOST / 2) {
            let _ = stream.write_all(b"GET /much HTTP/1.1\r\n\r\n");
        }
        let start = Instant::now();
        while !ask_or_nothing(address).ends_with("/a ") {
            assert!(start.elapsed() < Duration::from_secs(20));
            thread::sleep(Duration::from_millis(20));
        }
        drop(silent);
    }

    /// A crowd that never asks does not make us look dead.
    #[test]
    fn who_watches_over_us_is_answered_in_a_crowd() {
        let address = service();
        let turned_away = (0..100).find(|_| {
            let silent: Vec<TcpStream> = (0..CONNECTIONS_MOST + 1)
                .map(|_| TcpStream::connect(address).unwrap())
                .collect();
            let healthy = ask(address, &format!("GET {HEALTHY} HTTP/1.1\r\n\r\n"));
            let other = ask(address, "GET /a HTTP/1.1\r\n\r\n");
            drop(silent);
            healthy.starts_with("HTTP/1.1 200 ") && other.starts_with("HTTP/1.1 503 ")
        });
        assert!(turned_away.is_some());
    }

    /// A crowd is turned away.
    fn ask_or_nothing(address: std::net::SocketAddr) -> String {
        let mut answer = String::new();
        if let Ok(mut stream) = TcpStream::connect(address) {
            let _ = stream.write_all(b"GET /a HTTP/1.1\r\n\r\n");
            let _ = stream.read_to_string(&mut answer);
        }
        answer
    }
}
