//! A proxy that lies: HTTP/1.1 over real TCP, between `hexfloe` and one server, or any.
//!
//! It forwards each request on a connection of its own and closes both connections after the answer. [`Rule`]s pick single requests
//! and decide what becomes of them: never delivered, delivered and not answered, answered with something else, delivered twice.
//! Everything that passed is in its [`log`](Proxy::log).

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a request is held at most, for a client that has no time-out.
const HELD: Duration = Duration::from_secs(60);

/// One request, its body whole.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET`, …
    pub method: String,
    /// `HOST:PORT`, where the client says it, as it does to a proxy to anywhere.
    pub server: Option<String>,
    /// The path with its query.
    pub path: String,
    /// Names as the client wrote them.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// One answer, its body whole.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Headers but for those that say how the body is sent.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// What the client gets.
#[derive(Clone, Debug)]
pub enum Reply {
    /// An answer.
    Answer(Answer),
    /// A connection that is reset.
    Reset,
    /// Nothing, until the client gives up.
    Silence,
}

/// What passed.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// What the client asked.
    pub request: Request,
    /// How often the server got it.
    pub delivered: usize,
    /// The status that the client got; none if it got no answer.
    pub status: Option<u16>,
}

/// On which side of the server something goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The server never sees the request.
    Before,
    /// The server has done it.
    After,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection is reset.
    Reset,
    /// No answer until the client gives up.
    TimeOut,
    /// An error of this status; 429 and 503 ask to come back after a second.
    Status(u16),
    /// An answer of status 200 that is not what was asked for.
    Garbage,
    /// An answer of status 200 with the table as it was before.
    OldMetadata,
    /// The request is delivered twice. Before: at once, and the second answer is given. After: once more when it has been answered.
    Duplicate,
}

type Matches = Box<dyn Fn(&Request) -> bool + Send + Sync>;
type Action = Arc<dyn Fn(&Request, &Server) -> Reply + Send + Sync>;

/// What becomes of some requests.
pub struct Rule {
    matches: Matches,
    which: RangeInclusive<usize>,
    action: Action,
    met: usize,
}

impl Rule {
    /// A rule for every request that `matches`.
    pub fn new(
        matches: impl Fn(&Request) -> bool + Send + Sync + 'static,
        action: impl Fn(&Request, &Server) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self { matches: Box::new(matches), which: 1..=usize::MAX, action: Arc::new(action), met: 0 }
    }

    /// A rule under which something goes wrong.
    pub fn fault(matches: impl Fn(&Request) -> bool + Send + Sync + 'static, side: Side, fault: Fault) -> Self {
        Self::new(matches, move |request, server| server.fault(request, side, fault))
    }

    /// A rule that changes answers.
    pub fn rewrite(
        matches: impl Fn(&Request) -> bool + Send + Sync + 'static,
        change: impl Fn(&Request, &mut Answer) + Send + Sync + 'static,
    ) -> Self {
        Self::new(matches, move |request, server| {
            server.forward(request).map_or(Reply::Reset, |mut answer| {
                change(request, &mut answer);
                Reply::Answer(answer)
            })
        })
    }

    /// Only for these of the requests that match, counted from 1.
    #[must_use]
    pub fn only(self, which: RangeInclusive<usize>) -> Self {
        Self { which, ..self }
    }
}

/// The server behind the proxy, as a rule sees it: how often the request at hand was delivered is counted.
pub struct Server {
    address: SocketAddr,
    delivered: Mutex<usize>,
}

/// A listening proxy; closed with this value.
pub struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    /// The one server there is; otherwise clients name it.
    server: Option<SocketAddr>,
    rules: Mutex<Vec<Rule>>,
    log: Mutex<Vec<Exchange>>,
    delay_ms: AtomicU64,
    closed: AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Proxy {
    /// A proxy before the server at `127.0.0.1:PORT`.
    ///
    /// # Errors
    ///
    /// If that is no address, or if there is no port to listen on.
    pub fn before(server: &str) -> io::Result<Self> {
        let server = server.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "no address"))?;
        Self::listen(Some(server))
    }

    /// A proxy to whatever server the client names, as `HTTP_PROXY` and `HTTPS_PROXY` take it.
    ///
    /// # Errors
    ///
    /// If there is no port to listen on.
    pub fn to_anywhere() -> io::Result<Self> {
        Self::listen(None)
    }

    fn listen(server: Option<SocketAddr>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            server,
            rules: Mutex::default(),
            log: Mutex::default(),
            delay_ms: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming() {
                if accepting.closed.load(Ordering::Relaxed) {
                    break;
                }
                let state = Arc::clone(&accepting);
                // What goes wrong on a connection is for its client to find out.
                thread::spawn(move || client.and_then(|client| serve(&state, client)));
            }
        });
        Ok(Self { address, state })
    }

    /// `127.0.0.1:PORT`, where it listens.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// `http://127.0.0.1:PORT`.
    pub fn uri(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds a rule. Of the rules that match a request the first acts.
    pub fn add(&self, rule: Rule) {
        locked(&self.state.rules).push(rule);
    }

    /// Has every request wait before it is forwarded.
    pub fn slow_down(&self, delay: Duration) {
        self.state.delay_ms.store(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Forgets rules and delay: the server can be reached again.
    pub fn behave(&self) {
        locked(&self.state.rules).clear();
        self.slow_down(Duration::ZERO);
    }

    /// What passed so far.
    pub fn log(&self) -> Vec<Exchange> {
        locked(&self.state.log).clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.closed.store(true, Ordering::Relaxed);
        // It looks only when somebody comes.
        drop(TcpStream::connect(self.address));
    }
}

impl Server {
    /// Delivers a request.
    pub fn forward(&self, request: &Request) -> io::Result<Answer> {
        *locked(&self.delivered) += 1;
        self.ask(request)
    }

    /// A request of the proxy's own, which does not count as delivered.
    pub fn ask(&self, request: &Request) -> io::Result<Answer> {
        let mut server = TcpStream::connect(self.address)?;
        let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.path);
        for (name, value) in &request.headers {
            let hop = ["connection", "content-length", "transfer-encoding", "expect", "keep-alive"];
            // What is compressed cannot be rewritten; but a header that is signed has to stay.
            let signed = request.header("authorization").is_some_and(|text| text.contains("accept-encoding"));
            let compression = name.eq_ignore_ascii_case("accept-encoding") && !signed;
            if !compression && !hop.contains(&name.to_ascii_lowercase().as_str()) {
                head += &format!("{name}: {value}\r\n");
            }
        }
        head += &format!("content-length: {}\r\nconnection: close\r\n\r\n", request.body.len());
        server.write_all(head.as_bytes())?;
        server.write_all(&request.body)?;
        let (first, headers) = read_head(&mut server)?;
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(unreadable)?;
        let empty = request.method == "HEAD" || status == 204 || status == 304;
        let body = if empty { Vec::new() } else { read_body(&mut server, &headers)? };
        Ok(Answer { status, headers, body })
    }

    /// Delivers a request after a while, whatever its client has been told meanwhile.
    pub fn forward_later(&self, request: &Request, delay: Duration) {
        let server = Self { address: self.address, delivered: Mutex::default() };
        let request = request.clone();
        thread::spawn(move || {
            wait(delay);
            drop(server.forward(&request));
        });
    }

    /// Does what a fault does.
    pub fn fault(&self, request: &Request, side: Side, fault: Fault) -> Reply {
        let before = match fault {
            // The table as it is, asked for by the same client.
            Fault::OldMetadata => {
                let load = Request { method: "GET".to_owned(), body: Vec::new(), ..request.clone() };
                match self.ask(&load) {
                    Ok(answer) => Some(answer),
                    Err(_) => return Reply::Reset,
                }
            }
            _ => None,
        };
        let mut answered = None;
        if side == Side::After || fault == Fault::Duplicate {
            answered = self.forward(request).ok();
        }
        match fault {
            Fault::Reset => Reply::Reset,
            Fault::TimeOut => Reply::Silence,
            Fault::Status(status) => Reply::Answer(Answer::error(status)),
            Fault::Garbage => {
                Reply::Answer(Answer { status: 200, headers: Vec::new(), body: b"<html>OK</html>".to_vec() })
            }
            Fault::OldMetadata => before.map_or(Reply::Reset, Reply::Answer),
            Fault::Duplicate => {
                let again = self.forward(request).ok();
                let given = if side == Side::Before { again } else { answered };
                given.map_or(Reply::Reset, Reply::Answer)
            }
        }
    }
}

impl Request {
    /// A header, whatever the case of its name.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// Whether it is a commit to a table of an Iceberg REST catalog, or the creation of one by commit.
    pub fn is_commit(&self) -> bool {
        self.method == "POST" && self.path.contains("/namespaces/") && self.path.contains("/tables/")
    }

    /// Whether it loads a table of an Iceberg REST catalog.
    pub fn is_load(&self) -> bool {
        self.method == "GET" && self.path.contains("/namespaces/") && self.path.contains("/tables/")
    }
}

impl Answer {
    /// An error as an Iceberg REST catalog words it.
    pub fn error(status: u16) -> Self {
        let body = format!(r#"{{"error":{{"message":"said the proxy","type":"FaultException","code":{status}}}}}"#);
        let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        if matches!(status, 429 | 503) {
            headers.push(("retry-after".to_owned(), "1".to_owned()));
        }
        Self { status, headers, body: body.into_bytes() }
    }
}

/// A server that takes its time.
fn wait(delay: Duration) {
    #[expect(clippy::disallowed_methods, reason = "real processes wait for it")]
    thread::sleep(delay);
}

fn serve(state: &State, mut client: TcpStream) -> io::Result<()> {
    let (request, last) = read_request(&mut client)?;
    let address = match (state.server, &request.server) {
        (Some(server), _) => server,
        (None, Some(named)) => named.to_socket_addrs()?.next().ok_or_else(unreadable)?,
        (None, None) => return Err(unreadable()),
    };
    let delay = Duration::from_millis(state.delay_ms.load(Ordering::Relaxed));
    if !delay.is_zero() {
        wait(delay);
    }
    let action = locked(&state.rules).iter_mut().fold(None, |chosen: Option<Action>, rule| {
        if !(rule.matches)(&request) {
            return chosen;
        }
        rule.met += 1;
        chosen.or_else(|| rule.which.contains(&rule.met).then(|| Arc::clone(&rule.action)))
    });
    let server = Server { address, delivered: Mutex::new(0) };
    if request.method == "CONNECT" {
        return tunnel(state, client, last, request, &server, action);
    }
    let reply = match action {
        Some(action) => action(&request, &server),
        None => server.forward(&request).map_or(Reply::Reset, Reply::Answer),
    };
    let status = if let Reply::Answer(answer) = &reply { Some(answer.status) } else { None };
    let head = request.method == "HEAD";
    let delivered = *locked(&server.delivered);
    locked(&state.log).push(Exchange { request, delivered, status });
    match reply {
        // Closed with a byte unread: that is answered by a reset.
        Reply::Reset => Ok(()),
        Reply::Silence => {
            last.take(&mut client)?;
            until_closed(&mut client)
        }
        Reply::Answer(answer) => {
            last.take(&mut client)?;
            write_answer(&mut client, &answer, head)?;
            // The client has to have read it before the connection goes.
            client.shutdown(Shutdown::Write)?;
            until_closed(&mut client)
        }
    }
}

/// What is encrypted is passed on as it is. A rule that does not answer by delivering has the connection closed: on which side of
/// what the server does, nobody can tell.
fn tunnel(
    state: &State,
    mut client: TcpStream,
    last: Last,
    request: Request,
    server: &Server,
    action: Option<Action>,
) -> io::Result<()> {
    let failed = action.is_some_and(|action| !matches!(action(&request, server), Reply::Answer(_)));
    let status = (!failed).then_some(200);
    locked(&state.log).push(Exchange { request, delivered: usize::from(!failed), status });
    if failed {
        return Ok(());
    }
    let mut upstream = TcpStream::connect(server.address)?;
    last.take(&mut client)?;
    client.write_all(b"HTTP/1.1 200 connected\r\n\r\n")?;
    let (mut from, mut to) = (client.try_clone()?, upstream.try_clone()?);
    let up = thread::spawn(move || {
        let passed = io::copy(&mut from, &mut to);
        // One side has said all that it has to say.
        drop(to.shutdown(Shutdown::Write));
        passed
    });
    io::copy(&mut upstream, &mut client)?;
    drop(client.shutdown(Shutdown::Write));
    drop(up.join());
    Ok(())
}

fn until_closed(client: &mut TcpStream) -> io::Result<()> {
    client.set_read_timeout(Some(HELD))?;
    let mut rest = [0; 1024];
    while client.read(&mut rest)? > 0 {}
    Ok(())
}

fn write_answer(client: &mut TcpStream, answer: &Answer, head: bool) -> io::Result<()> {
    let mut text = format!("HTTP/1.1 {} said\r\n", answer.status);
    for (name, value) in &answer.headers {
        let length = name.eq_ignore_ascii_case("content-length");
        let hop = ["connection", "transfer-encoding", "keep-alive"].contains(&name.to_ascii_lowercase().as_str());
        // A HEAD is answered with the length of what is not sent.
        if !hop && (head || !length) {
            text += &format!("{name}: {value}\r\n");
        }
    }
    if !head && answer.status != 204 && answer.status != 304 {
        text += &format!("content-length: {}\r\n", answer.body.len());
    }
    text += "connection: close\r\n\r\n";
    client.write_all(text.as_bytes())?;
    client.write_all(if head { &[] } else { &answer.body })
}

// ---------------------------------------------------------------- reading messages

/// The last byte of a request. It has been seen and not taken, so that the connection can still be reset.
struct Last;

impl Last {
    fn see(client: &TcpStream) -> io::Result<(Self, u8)> {
        let mut byte = [0];
        if client.peek(&mut byte)? == 0 {
            return Err(unreadable());
        }
        Ok((Self, byte[0]))
    }

    fn take(self, client: &mut TcpStream) -> io::Result<()> {
        client.read_exact(&mut [0])
    }
}

fn read_request(client: &mut TcpStream) -> io::Result<(Request, Last)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r") {
        head.push(byte(client)?);
    }
    let (first, headers) = parse_head(&head)?;
    let mut words = first.split(' ').map(str::to_owned);
    let (Some(method), Some(target)) = (words.next(), words.next()) else { return Err(unreadable()) };
    let (server, path) = split_target(&method, target);
    let length = header(&headers, "content-length").and_then(|length| length.parse::<usize>().ok());
    let chunked = header(&headers, "transfer-encoding").is_some();
    let mut body = Vec::new();
    let mut last = Last::see(client)?.0;
    if chunked || length.is_some_and(|length| length > 0) {
        last.take(client)?;
        if header(&headers, "expect").is_some() {
            client.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        match length {
            Some(length) => {
                body.resize(length - 1, 0);
                client.read_exact(&mut body)?;
                let (seen, end) = Last::see(client)?;
                body.push(end);
                last = seen;
            }
            None => {
                body = read_chunks(client)?;
                last = Last::see(client)?.0;
            }
        }
    }
    Ok((Request { method, server, path, headers, body }, last))
}

/// Of what a client asks: the server that it names, as it does when it takes us for its proxy, and the path.
fn split_target(method: &str, target: String) -> (Option<String>, String) {
    if method == "CONNECT" {
        return (Some(target), String::new());
    }
    let Some(rest) = target.strip_prefix("http://") else { return (None, target) };
    let (server, path) = rest.find('/').map_or((rest, "/"), |slash| rest.split_at(slash));
    let server = if server.contains(':') { server.to_owned() } else { format!("{server}:80") };
    (Some(server), path.to_owned())
}

fn read_head(stream: &mut TcpStream) -> io::Result<(String, Vec<(String, String)>)> {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(byte(stream)?);
        }
        let (first, headers) = parse_head(&head)?;
        // "Continue" is not yet the answer.
        if first.split(' ').nth(1) != Some("100") {
            return Ok((first, headers));
        }
    }
}

fn parse_head(head: &[u8]) -> io::Result<(String, Vec<(String, String)>)> {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.split("\r\n");
    let first = lines.next().ok_or_else(unreadable)?.to_owned();
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect();
    Ok((first, headers))
}

fn read_body(stream: &mut TcpStream, headers: &[(String, String)]) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if header(headers, "transfer-encoding").is_some() {
        body = read_chunks(stream)?;
        byte(stream)?;
    } else if let Some(length) = header(headers, "content-length") {
        body.resize(length.parse().map_err(|_| unreadable())?, 0);
        stream.read_exact(&mut body)?;
    } else {
        stream.read_to_end(&mut body)?;
    }
    Ok(body)
}

/// All but the line feed at the very end.
fn read_chunks(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = line(stream)?;
        let size = usize::from_str_radix(line.split(';').next().unwrap_or("").trim(), 16).map_err(|_| unreadable())?;
        if size == 0 {
            break;
        }
        let start = body.len();
        body.resize(start + size, 0);
        stream.read_exact(&mut body[start..])?;
        line_end(stream)?;
    }
    loop {
        // Trailers, up to an empty line.
        let first = byte(stream)?;
        if first == b'\r' {
            return Ok(body);
        }
        line(stream)?;
    }
}

fn line(stream: &mut TcpStream) -> io::Result<String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.push(byte(stream)?);
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

fn line_end(stream: &mut TcpStream) -> io::Result<()> {
    if line(stream)?.is_empty() { Ok(()) } else { Err(unreadable()) }
}

fn byte(stream: &mut TcpStream) -> io::Result<u8> {
    let mut byte = [0];
    stream.read_exact(&mut byte)?;
    Ok(byte[0])
}

fn header<'h>(headers: &'h [(String, String)], name: &str) -> Option<&'h str> {
    headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

fn unreadable() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not HTTP")
}
