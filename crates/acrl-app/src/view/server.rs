//! A small HTTP server for this machine only: it listens on 127.0.0.1, answers GET and HEAD, and closes.
//!
//! DNS rebinding: a page of another site can make a browser send requests to this server under its own host name. Only
//! requests whose `Host` is a name of the local machine are answered; others get 403. Each connection has a thread, so a
//! slow client does not block others.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Limit of the request line and headers together, in bytes.
const MAX_REQUEST_HEAD_BYTES: usize = 16 * 1024;
/// Limit of simultaneous connections. Browsers open a handful.
const MAX_CONNECTIONS: usize = 64;
/// Read and write timeout.
const IO_TIMEOUT: Duration = Duration::from_secs(10);
/// Sources from which a page may load: itself and this server, so that nothing leaves this machine whatever a report holds.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:";

/// HTTP response.
pub(crate) struct Response {
    status: u16,
    content_type: &'static str,
    body: Body,
}

enum Body {
    Bytes(Vec<u8>),
    File(File, u64),
}

impl Response {
    /// Status 200 with a body.
    pub(crate) fn ok(content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, content_type, body: Body::Bytes(body.into()) }
    }

    /// A status with its reason as body.
    pub(crate) fn status(status: u16) -> Self {
        let body = if status == 204 { String::new() } else { format!("{}\n", reason(status)) };
        Self { status, content_type: "text/plain; charset=utf-8", body: Body::Bytes(body.into()) }
    }

    /// A file of `folder`, if it is inside of it: neither `..` nor a symbolic link leads out. `path` is as in a URL.
    pub(crate) fn file(folder: &Path, path: &str) -> Self {
        Self::open(folder, path).unwrap_or_else(|| Self::status(404))
    }

    fn open(folder: &Path, path: &str) -> Option<Self> {
        let mut full = PathBuf::from(folder);
        for part in path.trim_start_matches('/').split('/') {
            // Also no hidden files, and no `C:` or `\` on Windows.
            if part.is_empty() || part.starts_with('.') || part.contains(['\\', ':', '\0']) {
                return None;
            }
            full.push(part);
        }
        let full = full.canonicalize().ok()?;
        if !full.starts_with(folder.canonicalize().ok()?) {
            return None;
        }
        let file = File::open(&full).ok()?;
        let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some(Self { status: 200, content_type: content_type(&full), body: Body::File(file, metadata.len()) })
    }

    fn write(self, to: &mut impl Write, head_only: bool) -> io::Result<()> {
        let length = match &self.body {
            Body::Bytes(bytes) => bytes.len() as u64,
            Body::File(_, length) => *length,
        };
        let allow = if self.status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {length}\r\n{allow}Cache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\nContent-Security-Policy: {CONTENT_SECURITY_POLICY}\r\n\
             Connection: close\r\n\r\n",
            self.status,
            reason(self.status),
            self.content_type,
        );
        to.write_all(head.as_bytes())?;
        match self.body {
            _ if head_only => {}
            Body::Bytes(bytes) => to.write_all(&bytes)?,
            // A file that grows in the meantime is truncated to the announced Content-Length.
            Body::File(file, length) => io::copy(&mut file.take(length), to).map(|_| ())?,
        }
        to.flush()
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        _ => "Internal Server Error",
    }
}

/// The content type, by the file's ending.
fn content_type(path: &Path) -> &'static str {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("json") => "application/json",
        Some("jsonl" | "txt" | "toml") => "text/plain; charset=utf-8",
        Some("csv") => "text/csv; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        _ => "application/octet-stream",
    }
}

/// A running server. Dropping it stops it.
pub(crate) struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on a port (0: any free one) and responds with what `handler` returns for a path: decoded, from the first
    /// `/` on, without what follows a `?`.
    pub(crate) fn start(
        port: u16,
        handler: impl Fn(&str) -> Response + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, handler) = (Arc::clone(&stop), Arc::new(handler));
        let thread = std::thread::spawn(move || accept(&listener, &stopped, &handler));
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// URL of the server.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the thread up.
        if TcpStream::connect_timeout(&self.address, IO_TIMEOUT).is_ok() {
            let _ = self.thread.take().map(JoinHandle::join);
        }
    }
}

fn accept<A>(listener: &TcpListener, stop: &AtomicBool, handler: &Arc<A>)
where
    A: Fn(&str) -> Response + Send + Sync + 'static,
{
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else {
            // Transient, such as out of file descriptors.
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        if open.fetch_add(1, Ordering::SeqCst) >= MAX_CONNECTIONS {
            open.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let (handler, open) = (Arc::clone(handler), Arc::clone(&open));
        std::thread::spawn(move || {
            // Errors of clients that have disconnected are ignored.
            let _ = serve(stream, handler.as_ref());
            open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

fn serve(mut stream: TcpStream, handler: &impl Fn(&str) -> Response) -> io::Result<()> {
    stream.set_read_timeout(Some(IO_TIMEOUT))?;
    stream.set_write_timeout(Some(IO_TIMEOUT))?;
    let Some((response, head_only)) = read_and_respond(&mut stream, handler)? else { return Ok(()) };
    response.write(&mut stream, head_only)?;
    // Unread input, such as a body, would make the system reset the connection before the response is received.
    stream.shutdown(Shutdown::Write)?;
    io::copy(&mut stream.take(1 << 20), &mut io::sink()).map(|_| ())
}

/// The response to the request of a stream, and whether it is for HEAD. `None` if there was no request.
fn read_and_respond(
    stream: &mut impl Read,
    handler: &impl Fn(&str) -> Response,
) -> io::Result<Option<(Response, bool)>> {
    let mut buffer = Vec::new();
    loop {
        let mut chunk = [0; 2048];
        let read = stream.read(&mut chunk)?;
        buffer.extend_from_slice(&chunk[..read]);
        let mut headers = [httparse::EMPTY_HEADER; 96];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&buffer) {
            Ok(httparse::Status::Complete(_)) => {
                return Ok(Some((respond(&request, handler), request.method == Some("HEAD"))));
            }
            Ok(httparse::Status::Partial) if read == 0 => return Ok(None),
            Ok(httparse::Status::Partial) if buffer.len() < MAX_REQUEST_HEAD_BYTES => {}
            Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                return Ok(Some((Response::status(431), false)));
            }
            Err(_) => return Ok(Some((Response::status(400), false))),
        }
    }
}

fn respond(request: &httparse::Request<'_, '_>, handler: &impl Fn(&str) -> Response) -> Response {
    let mut hosts = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return Response::status(400) };
    if !std::str::from_utf8(host.value).is_ok_and(is_local) {
        return Response::status(403);
    }
    if !matches!(request.method, Some("GET" | "HEAD")) {
        return Response::status(405);
    }
    match request.path.and_then(decode_path) {
        Some(path) => handler(&path),
        None => Response::status(400),
    }
}

/// Whether a `Host` names this machine. Its port may be another one where it is forwarded, as by `ssh -L`.
fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => host,
    };
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|local| name.eq_ignore_ascii_case(local))
}

/// The path of a request's target with its `%xx` resolved.
fn decode_path(target: &str) -> Option<String> {
    let path = target.split(['?', '#']).next().filter(|path| path.starts_with('/'))?;
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        let byte = if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            digits.iter().all(u8::is_ascii_hexdigit).then_some(())?;
            u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
        } else {
            byte
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// A folder with a file in it, one beside it, and a server of the folder.
    fn test_server() -> (tempfile::TempDir, Server) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("run/figures")).unwrap();
        std::fs::write(folder.path().join("secret.txt"), "secret").unwrap();
        std::fs::write(folder.path().join("run/.lock"), "secret").unwrap();
        std::fs::write(folder.path().join("run/figures/a b.svg"), "<svg/>").unwrap();
        let root = folder.path().join("run");
        let server = Server::start(0, move |path| Response::file(&root, path)).unwrap();
        (folder, server)
    }

    /// Sends bytes and returns the whole response.
    fn send(server: &Server, request: &str) -> String {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn get(server: &Server, path: &str) -> String {
        send(server, &format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", server.address))
    }

    #[test]
    fn files_are_served_with_their_type_and_without_caching() {
        let (_folder, server) = test_server();
        let answer = get(&server, "/figures/a%20b.svg?x=1");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\n<svg/>"), "{answer}");
        for header in ["Content-Type: image/svg+xml", "Content-Length: 6", "Cache-Control: no-store"] {
            assert!(answer.contains(header), "{answer}");
        }
        let head = send(&server, "HEAD /figures/a%20b.svg HTTP/1.1\r\nhost: localhost\r\n\r\n");
        assert!(head.contains("Content-Length: 6\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    }

    #[test]
    fn paths_outside_the_folder_are_rejected() {
        let (folder, server) = test_server();
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(folder.path().join("secret.txt"), folder.path().join("run/link.txt"))
                .unwrap();
            std::os::unix::fs::symlink(folder.path(), folder.path().join("run/up")).unwrap();
        }
        let _ = &folder;
        for path in [
            "/../secret.txt",
            "/%2e%2e/secret.txt",
            "/figures/../../secret.txt",
            "/..%2fsecret.txt",
            "/..%5csecret.txt",
            "//secret.txt",
            "/link.txt",
            "/up/secret.txt",
            "/.lock",
            "/figures",
            "/figures/",
            "/",
            "/unknown.svg",
        ] {
            let answer = get(&server, path);
            assert!(answer.starts_with("HTTP/1.1 404 "), "{path}: {answer}");
            assert!(!answer.contains("secret"), "{path}: {answer}");
        }
    }

    #[test]
    fn foreign_host_headers_are_rejected() {
        let (_folder, server) = test_server();
        let status = |host: &str| {
            let answer = send(&server, &format!("GET /figures/a%20b.svg HTTP/1.1\r\n{host}\r\n"));
            answer[9..12].parse::<u16>().unwrap()
        };
        for host in ["localhost", "LocalHost:1", "127.0.0.1:80", "[::1]:8080"] {
            assert_eq!(status(&format!("Host: {host}\r\n")), 200, "{host}");
        }
        for host in
            ["example.org", "localhost.example.org:80", "127.0.0.1.nip.io", "10.0.0.1", "", "localhost:x"]
        {
            assert_eq!(status(&format!("Host: {host}\r\n")), 403, "{host}");
        }
        assert_eq!(status(""), 400);
        assert_eq!(status("Host: localhost\r\nHost: example.org\r\n"), 400);
    }

    #[test]
    fn other_methods_and_malformed_requests_are_rejected() {
        let (_folder, server) = test_server();
        let post = send(&server, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc");
        assert!(post.starts_with("HTTP/1.1 405 ") && post.contains("Allow: GET, HEAD\r\n"), "{post}");
        for (request, status) in [
            ("nonsense\r\n\r\n".to_owned(), "400"),
            ("GET figures HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), "400"),
            ("GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), "400"),
            ("GET /%ff HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), "400"),
            ("GET /%+1 HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), "400"),
            (format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(2 * MAX_REQUEST_HEAD_BYTES)), "431"),
        ] {
            let answer = send(&server, &request);
            assert_eq!(&answer[9..12], status, "{request}");
        }
    }

    #[test]
    fn silent_client_does_not_block_others() {
        let (_folder, server) = test_server();
        let _silent: Vec<_> = (0..8).map(|_| TcpStream::connect(server.address).unwrap()).collect();
        let begin = Instant::now();
        assert!(get(&server, "/figures/a%20b.svg").contains(" 200 "));
        drop(server);
        assert!(begin.elapsed() < IO_TIMEOUT / 2);
    }
}
